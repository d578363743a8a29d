/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Differences between Slurm 22.05 and 26.05, and symbols that libslurmfull exports without declaring them in
 * a public header.
 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <slurm/spank.h> /* also slurm_info() and slurm_error() */

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0)
#error "p4d needs Slurm 22.05 or newer"
#endif

/*
 * Since 26.05, slurm_load_job and slurm_kill_job take a step id, and the response to a submission contains
 * one.
 */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
#define P4D_STEP_OF_JOB(id) ((slurm_step_id_t){.job_id = (id), .step_id = NO_VAL, .step_het_comp = NO_VAL})
#define P4D_LOAD_JOB(reply, id, flags) slurm_load_job(reply, P4D_STEP_OF_JOB(id), flags)
#define P4D_KILL_JOB(id, signal) slurm_kill_job(P4D_STEP_OF_JOB(id), signal, 0)
#define P4D_RESPONSE_JOB_ID(response) ((response)->step_id.job_id)
#else
#define P4D_LOAD_JOB(reply, id, flags) slurm_load_job(reply, id, flags)
#define P4D_KILL_JOB(id, signal) slurm_kill_job(id, signal, 0)
#define P4D_RESPONSE_JOB_ID(response) ((response)->job_id)
#endif

/* The job id that an administrator requests; NO_VAL: none. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define P4D_DESC_JOB_ID(desc) ((desc)->step_id.job_id)
#else
#define P4D_DESC_JOB_ID(desc) ((desc)->job_id)
#endif

/* Jobs have the field Extra since 23.02. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
#define P4D_HAS_EXTRA 1
#else
#define P4D_HAS_EXTRA 0
#endif

/* Ends a step as scancel does; Slurm has changed the arguments twice. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define P4D_CANCEL_STEP(job, step) \
	slurm_kill_job_step(&(slurm_step_id_t){.job_id = (job), .step_id = (step), .step_het_comp = NO_VAL}, \
			    SIGKILL, 0)
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
#define P4D_CANCEL_STEP(job, step) slurm_kill_job_step(job, step, SIGKILL, 0)
#else
#define P4D_CANCEL_STEP(job, step) slurm_kill_job_step(job, step, SIGKILL)
#endif

/* SelectTypeParameters with memory. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
#define P4D_SELECT_MEMORY SELECT_MEMORY
#else
#define P4D_SELECT_MEMORY CR_MEMORY
#endif

/* Since 23.02, job_modify can return a reason to the user. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
#define P4D_MODIFY_ERR_MSG 1
#else
#define P4D_MODIFY_ERR_MSG 0
#endif

/* Slurm frees such memory with slurm_xfree. Memory from any other allocator crashes slurmctld. */
extern char *slurm_xstrdup(const char *text);
extern void slurm_xfree(void **pointer);
/* The lock under which Slurm rereads slurm.conf. It returns &slurm_conf. */
extern slurm_conf_t *slurm_conf_lock(void);
extern void slurm_conf_unlock(void);
/* P4D_XCALLOC: zeroes; NULL without memory. */
extern void *slurm_xcalloc(size_t count, size_t size, bool clear, bool try, const char *file, int line,
			   const char *function);
#define P4D_XCALLOC(count, size) slurm_xcalloc(count, size, true, true, __FILE__, __LINE__, __func__)
