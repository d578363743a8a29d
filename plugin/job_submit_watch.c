/* SPDX-License-Identifier: Apache-2.0 */
#include "job_submit_watch.h"

#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "accounting.h"
#include "base/new_file.h"
#include "cluster_facts.h"
#include "config.h"
#include "job_submit_metrics.h"
#include "job_submit_record.h"
#include "slurm_compat.h"

enum {
	CLUSTER_MAX_AGE = 30, /* seconds between queries of the cluster; queried only on demand */
	CLUSTER_RETRY = 5,
	ACCOUNTING_AGE = 30, /* seconds between queries of users; only if p4d.conf depends on them */
	START = 10,          /* seconds for which a new thread waits for the cluster */
	METRICS_AGE = 60,    /* seconds after which metrics are written anew */
	METRICS_PAUSE = 2,   /* minimum seconds between two files if metrics change */
};

extern slurm_conf_t slurm_conf;

/* The hooks read these, and the thread replaces them, under `published`. */
static pthread_rwlock_t published = PTHREAD_RWLOCK_INITIALIZER;
static p4d_site *site;
static p4d_cluster cluster;
static p4d_associations *associations; /* NULL: not queried, or no answer yet */
static uint64_t generation = 1;
static atomic_bool cluster_wanted = true;
static time_t started; /* set before any hook can read it */

/* Used only by p4d_watch_start, p4d_watch_stop and the thread. */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static pthread_t thread;
static bool running, stopping;
static char conf_path[4096], kept_path[4096];
static uint32_t conf_uid;
static char failure[480]; /* why the file is not in effect; "": it is in effect */
static time_t cluster_due, accounting_due;
static time_t loaded; /* time at which the effective configuration was read */
static char metrics_path[4096], metrics_failure[480];
static time_t metrics_due;

static time_t monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void publish_site(p4d_site *fresh)
{
	p4d_error err;

	if (fresh && p4d_site_load_presets(fresh, &err) < 0)
		slurm_error("p4d: [P4D%03d] %s; plans are not compared with all presets", err.code, err.text);
	pthread_rwlock_wrlock(&published);
	p4d_site *old = site;
	site = fresh;
	generation++;
	pthread_rwlock_unlock(&published);
	p4d_site_free(old);
}

/* Writes a file. text NULL: the caller had no memory for it. */
static int put_file(const char *path, mode_t mode, const char *text, p4d_error *err)
{
	p4d_new_file file;

	if (!text)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %s", path);
	if (p4d_new_file_open(&file, path, err) < 0)
		return -1;
	fchmod(file.fd, mode);
	const bool failed = p4d_new_file_write(&file, text, strlen(text), err) < 0 ||
			    p4d_new_file_sync(&file, err) < 0 || p4d_new_file_publish(&file, err) < 0;
	p4d_new_file_abandon(&file);
	return failed ? -1 : 0;
}

/*
 * Stores the last good configuration, which is used if slurmctld starts with a bad file. Otherwise, after a
 * bad edit and a restart, the default mode would replace `enforce`.
 */
static void keep_site(const p4d_site *good)
{
	p4d_error err;
	char *text = p4d_site_text(good);
	const int rc = put_file(kept_path, 0600, text, &err);

	free(text);
	if (rc < 0)
		slurm_error("p4d: [P4D%03d] %s", err.code, err.text);
}

/* Loads the file. The reason why it cannot be used is logged only once. */
static p4d_site *load_conf(const char *otherwise)
{
	p4d_error err;
	p4d_site *fresh = p4d_site_load(conf_path, NULL, true, conf_uid, &err);

	if (fresh) {
		failure[0] = '\0';
		keep_site(fresh);
	} else if (strcmp(failure, err.text)) {
		snprintf(failure, sizeof(failure), "%s", err.text);
		slurm_error("p4d: [P4D%03d] %s; %s", err.code, err.text, otherwise);
	}
	return fresh;
}

static p4d_mode usual_mode(void)
{
	return p4d_site_policy(site, &(p4d_site_job){.partition = "-"}).mode;
}

/* Logs the effective settings, at the start and after each change. */
static void say_site(const char *what, const char *path)
{
	const p4d_mode usual = usual_mode();
	const p4d_mode most = p4d_site_policy_strictest(site).mode;

	slurm_info("p4d: %s %s (p4d " PACKAGE_VERSION "): mode = %s%s%s%s", what,
		   *path ? path : "no p4d.conf", p4d_site_mode_name(usual), most != usual ? " (" : "",
		   most != usual ? p4d_site_mode_name(most) : "", most != usual ? " in sections)" : "");
	const char *fault = p4d_record_fault(site);
	if (fault)
		slurm_error(
		    "p4d: [P4D%03d] %s: record = extra: %s, so slurmctld stores no records; fix: record = "
		    "admin_comment",
		    P4D_E_CONF_RANGE, path, fault);
	loaded = time(NULL);
}

/*
 * Loads the file if it has changed. It tries a broken file again each time, because the mistake may be in a
 * file that it includes.
 */
static void check_conf(void)
{
	if (!failure[0] && p4d_site_is_current(site))
		return;
	p4d_site *fresh = load_conf("the previous configuration stays in force");
	if (fresh) {
		publish_site(fresh);
		accounting_due = 0;
		say_site("reloaded", conf_path);
	}
}

static void check_cluster(time_t now)
{
	p4d_cluster fresh = {0};

	if (!atomic_load(&cluster_wanted) || now < cluster_due)
		return;
	if (p4d_cluster_load(&fresh, &(p4d_cluster_conf){.conf = &slurm_conf}) < 0) {
		cluster_due = now + (p4d_watch_is_starting() ? 1 : CLUSTER_RETRY);
		return;
	}
	cluster_due = now + CLUSTER_MAX_AGE;
	atomic_store(&cluster_wanted, false);
	pthread_rwlock_wrlock(&published);
	p4d_cluster old = cluster;
	cluster = fresh;
	generation++;
	pthread_rwlock_unlock(&published);
	p4d_cluster_free(&old);
}

/*
 * Looks up the uids of users who are named in p4d.conf, because without accounting p4d knows no other users.
 * Names that do not resolve are not users of this cluster (yet).
 */
static int add_named_users(p4d_associations *to, p4d_error *err)
{
	const char *name;
	struct passwd entry, *found;
	char buf[4096];
	int rc = 0;

	for (size_t i = 0; !rc && (name = p4d_site_user_at(site, i)); i++)
		if (!getpwnam_r(name, &entry, buf, sizeof(buf), &found) && found)
			rc = p4d_associations_add_user(to, entry.pw_uid, name, err);
	if (rc == 0)
		p4d_associations_ready(to);
	return rc;
}

static void publish_associations(p4d_associations *fresh)
{
	pthread_rwlock_wrlock(&published);
	p4d_associations *old = associations;
	associations = fresh;
	generation++;
	pthread_rwlock_unlock(&published);
	p4d_associations_free(old);
}

static void check_accounting(time_t now)
{
	p4d_error err;

	if (now < accounting_due || !site || !p4d_site_policy_depends_on_accounts(site))
		return;
	p4d_associations *fresh = p4d_accounting_load(&err);
	accounting_due = now + (fresh ? ACCOUNTING_AGE : CLUSTER_RETRY);
	if (!fresh)
		return;
	if (add_named_users(fresh, &err) < 0)
		p4d_associations_free(fresh);
	else
		publish_associations(fresh);
}

/*
 * If the metrics path in p4d.conf has changed, removes p4d's file at the old path, so that nobody mistakes
 * old numbers for new ones.
 */
static void follow_metrics_path(const char *path)
{
	if (!strcmp(path, metrics_path))
		return;
	if (*metrics_path)
		unlink(metrics_path);
	snprintf(metrics_path, sizeof(metrics_path), "%s", path);
	metrics_failure[0] = '\0';
	metrics_due = 0;
}

/* Writes the metrics if there are new ones, and at least once a minute: the file's age shows whether
 * slurmctld is alive. */
static void check_metrics(time_t now)
{
	static uint64_t written;
	const char *path = site ? p4d_site_metrics(site) : NULL;
	p4d_text text = {.grows = true};
	p4d_error err;

	follow_metrics_path(path ? path : "");
	const bool old = now >= metrics_due;
	if (!*metrics_path ||
	    (!old && (p4d_metrics_calls() == written || now < metrics_due - METRICS_AGE + METRICS_PAUSE)))
		return;
	metrics_due = now + METRICS_AGE;
	written = p4d_metrics_calls();
	p4d_metrics_text(&text, &(p4d_metrics_state){.release = PACKAGE_VERSION,
						     .mode = p4d_site_mode_name(usual_mode()),
						     .conf_is_valid = !failure[0],
						     .loaded = (uint64_t)loaded});
	if (put_file(metrics_path, 0644, text.truncated ? NULL : text.at, &err) == 0) {
		metrics_failure[0] = '\0';
	} else if (strcmp(metrics_failure, err.text)) {
		snprintf(metrics_failure, sizeof(metrics_failure), "%s", err.text);
		slurm_error("p4d: [P4D%03d] metrics: %s; fix: a directory that SlurmUser may write to",
			    err.code, err.text);
	}
	free(text.at);
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
		check_accounting(until.tv_sec);
		check_metrics(until.tv_sec);
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
	/* slurmctld has its own thread for signals */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	stopping = false;
	cluster_due = accounting_due = metrics_due = 0;
	running = !pthread_create(&thread, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!running) {
		pthread_cond_destroy(&wake);
		slurm_error("p4d: cannot watch %s, because no thread could be started; after an edit, "
			    "restart slurmctld",
			    conf_path);
	}
}

/* Makes the configuration at the start; NULL if not even the default can be made. */
static p4d_site *first_site(void)
{
	p4d_error err;
	p4d_site *fresh = load_conf("the last good configuration, or else mode = observe, is in force");

	if (fresh)
		return fresh;
	fresh = p4d_site_load(kept_path, NULL, true, conf_uid, &err);
	if (fresh) {
		slurm_info("p4d: the last good configuration is in force: %s", kept_path);
		return fresh;
	}
	slurm_info("p4d: there is no configuration, so p4d runs in mode observe (%s)", err.text);
	fresh = p4d_site_default(NULL, P4D_MODE_OBSERVE, &err);
	if (!fresh)
		slurm_error("p4d: [P4D%03d] %s; jobs are not checked until this is fixed", err.code,
			    err.text);
	return fresh;
}

void p4d_watch_start(const char *path, uint32_t trusted_uid, const char *state)
{
	snprintf(conf_path, sizeof(conf_path), "%s", path);
	snprintf(kept_path, sizeof(kept_path), "%s/p4d.conf.good", state);
	conf_uid = trusted_uid;
	failure[0] = '\0';
	started = monotonic();
	publish_site(first_site());
	if (site)
		say_site("started with", p4d_site_path(site));
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
	publish_associations(NULL);
	p4d_cluster_free(&cluster);
	generation++;
	atomic_store(&cluster_wanted, true);
}

const p4d_site *p4d_watch_acquire(uint64_t *number)
{
	pthread_rwlock_rdlock(&published);
	if (number)
		*number = generation;
	return site;
}

void p4d_watch_release(void)
{
	pthread_rwlock_unlock(&published);
}

bool p4d_watch_is_starting(void)
{
	return !cluster.count && monotonic() - started < START;
}

const p4d_cluster *p4d_watch_cluster(void *unused)
{
	(void)unused;
	atomic_store(&cluster_wanted, true);
	return cluster.count ? &cluster : NULL;
}

void p4d_watch_identify(p4d_job *job, uint32_t uid)
{
	job->associations = associations;
	if (!job->user)
		job->user = p4d_associations_user(associations, uid);
}
