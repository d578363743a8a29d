/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slurm/slurm.h>

/*
 * Loads job_submit_p4d.so as slurmctld does, without Slurm running. It exports the symbols of slurmctld
 * that the plugin uses. Its allocator aborts on foreign memory and counts live blocks, so that a leak or a
 * foreign pointer fails a test instead of crashing slurmctld.
 */

/* Opaque to the plugin. */
struct job_record {
	job_desc_msg_t *desc;
};

typedef struct fakehost {
	void *library;
	int (*job_submit)(job_desc_msg_t *desc, uint32_t uid, char **err_msg);
	void *job_modify;
	int (*init)(void);
	int (*fini)(void);
} fakehost;

/* Loads the plugin and calls init, with slurm.conf in this directory. Exits with a message on failure. */
void fakehost_open(fakehost *host, const char *plugin, const char *directory);
void fakehost_close(fakehost *host);

/* The uid of the submitting user. */
enum { FAKEHOST_UID = 1000 };

/*
 * Adds an association to slurmctld's copy of the accounting. user NULL: the association of the account
 * itself. account NULL: removes all. QOS 1 is normal, 0 is none. QOS 2 is large, which partition bare also
 * has.
 */
void fakehost_account(const char *user, uint32_t uid, const char *account, const char *parent,
		      uint32_t qos_id, bool is_default);

/* Calls job_submit and returns its code. *message is what the user sees ("": nothing), valid until the
 * next call. */
int fakehost_submit(fakehost *host, job_desc_msg_t *desc, const char **message);

/*
 * Stops or starts the simulated clock. The plugin reuses a verdict within the second in which it made it.
 * false, the default: each submission gets a new second, so the plugin judges each job. true: all
 * submissions are in the same second.
 */
void fakehost_stop_clock(bool stopped);

/* Calls job_modify for a job with this description; message as above (always "" before Slurm 23.02). */
int fakehost_modify(fakehost *host, job_desc_msg_t *update, job_desc_msg_t *current, const char **message);

/* Sets SchedulerParameters as a reconfiguration does, under the lock of the configuration; NULL: none. */
void fakehost_scheduler_parameters(const char *text);

/* How often the plugin took the lock of the configuration. Blocks if the plugin still holds the lock. */
unsigned fakehost_conf_locks(void);

/* Allocates zeroed memory for slurm_xfree, like slurmctld. */
void *fakehost_alloc(size_t size);
void slurm_xfree(void **pointer);
char *slurm_xstrdup(const char *text);

/* A description with every field unset, as Slurm initializes it. */
job_desc_msg_t *fakehost_desc(void);
void fakehost_free(job_desc_msg_t *desc);

void fakehost_set(char **field, const char *text);
void fakehost_env(job_desc_msg_t *desc, const char *name, const char *value);
void fakehost_spank_env(job_desc_msg_t *desc, const char *name, const char *value);

/* Number of blocks that must still be freed by slurm_xfree. */
size_t fakehost_alive(void);

/* Returns what the plugin logged since the last fakehost_forget, or the end of it if it is long. */
const char *fakehost_log(void);
void fakehost_forget(void);
