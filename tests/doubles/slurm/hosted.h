/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Functions for tests that run job_submit_p4d.so in the fake host, with the site of plans.h. Include it
 * after support.h. */
#include "doubles/slurm/fakehost.h"
#include "doubles/slurm/plans.h"

#define HOSTED_GOOD "model=llama13b tp=8"
/* a model that fits 80 GB GPUs but not 40 GB ones */
#define HOSTED_MEDIUM \
	"model=llama13b tp=8 cp=1 pp=1 vpp=1 micro-batch=16 recompute=none framework=p4d seq-len=2048"
#define HOSTED_LARGE \
	"model=llama2-70b tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=p4d seq-len=4096"

extern fakehost hosted;
extern const char *hosted_said; /* the messages that the user saw for the last job */

/* Submits a job and frees it. `hosted_said` must begin with this code ("": no message). */
void hosted_expect(job_desc_msg_t *desc, bool accepted, const char *code);

/* Like hosted_expect, for scontrol update. Frees the change and returns the plugin's code. */
int hosted_update(job_desc_msg_t *change, job_desc_msg_t *current);

/* The entry of a variable in an environment, which must have it. */
char **hosted_variable(char **list, uint32_t count, const char *name);

/* Sets a variable in the job's environment, or in all three places where Slurm keeps it. NULL removes it. */
void hosted_edit(job_desc_msg_t *desc, const char *name, const char *value);
void hosted_edit_everywhere(job_desc_msg_t *desc, const char *name, const char *value);

const char *hosted_plan(job_desc_msg_t *desc);

/* How often, and with which pause, tests look for a result of the plugin's thread. The thread works once a
 * second, or less often on a busy machine. */
enum { HOSTED_TRIES = 30000, HOSTED_TRY_US = 10000 };

/* Waits for the plugin's thread to log this. */
bool hosted_logged(const char *text);

/* The group's set-up and tear-down; *state is the directory of the site. */
int hosted_start(void **state);
int hosted_stop(void **state);

/* Checks that the test and the plugin have freed all memory that they took from Slurm. */
int hosted_count(void **state);
int hosted_leaks(void **state);
#define HOSTED_TEST(name) cmocka_unit_test_setup_teardown(name, hosted_count, hosted_leaks)
