/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"
#include "site/site.h"

/*
 * Data that slurmctld's guard needs: p4d.conf, the GPUs of the live cluster and, if p4d.conf depends on
 * them, users, accounts and QOSes. A thread checks the file once a second and queries the cluster as
 * needed. The hooks run under slurmctld's locks, so they only read the results.
 */

/*
 * Loads `path` and starts the thread. If the file cannot be used (which is logged), the last good
 * configuration is in effect; the directory `state` has a copy of it. Without a copy, the default is in
 * effect. Never fails.
 */
void p4d_watch_start(const char *path, uint32_t trusted_uid, const char *state);

/* Stops and joins the thread, and frees everything. p4d_watch_start may be called again. */
void p4d_watch_stop(void);

/*
 * Locks site and cluster until p4d_watch_release. Returns NULL without any configuration (release it anyway).
 * *generation (may be NULL) changes whenever the site or the cluster changes.
 */
const p4d_site *p4d_watch_acquire(uint64_t *generation);
void p4d_watch_release(void);

/* A p4d_cluster_source: the cluster as last seen; call between acquire and release. */
const p4d_cluster *p4d_watch_cluster(void *unused);

/* Whether slurmctld started only seconds ago and p4d does not know the cluster yet. Call it between
 * acquire and release. */
bool p4d_watch_is_starting(void);

/* Adds to the job what slurmctld knows about the user; it is valid until release. Call it between acquire
 * and release. */
void p4d_watch_identify(p4d_job *job, uint32_t uid);
