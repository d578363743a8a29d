/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_JOB_SUBMIT_WATCH_H
#define P4D_JOB_SUBMIT_WATCH_H

#include "job/job.h"
#include "site/site.h"

/*
 * What the guard in slurmctld needs from outside: p4d.conf and the GPUs of the live cluster. A thread looks
 * at the file once a second and asks the cluster now and then; the hooks, which run under slurmctld's locks,
 * only read what it left.
 */

/* Loads path, or the default when it is unusable (which is logged), and starts the thread. Never fails. */
void p4d_watch_start(const char *path, uint32_t trusted_uid);

/* Stops and joins the thread, frees everything. p4d_watch_start may follow. */
void p4d_watch_stop(void);

/*
 * Keeps site and cluster as they are until p4d_watch_release. Returns NULL when there is no configuration at
 * all (release nonetheless).
 */
const p4d_site *p4d_watch_acquire(void);
void p4d_watch_release(void);

/* A p4d_cluster_source: what is known of the cluster; call between acquire and release. */
const p4d_cluster *p4d_watch_cluster(void *unused);

#endif
