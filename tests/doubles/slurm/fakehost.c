/* SPDX-License-Identifier: Apache-2.0 */
#include "doubles/slurm/fakehost.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <slurm/slurm_version.h>
#include <slurm/slurmdb.h>
#include <slurm/spank.h>

/* Symbols that libslurmfull and slurmctld export, but no header declares. */
extern slurm_conf_t slurm_conf;
char *slurm_xstrdup(const char *text);
void slurm_xfree(void **pointer);
slurm_conf_t *slurm_conf_lock(void);
void slurm_conf_unlock(void);
job_desc_msg_t *copy_job_record_to_job_desc(struct job_record *record);
void slurm_free_job_desc_msg(job_desc_msg_t *desc);
void *slurm_xcalloc(size_t count, size_t size, bool clear, bool try, const char *file, int line,
		    const char *function);

slurm_conf_t slurm_conf;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t alive;
static char logged[16 << 20]; /* large, because a test may submit jobs for minutes, with a line for each */
static size_t used;

/* ---- memory: a header marks the blocks that this host allocated ---- */

typedef struct block {
	uint64_t mark;
	uint64_t size;
} block;

#define MARK UINT64_C(0x7034642d686f7374)

void *fakehost_alloc(size_t size)
{
	block *b = calloc(1, sizeof(*b) + size);

	if (!b)
		abort();
	b->mark = MARK;
	b->size = size;
	__atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
	return b + 1;
}

void slurm_xfree(void **pointer)
{
	if (!*pointer)
		return;
	block *b = (block *)*pointer - 1;
	if (b->mark != MARK) {
		fprintf(stderr, "slurm_xfree of memory that is not Slurm's\n");
		abort();
	}
	b->mark = 0;
	free(b);
	*pointer = NULL;
	__atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
}

void *slurm_xcalloc(size_t count, size_t size, bool clear, bool try, const char *file, int line,
		    const char *function)
{
	(void)clear;
	(void)try;
	(void)file;
	(void)line;
	(void)function;
	return fakehost_alloc(count * size);
}

char *slurm_xstrdup(const char *text)
{
	return text ? strcpy(fakehost_alloc(strlen(text) + 1), text) : NULL;
}

size_t fakehost_alive(void)
{
	return __atomic_load_n(&alive, __ATOMIC_RELAXED);
}

/* ---- log ---- */

static void log_line(const char *format, va_list args)
{
	pthread_mutex_lock(&lock);
	if (used > sizeof(logged) / 2)
		used = 0;
	const int length = vsnprintf(logged + used, sizeof(logged) - used - 1, format, args);
	if (length > 0 && used + (size_t)length < sizeof(logged) - 1) {
		used += (size_t)length;
		logged[used++] = '\n';
	}
	logged[used] = '\0';
	pthread_mutex_unlock(&lock);
}

void slurm_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(format, args);
	va_end(args);
}

void slurm_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(format, args);
	va_end(args);
}

const char *fakehost_log(void)
{
	static char copy[sizeof(logged)];

	pthread_mutex_lock(&lock);
	memcpy(copy, logged, used + 1);
	pthread_mutex_unlock(&lock);
	return copy;
}

void fakehost_forget(void)
{
	pthread_mutex_lock(&lock);
	used = 0;
	logged[0] = '\0';
	pthread_mutex_unlock(&lock);
}

char *slurm_strerror(int number)
{
	(void)number;
	return (char *)"an error";
}

/* ---- slurm.conf ---- */

static pthread_mutex_t conf_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned conf_locks;

slurm_conf_t *slurm_conf_lock(void)
{
	pthread_mutex_lock(&conf_lock);
	conf_locks++;
	return &slurm_conf;
}

void slurm_conf_unlock(void)
{
	pthread_mutex_unlock(&conf_lock);
}

unsigned fakehost_conf_locks(void)
{
	slurm_conf_lock();
	const unsigned count = --conf_locks;
	slurm_conf_unlock();
	return count;
}

void fakehost_scheduler_parameters(const char *text)
{
	slurm_conf_lock();
	fakehost_set(&slurm_conf.sched_params, text);
	slurm_conf_unlock();
}

/* ---- jobs ---- */

/* Offsets of the strings in a description that the plugin reads or writes. */
static const size_t texts[] = {
    offsetof(job_desc_msg_t, account),         offsetof(job_desc_msg_t, admin_comment),
    offsetof(job_desc_msg_t, features),        offsetof(job_desc_msg_t, job_id_str),
    offsetof(job_desc_msg_t, mem_per_tres),    offsetof(job_desc_msg_t, name),
    offsetof(job_desc_msg_t, partition),       offsetof(job_desc_msg_t, qos),
    offsetof(job_desc_msg_t, array_inx),       offsetof(job_desc_msg_t, req_nodes),
    offsetof(job_desc_msg_t, exc_nodes),       offsetof(job_desc_msg_t, reservation),
    offsetof(job_desc_msg_t, script),          offsetof(job_desc_msg_t, cpus_per_tres),
    offsetof(job_desc_msg_t, tres_per_job),    offsetof(job_desc_msg_t, tres_per_node),
    offsetof(job_desc_msg_t, tres_per_socket), offsetof(job_desc_msg_t, tres_per_task),
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
    offsetof(job_desc_msg_t, extra),
#endif
};

static char **text_of(job_desc_msg_t *desc, size_t i)
{
	return (char **)((char *)desc + texts[i]);
}

job_desc_msg_t *fakehost_desc(void)
{
	job_desc_msg_t *desc = fakehost_alloc(sizeof(*desc));

	desc->user_id = FAKEHOST_UID;
	desc->het_job_offset = NO_VAL;
	desc->min_cpus = desc->max_cpus = NO_VAL;
	desc->min_nodes = desc->max_nodes = NO_VAL;
	desc->num_tasks = NO_VAL;
	desc->cpus_per_task = NO_VAL16;
	desc->ntasks_per_node = NO_VAL16;
	desc->ntasks_per_tres = NO_VAL16;
	desc->sockets_per_node = NO_VAL16;
	desc->overcommit = NO_VAL8;
	desc->pn_min_memory = NO_VAL64;
	desc->shared = NO_VAL16;
	return desc;
}

static void free_list(char ***list, uint32_t *count)
{
	for (uint32_t i = 0; *list && i < *count; i++)
		slurm_xfree((void **)&(*list)[i]);
	slurm_xfree((void **)list);
	*count = 0;
}

void slurm_free_job_desc_msg(job_desc_msg_t *desc)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		slurm_xfree((void **)text_of(desc, i));
	free_list(&desc->environment, &desc->env_size);
	free_list(&desc->spank_job_env, &desc->spank_job_env_size);
	slurm_xfree((void **)&desc);
}

void fakehost_free(job_desc_msg_t *desc)
{
	slurm_free_job_desc_msg(desc);
}

void fakehost_set(char **field, const char *text)
{
	slurm_xfree((void **)field);
	*field = slurm_xstrdup(text);
}

static void append(char ***list, uint32_t *count, const char *name, const char *value)
{
	char **grown = fakehost_alloc((*count + 2) * sizeof(*grown));

	if (*count)
		memcpy(grown, *list, *count * sizeof(*grown));
	slurm_xfree((void **)list);
	*list = grown;
	grown[*count + 1] = NULL;
	size_t size = strlen(name) + strlen(value) + 2;
	grown[*count] = fakehost_alloc(size);
	snprintf(grown[*count], size, "%s=%s", name, value);
	++*count;
}

void fakehost_env(job_desc_msg_t *desc, const char *name, const char *value)
{
	append(&desc->environment, &desc->env_size, name, value);
}

void fakehost_spank_env(job_desc_msg_t *desc, const char *name, const char *value)
{
	append(&desc->spank_job_env, &desc->spank_job_env_size, name, value);
}

/* Copies a record as slurmctld does: the environment becomes one block, and admin_comment is left out. */
job_desc_msg_t *copy_job_record_to_job_desc(struct job_record *record)
{
	const job_desc_msg_t *from = record->desc;
	job_desc_msg_t *desc = fakehost_alloc(sizeof(*desc));
	size_t size = 1;

	memcpy(desc, from, sizeof(*desc));
	desc->environment = NULL;
	desc->spank_job_env = NULL;
	desc->spank_job_env_size = 0;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		*text_of(desc, i) = slurm_xstrdup(*text_of(record->desc, i));
	slurm_xfree((void **)&desc->admin_comment);
	slurm_xfree((void **)&desc->script);
	for (uint32_t i = 0; i < from->env_size; i++)
		size += strlen(from->environment[i]) + 1;
	if (from->env_size) {
		desc->environment = fakehost_alloc(from->env_size * sizeof(char *));
		char *at = fakehost_alloc(size);
		for (uint32_t i = 0; i < from->env_size; i++) {
			desc->environment[i] = strcpy(at, from->environment[i]);
			at += strlen(at) + 1;
		}
	}
	for (uint32_t i = 0; i < from->spank_job_env_size; i++) {
		char *copy = slurm_xstrdup(from->spank_job_env[i]);
		char *equals = strchr(copy, '=');
		*equals = '\0';
		append(&desc->spank_job_env, &desc->spank_job_env_size, copy, equals + 1);
		slurm_xfree((void **)&copy);
	}
	return desc;
}

/* ---- the plugin ---- */

static void *need(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol) {
		fprintf(stderr, "the plugin has no %s\n", name);
		exit(1);
	}
	return symbol;
}

void fakehost_open(fakehost *host, const char *plugin, const char *directory)
{
	static char conf[4096];

	snprintf(conf, sizeof(conf), "%s/slurm.conf", directory);
	slurm_conf.slurm_conf = conf;
	slurm_conf.state_save_location = (char *)directory;
	slurm_conf.slurm_user_id = getuid();
	fakehost_account(NULL, 0, NULL, NULL, 0, false);
	host->library = dlopen(plugin, RTLD_LAZY | RTLD_LOCAL);
	if (!host->library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	const unsigned int *version = need(host->library, "plugin_version");
	if (*version != SLURM_VERSION_NUMBER ||
	    strcmp(need(host->library, "plugin_type"), "job_submit/p4d") != 0) {
		fprintf(stderr, "slurmctld would reject this plugin: version %x\n", *version);
		exit(1);
	}
	*(void **)&host->job_submit = need(host->library, "job_submit");
	host->job_modify = need(host->library, "job_modify");
	*(void **)&host->init = need(host->library, "init");
	*(void **)&host->fini = need(host->library, "fini");
	if (host->init() != SLURM_SUCCESS) {
		fprintf(stderr, "init failed: slurmctld would not start\n");
		exit(1);
	}
}

void fakehost_close(fakehost *host)
{
	host->fini();
	dlclose(host->library);
	memset(host, 0, sizeof(*host));
}

static char shown[8192];

static const char *take(char **err_msg)
{
	snprintf(shown, sizeof(shown), "%s", *err_msg ? *err_msg : "");
	slurm_xfree((void **)err_msg);
	return shown;
}

static time_t shift, stopped_at;

/* These definitions replace the C library's functions for the plugin. */
time_t time(time_t *at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	const time_t second = stopped_at ? stopped_at : now.tv_sec + shift;
	if (at)
		*at = second;
	return second;
}

void fakehost_stop_clock(bool stopped)
{
	stopped_at = 0;
	stopped_at = stopped ? time(NULL) : 0;
}

int fakehost_submit(fakehost *host, job_desc_msg_t *desc, const char **message)
{
	char *err_msg = NULL;

	shift = (shift + 1) % 1000;
	int rc = host->job_submit(desc, FAKEHOST_UID, &err_msg);

	*message = take(&err_msg);
	return rc;
}

int fakehost_modify(fakehost *host, job_desc_msg_t *update, job_desc_msg_t *current, const char **message)
{
	struct job_record record = {current};
	char *err_msg = NULL;
	int rc;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
	int (*modify)(job_desc_msg_t *, struct job_record *, uint32_t, char **);
	*(void **)&modify = host->job_modify;
	rc = modify(update, &record, FAKEHOST_UID, &err_msg);
#else
	int (*modify)(job_desc_msg_t *, struct job_record *, uint32_t);
	*(void **)&modify = host->job_modify;
	rc = modify(update, &record, FAKEHOST_UID);
#endif
	*message = take(&err_msg);
	return rc;
}
