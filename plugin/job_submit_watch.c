/* SPDX-License-Identifier: Apache-2.0 */
#include "job_submit_watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cluster_facts.h"
#include "slurm_compat.h"

enum {
	CLUSTER_MAX_AGE = 30, /* seconds; refreshed on demand only */
	CLUSTER_RETRY = 5,
};

/* Tells when a file was replaced, edited or got other permissions. */
typedef struct stamp {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
} stamp;

/* Read by the hooks, replaced by the thread, under `published`. */
static pthread_rwlock_t published = PTHREAD_RWLOCK_INITIALIZER;
static p4d_site *site;
static p4d_cluster cluster;
static atomic_bool cluster_wanted = true;

/* Only p4d_watch_start, p4d_watch_stop and the thread touch these. */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static pthread_t thread;
static bool running, stopping;
static char conf_path[4096];
static uint32_t conf_uid;
static stamp conf_stamp;
static time_t cluster_due;

static stamp stamp_of(const char *path)
{
	stamp now = {0};
	struct stat st;

	if (!stat(path, &st)) {
		now.device = st.st_dev;
		now.inode = st.st_ino;
		now.size = st.st_size;
		now.modified = st.st_mtim;
		now.changed = st.st_ctim;
	}
	return now;
}

static bool same_stamp(const stamp *a, const stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static void publish_site(p4d_site *fresh)
{
	pthread_rwlock_wrlock(&published);
	p4d_site *old = site;
	site = fresh;
	pthread_rwlock_unlock(&published);
	p4d_site_free(old);
}

static void log_error(const char *what, const p4d_error *err)
{
	slurm_error("p4d: [P4D%03d] %s; %s", err->code, err->text, what);
}

/* Reloads a changed p4d.conf; a bad edit is logged once and changes nothing. */
static void check_conf(void)
{
	stamp now = stamp_of(conf_path);
	p4d_error err;

	if (same_stamp(&now, &conf_stamp))
		return;
	conf_stamp = now;
	if (!now.inode) {
		slurm_error("p4d: %s was removed; the previous configuration stays in force", conf_path);
		return;
	}
	p4d_site *fresh = p4d_site_load(conf_path, P4D_DATADIR, true, conf_uid, &err);
	if (!fresh) {
		log_error("the previous configuration stays in force", &err);
		return;
	}
	publish_site(fresh);
	slurm_info("p4d: reloaded %s", conf_path);
}

static void check_cluster(time_t now)
{
	p4d_cluster fresh = {0};

	if (!atomic_load(&cluster_wanted) || now < cluster_due)
		return;
	if (p4d_cluster_load(&fresh, NULL) < 0) {
		cluster_due = now + CLUSTER_RETRY;
		return;
	}
	cluster_due = now + CLUSTER_MAX_AGE;
	atomic_store(&cluster_wanted, false);
	pthread_rwlock_wrlock(&published);
	p4d_cluster old = cluster;
	cluster = fresh;
	pthread_rwlock_unlock(&published);
	p4d_cluster_free(&old);
}

static void *watch(void *unused)
{
	struct timespec until;

	(void)unused;
	pthread_mutex_lock(&control);
	while (!stopping) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec++;
		while (!stopping && pthread_cond_timedwait(&wake, &control, &until) != ETIMEDOUT)
			;
		if (stopping)
			break;
		pthread_mutex_unlock(&control);
		check_conf();
		check_cluster(until.tv_sec);
		pthread_mutex_lock(&control);
	}
	pthread_mutex_unlock(&control);
	return NULL;
}

static void start_thread(void)
{
	pthread_condattr_t attr;
	sigset_t all, old;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&wake, &attr);
	pthread_condattr_destroy(&attr);
	/* slurmctld has a thread for signals */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	stopping = false;
	cluster_due = 0;
	running = !pthread_create(&thread, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!running) {
		pthread_cond_destroy(&wake);
		slurm_error("p4d: cannot watch %s (no thread); edits need a restart", conf_path);
	}
}

void p4d_watch_start(const char *path, uint32_t trusted_uid)
{
	p4d_error err;

	snprintf(conf_path, sizeof(conf_path), "%s", path);
	conf_uid = trusted_uid;
	conf_stamp = stamp_of(conf_path);
	p4d_site *fresh = NULL;
	if (conf_stamp.inode) {
		fresh = p4d_site_load(conf_path, P4D_DATADIR, true, trusted_uid, &err);
		if (!fresh)
			log_error("p4d uses its defaults", &err);
	}
	if (!fresh) {
		fresh = p4d_site_default(P4D_DATADIR, &err);
		if (!fresh)
			log_error("jobs are not checked until this is fixed", &err);
	}
	publish_site(fresh);
	start_thread();
}

void p4d_watch_stop(void)
{
	if (running) {
		pthread_mutex_lock(&control);
		stopping = true;
		pthread_cond_signal(&wake);
		pthread_mutex_unlock(&control);
		pthread_join(thread, NULL);
		pthread_cond_destroy(&wake);
		running = false;
	}
	publish_site(NULL);
	p4d_cluster_free(&cluster);
	atomic_store(&cluster_wanted, true);
}

const p4d_site *p4d_watch_acquire(void)
{
	pthread_rwlock_rdlock(&published);
	return site;
}

void p4d_watch_release(void)
{
	pthread_rwlock_unlock(&published);
}

const p4d_cluster *p4d_watch_cluster(void *unused)
{
	(void)unused;
	atomic_store(&cluster_wanted, true);
	return cluster.count ? &cluster : NULL;
}
