/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tests of job_submit_p4d.so in the fake host, at the site of plans.h. Include after support.h. */
#include "doubles/slurm/fakehost.h"
#include "doubles/slurm/plans.h"

#define HOSTED_GOOD "model=llama13b tp=8"
/* fits 80 GB GPUs but not 40 GB ones */
#define HOSTED_MEDIUM \
	"model=llama13b tp=8 cp=1 pp=1 vpp=1 micro-batch=16 recompute=none framework=p4d seq-len=2048"
#define HOSTED_LARGE \
	"model=llama2-70b tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=p4d seq-len=4096"

extern fakehost hosted;
extern const char *hosted_said; /* what the user saw of the last job */

/* Submits, frees the job; the code in `hosted_said` must be this one ("" for silence). */
void hosted_expect(job_desc_msg_t *desc, bool accepted, const char *code);

/* The same for scontrol update: frees the change, returns its code. */
int hosted_update(job_desc_msg_t *change, job_desc_msg_t *current);

/* A variable of an environment, which must be there. */
char **hosted_variable(char **list, uint32_t count, const char *name);

/* Sets a variable of the job's environment, or of all three places; NULL removes it. */
void hosted_edit(job_desc_msg_t *desc, const char *name, const char *value);
void hosted_edit_everywhere(job_desc_msg_t *desc, const char *name, const char *value);

const char *hosted_plan(job_desc_msg_t *desc);

/* What is waited for, this often: the plugin's thread checks once a second, or when a loaded machine lets it.
 */
enum { HOSTED_TRIES = 30000, HOSTED_TRY_US = 10000 };

/* Waits for the plugin's thread to log this. */
bool hosted_logged(const char *text);

/* The group's set-up and tear-down; *state is the directory of the site. */
int hosted_start(void **state);
int hosted_stop(void **state);

/* A test, and the plugin, must free all memory that it takes from Slurm. */
int hosted_count(void **state);
int hosted_leaks(void **state);
#define HOSTED_TEST(name) cmocka_unit_test_setup_teardown(name, hosted_count, hosted_leaks)
