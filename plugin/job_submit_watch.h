/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"
#include "site/site.h"

/*
 * What the guard in slurmctld needs from outside: p4d.conf, the GPUs of the live cluster, and where p4d.conf
 * depends on them, its users, accounts and QOSes. A thread checks the file once a second and queries the
 * cluster as needed; the hooks, which run under slurmctld's locks, only read its results.
 */

/*
 * Loads path and starts the thread. If path cannot be used (which is logged), the last good configuration is
 * in force, of which the directory `state` has a copy; without a copy, the default. Never fails.
 */
void p4d_watch_start(const char *path, uint32_t trusted_uid, const char *state);

/* Stops and joins the thread, frees everything. p4d_watch_start may follow. */
void p4d_watch_stop(void);

/*
 * Locks site and cluster until p4d_watch_release. Returns NULL without any configuration (release it anyway).
 * *generation (may be NULL) changes whenever the site or the cluster changes.
 */
const p4d_site *p4d_watch_acquire(uint64_t *generation);
void p4d_watch_release(void);

/* A p4d_cluster_source: the cluster as last seen; call between acquire and release. */
const p4d_cluster *p4d_watch_cluster(void *unused);

/* The first seconds after slurmctld's start, in which the cluster is not known yet; call between acquire and
 * release. */
bool p4d_watch_is_starting(void);

/* Adds what slurmctld knows about the job's user, valid until release; call between acquire and release. */
void p4d_watch_identify(p4d_job *job, uint32_t uid);
