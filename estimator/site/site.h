/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "request/request.h"
#include "site/associations.h"

/*
 * The site's configuration, p4d.conf. Loaded once, then read-only: may be shared between threads. Values
 * apply in the order global, gpu section, partition section, qos section, account section, user section,
 * reservation section; a later one wins (documented in p4d.conf(5)).
 */

typedef enum p4d_mode { P4D_MODE_OFF, P4D_MODE_OBSERVE, P4D_MODE_WARN, P4D_MODE_ENFORCE } p4d_mode;
typedef enum p4d_rewrite { P4D_REWRITE_OFF, P4D_REWRITE_UNSET, P4D_REWRITE_ALL } p4d_rewrite;
typedef enum p4d_on_error { P4D_ON_ERROR_PASS, P4D_ON_ERROR_REJECT } p4d_on_error;
typedef enum p4d_unmodelled {
	P4D_UNMODELLED_PASS,
	P4D_UNMODELLED_WARN,
	P4D_UNMODELLED_REJECT
} p4d_unmodelled;

/* The setting `scripts`: what p4d does with a job whose user typed no p4d options, by what its script says.
 */
typedef enum p4d_scripts { P4D_SCRIPTS_IGNORE, P4D_SCRIPTS_ADVISE, P4D_SCRIPTS_JUDGE } p4d_scripts;

/* The setting `rehearsals`: what p4d does with a job whose program was rehearsed. */
typedef enum p4d_rehearsals_policy {
	P4D_REHEARSALS_IGNORE,
	P4D_REHEARSALS_ADVISE,
	P4D_REHEARSALS_JUDGE
} p4d_rehearsals_policy;

/* The policy for one job. */
typedef struct p4d_policy {
	p4d_mode mode;
	p4d_mode later; /* the mode from `from` on, when that is not 0 */
	int64_t from;   /* seconds since 1970 */
	p4d_rewrite rewrite;
	p4d_on_error on_error;
	p4d_unmodelled unmodelled;
	p4d_scripts scripts;
	p4d_rehearsals_policy rehearsals;
	double safe;  /* fraction of usable memory: pass silently up to here */
	double limit; /* above: rewrite or refuse; between safe and limit: warn */
	bool
	    limit_is_set; /* by the site; otherwise a framework may have its own, see p4d_site_policy_limit */
	bool require_plan;   /* GPU jobs must carry a plan */
	bool allow_override; /* --p4d-override is honoured */
	bool exempt;         /* by account, QOS or user: treated as with mode off */
	uint32_t min_gpus;   /* jobs with fewer GPUs are neither checked nor refused, and need no plan */
	const char *message; /* the site's text for refusals; NULL: none. Owned by the site */
} p4d_policy;

enum { P4D_SECTION_GPUS = 8 };

/* A `partition` section. */
typedef struct p4d_site_partition {
	char name[64];
	bool is_default;                      /* `default = true`: where jobs without -p go */
	unsigned gpus;                        /* entries of gpu[]; 0: ask the cluster */
	const p4d_gpu *gpu[P4D_SECTION_GPUS]; /* resolved against the GPU table */
	unsigned ambiguous[P4D_SECTION_GPUS]; /* GPUs that each name matches; 1 when unambiguous */
	uint32_t gpus_per_node;               /* 0: ask the cluster */
	uint64_t mem_per_node_bytes;          /* host memory a job gets without --mem; 0 unknown */
} p4d_site_partition;

typedef struct p4d_site p4d_site;

/*
 * Finds p4d.conf: next to slurm_conf (NULL: unknown), else in the directory that p4d was configured for
 * (nodes that get slurm.conf from slurmctld need that). Fills path with the first place where a file exists.
 * If there is none, fills it with the first place and returns false.
 */
bool p4d_site_find(const char *slurm_conf, char *path, size_t size);

/*
 * Loads path (a p4d.conf). Its `gpus` and `data` name a table of GPUs and the directory
 * with models/; without them the built-in table and datadir are taken (NULL: the built-in presets).
 * trust: also check that the file is a regular file, owned by root or trusted_uid, and writable by nobody
 * else (P4D_E_CONF_TRUST). Error texts begin with `file:line: `. NULL on failure.
 */
p4d_site *p4d_site_load(const char *path, const char *datadir, bool trust, uint32_t trusted_uid,
			p4d_error *err);

/*
 * The configuration without a p4d.conf: no partition has a GPU. Callers that decide about jobs pass mode
 * observe, which is also the default of a file: no job is refused because of a policy that nobody wrote.
 */
p4d_site *p4d_site_default(const char *datadir, p4d_mode mode, p4d_error *err);

void p4d_site_free(p4d_site *site);

/* Whether the files from which the site was loaded are unchanged. */
bool p4d_site_is_current(const p4d_site *site);

/* Its settings as the text of a p4d.conf without includes. The caller frees it; NULL without memory. */
char *p4d_site_text(const p4d_site *site);

const p4d_gpus *p4d_site_gpus(const p4d_site *site);
const char *p4d_site_datadir(const p4d_site *site); /* where models/ is; NULL: the built-in presets */

/*
 * Loads the presets of datadir, for p4d_site_preset, which does no I/O: the complete model of a name or an
 * alias; NULL: no preset, or they were not loaded. Errors: as p4d_presets_load.
 */
int p4d_site_load_presets(p4d_site *site, p4d_error *err);
const p4d_request *p4d_site_preset(const p4d_site *site, const char *name);

/* The program that p4d.conf names for a program of job scripts, whose path ends as in a program section.
 * NULL: p4d.conf names none. */
const char *p4d_site_program(const p4d_site *site, const char *path);
/* Iterates over these programs: i = 0, 1, ... until NULL; *is: what each is. */
const char *p4d_site_program_at(const p4d_site *site, size_t i, const char **is);

/* The margins of the framework sections, the most specific ones first. */
const p4d_gpu_margins *p4d_site_margins(const p4d_site *site);

const char *p4d_site_path(const p4d_site *site); /* "" for the default */

/* The section of a partition, NULL when it has none. name NULL: the one marked default, else NULL. */
const p4d_site_partition *p4d_site_partition_of(const p4d_site *site, const char *name);

/* The GPU of a partition with the least memory; NULL when its section names none (or there is no section). */
const p4d_gpu *p4d_site_least_gpu(const p4d_site_partition *partition);

/* Iterates over the partition sections: i = 0, 1, ... until NULL. */
const p4d_site_partition *p4d_site_partition_at(const p4d_site *site, unsigned i);

/* Resolves a GRES type or GPU name: `gpu` sections of the site first (name = "a100-80gb"), then the GPU
 * table. */
const p4d_gpu *p4d_site_gpu(const p4d_site *site, const char *name, unsigned *ambiguous);

/* The GPU of the site's `gpu` section of that name; NULL: it has none. */
const p4d_gpu *p4d_site_gpu_of_section(const p4d_site *site, const char *name);

/* What decides which policy a job gets. Strings are borrowed, NULL when unknown. */
typedef struct p4d_site_job {
	const char *partition; /* one name or a comma-separated list; NULL: the default one */
	const char *qos, *account, *user, *reservation;
	const char *gpu; /* canonical name */
	/* what the job gets by default, and whether the account is the user's; NULL: unknown */
	const p4d_associations *associations;
} p4d_site_job;

/*
 * Effective policy. For a list of partitions each key has its strictest value, so that a list cannot
 * circumvent a policy.
 */
p4d_policy p4d_site_policy(const p4d_site *site, const p4d_site_job *job);

/* The strictest value of each key anywhere in the file, for a job whose sections are not known. */
p4d_policy p4d_site_policy_strictest(const p4d_site *site);

/* Whether it depends on accounts, QOSes or users, so that p4d_site_job.associations is worth asking for. */
bool p4d_site_policy_depends_on_accounts(const p4d_site *site);

/* Whether what a job must do depends on its GPUs: p4d.conf has min_gpus, or a gpu section with require_plan.
 */
bool p4d_site_policy_depends_on_gpus(const p4d_site *site);

/* Iterates over the users that it names, without wildcards: i = 0, 1, ... until NULL. */
const char *p4d_site_user_at(const p4d_site *site, size_t i);

/* Kinds of names in p4d.conf, in lists and as sections. */
typedef enum p4d_site_named {
	P4D_NAMED_PARTITIONS,
	P4D_NAMED_QOSES,
	P4D_NAMED_ACCOUNTS,
	P4D_NAMED_USERS
} p4d_site_named;

/* Iterates over all names of a kind, first those of the list: i = 0, 1, ... until NULL. */
const char *p4d_site_name_at(const p4d_site *site, p4d_site_named of, size_t i);

/* Whether a name matches the name or pattern in p4d.conf. Case counts as in Slurm. */
bool p4d_site_name_matches(p4d_site_named of, const char *in_conf, const char *name);

/* Host bytes per rank that framework megatron needs at checkpoints, as set by the site; 0: not modelled. */
uint64_t p4d_site_host_bytes_per_rank(const p4d_site *site);

/*
 * Fills unset options of a request with the site's defaults (`defaults { seq_len = 4096 }`), origin
 * P4D_BY_SITE. Defaults of the partition come first (NULL: the default partition; a list: its first one).
 */
void p4d_site_apply_defaults(const p4d_site *site, const char *partition, p4d_request *request);

/* Where slurmctld's verdicts go: log = none | refusals | all. */
typedef enum p4d_log { P4D_LOG_NONE, P4D_LOG_REFUSALS, P4D_LOG_ALL } p4d_log;
p4d_log p4d_site_log(const p4d_site *site);

/* Where refusals go that slurmctld never sees: client_log = none | syslog. */
typedef enum p4d_client_log { P4D_CLIENT_LOG_NONE, P4D_CLIENT_LOG_SYSLOG } p4d_client_log;
p4d_client_log p4d_site_client_log(const p4d_site *site);

/* What slurmctld writes into AdminComment about an approved plan: admin_comment = digest | plan | none. */
typedef enum p4d_admin_comment {
	P4D_ADMIN_COMMENT_DIGEST,
	P4D_ADMIN_COMMENT_PLAN,
	P4D_ADMIN_COMMENT_NONE
} p4d_admin_comment;
p4d_admin_comment p4d_site_admin_comment(const p4d_site *site);

/*
 * Where slurmctld keeps the record of a verdict (guard/verdict_record.h): record = admin_comment | extra |
 * none. The default is none if admin_comment = none is set, so that AdminComment stays as it is.
 */
typedef enum p4d_record_place {
	P4D_RECORD_ADMIN_COMMENT,
	P4D_RECORD_EXTRA,
	P4D_RECORD_NONE
} p4d_record_place;
p4d_record_place p4d_site_record(const p4d_site *site);

/* The absolute path of slurmctld's metrics; NULL: none. */
const char *p4d_site_metrics(const p4d_site *site);

/* A key of p4d.conf that is a policy, with its value: text of a choice or a string (NULL: unset), else
 * number. */
typedef struct p4d_site_value {
	const char *name, *text;
	enum { P4D_VALUE_TEXT, P4D_VALUE_SWITCH, P4D_VALUE_FRACTION, P4D_VALUE_NUMBER } kind;
	double number;
	char choice[32];
} p4d_site_value;

/* Iterates over all policies, in the order of conf_keys.def: *i = 0 at first; false at the end. */
bool p4d_site_policy_next(const p4d_policy *policy, unsigned *i, p4d_site_value *value);

/* The limit that applies to a framework: the site's, else its own, where it has one. */
double p4d_site_policy_limit(const p4d_policy *policy, int framework);

const char *p4d_site_mode_name(p4d_mode mode);
