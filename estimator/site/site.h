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

/* The setting `scripts`: how p4d treats a job whose user typed no p4d options, according to its script. */
typedef enum p4d_scripts { P4D_SCRIPTS_IGNORE, P4D_SCRIPTS_ADVISE, P4D_SCRIPTS_JUDGE } p4d_scripts;

/* The setting `rehearsals`: how p4d treats a job whose program was rehearsed. */
typedef enum p4d_rehearsals_policy {
	P4D_REHEARSALS_IGNORE,
	P4D_REHEARSALS_ADVISE,
	P4D_REHEARSALS_JUDGE
} p4d_rehearsals_policy;

/* The policy for one job. */
typedef struct p4d_policy {
	p4d_mode mode;
	p4d_mode later; /* the mode that applies from time `from` on, if that is not 0 */
	int64_t from;   /* seconds since 1970 */
	p4d_rewrite rewrite;
	p4d_on_error on_error;
	p4d_unmodelled unmodelled;
	p4d_scripts scripts;
	p4d_rehearsals_policy rehearsals;
	double safe;       /* fraction of usable memory up to which jobs pass silently */
	double limit;      /* above this fraction p4d rewrites or refuses; between safe and limit it warns */
	bool limit_is_set; /* the site set the limit; otherwise a framework may have its own, see
			    * p4d_site_policy_limit */
	bool require_plan; /* GPU jobs must carry a plan */
	bool allow_override; /* p4d accepts --p4d-override */
	bool exempt;         /* by account, QOS or user: p4d treats the job as with mode off */
	uint32_t min_gpus;   /* jobs with fewer GPUs are neither checked nor refused, and need no plan */
	const char *message; /* the site's addition to refusals; NULL: none. Owned by the site */
} p4d_policy;

enum { P4D_SECTION_GPUS = 8 };

/* A `partition` section. */
typedef struct p4d_site_partition {
	char name[64];
	bool is_default;                      /* `default = true`: the partition of jobs without -p */
	unsigned gpus;                        /* entries of gpu[]; 0: ask the cluster */
	const p4d_gpu *gpu[P4D_SECTION_GPUS]; /* resolved against the GPU table */
	unsigned ambiguous[P4D_SECTION_GPUS]; /* GPUs that each name matches; 1 when unambiguous */
	uint32_t gpus_per_node;               /* 0: p4d asks the cluster */
	uint64_t mem_per_node_bytes;          /* host memory of a job without --mem; 0: unknown */
	/* the network, as the file has it; 0: not set. See p4d_site_network */
	double nic_gb_per_s, net_latency_us, oversubscription;
	uint32_t nics_per_node, leaf_ports;
	bool rails;
} p4d_site_partition;

typedef struct p4d_site p4d_site;

/*
 * Finds p4d.conf: in the directory of slurm_conf (NULL: unknown), else in the directory that was configured
 * at build time (for nodes that get slurm.conf from slurmctld). Fills path with the first place that has the
 * file. If there is none, fills it with the first place and returns false.
 */
bool p4d_site_find(const char *slurm_conf, char *path, size_t size);

/*
 * Loads `path` (a p4d.conf). Its `gpus` and `data` name a table of GPUs and the directory with models/.
 * Without these keys, the built-in table and datadir are used (NULL: the built-in presets). trust: fail
 * (P4D_E_CONF_TRUST) unless the file is a regular file that root or trusted_uid owns and nobody else can
 * write. Error texts begin with `file:line: `. NULL on failure.
 */
p4d_site *p4d_site_load(const char *path, const char *datadir, bool trust, uint32_t trusted_uid,
			p4d_error *err);

/*
 * The configuration if there is no p4d.conf: no partition has a GPU. Callers that decide about jobs pass mode
 * observe, which is also the default of a file. So p4d refuses no job because of a policy that nobody wrote.
 */
p4d_site *p4d_site_default(const char *datadir, p4d_mode mode, p4d_error *err);

void p4d_site_free(p4d_site *site);

/* Whether the files of the site are unchanged since they were loaded. */
bool p4d_site_is_current(const p4d_site *site);

/* The site's settings as the text of a p4d.conf without includes. The caller frees it. NULL: no memory. */
char *p4d_site_text(const p4d_site *site);

const p4d_gpus *p4d_site_gpus(const p4d_site *site);
const char *p4d_site_datadir(const p4d_site *site); /* where models/ is; NULL: the built-in presets */

/* Loads the presets of datadir. Errors: those of p4d_presets_load. */
int p4d_site_load_presets(p4d_site *site, p4d_error *err);
/*
 * The complete model of a name or an alias, without I/O. NULL: no preset has the name, or the site's presets
 * are not loaded.
 */
const p4d_request *p4d_site_preset(const p4d_site *site, const char *name);

/* The framework that p4d.conf names for a program of job scripts: the program's path ends with the title
 * of a program section. NULL: p4d.conf names none. */
const char *p4d_site_program(const p4d_site *site, const char *path);
/* p4d_site_program as a callback for code that reads scripts; site: a p4d_site. */
const char *p4d_site_program_of(void *site, const char *path);
/* Iterates over the programs of p4d.conf: i = 0, 1, ... until NULL; *is: the framework of each. */
const char *p4d_site_program_at(const p4d_site *site, size_t i, const char **is);

/* The margins of the framework sections, most specific first. */
const p4d_gpu_margins *p4d_site_margins(const p4d_site *site);

const char *p4d_site_path(const p4d_site *site); /* "" for the default */

/* The section of a partition; NULL if it has none. name NULL: the section marked as default, else NULL. */
const p4d_site_partition *p4d_site_partition_of(const p4d_site *site, const char *name);

/* The GPU of a partition with the least memory; NULL when its section names none (or there is no section). */
const p4d_gpu *p4d_site_least_gpu(const p4d_site_partition *partition);

/* Iterates over the partition sections: i = 0, 1, ... until NULL. */
const p4d_site_partition *p4d_site_partition_at(const p4d_site *site, unsigned i);

/* Resolves a GRES type or GPU name: first the site's `gpu` sections (name = "a100-80gb"), then the GPU
 * table. */
const p4d_gpu *p4d_site_gpu(const p4d_site *site, const char *name, unsigned *ambiguous);

/* The GPU of the site's `gpu` section of that name; NULL: it has none. */
const p4d_gpu *p4d_site_gpu_of_section(const p4d_site *site, const char *name);

/* The facts that decide a job's policy. Strings are borrowed; NULL: unknown. */
typedef struct p4d_site_job {
	const char *partition; /* one name or a comma-separated list; NULL: the default one */
	const char *qos, *account, *user, *reservation;
	const char *gpu; /* canonical name */
	/*
	 * From these, p4d takes the job's defaults and learns whether the user may use the account; NULL:
	 * unknown.
	 */
	const p4d_associations *associations;
} p4d_site_job;

/*
 * Effective policy. For a list of partitions each key has the strictest of their values, so that a list
 * cannot evade a policy.
 */
p4d_policy p4d_site_policy(const p4d_site *site, const p4d_site_job *job);

/* The strictest value of each key anywhere in the file, for a job whose sections are not known. */
p4d_policy p4d_site_policy_strictest(const p4d_site *site);

/*
 * Whether the policy depends on accounts, QOSes or users, so that callers should fill
 * p4d_site_job.associations.
 */
bool p4d_site_policy_depends_on_accounts(const p4d_site *site);

/* Whether a job's obligations depend on its GPUs: p4d.conf has min_gpus, or a gpu section with
 * require_plan. */
bool p4d_site_policy_depends_on_gpus(const p4d_site *site);

/* Iterates over the users named in p4d.conf, without wildcards: i = 0, 1, ... until NULL. */
const char *p4d_site_user_at(const p4d_site *site, size_t i);

/* Kinds of names in p4d.conf, in lists and as titles of sections. */
typedef enum p4d_site_named {
	P4D_NAMED_PARTITIONS,
	P4D_NAMED_QOSES,
	P4D_NAMED_ACCOUNTS,
	P4D_NAMED_USERS
} p4d_site_named;

/* Iterates over all names of a kind, those in lists first: i = 0, 1, ... until NULL. */
const char *p4d_site_name_at(const p4d_site *site, p4d_site_named of, size_t i);

/* Whether a name matches a name or pattern of p4d.conf. Case counts as in Slurm. */
bool p4d_site_name_matches(p4d_site_named of, const char *in_conf, const char *name);

/* The site's figure for the host bytes per rank that framework megatron needs for checkpoints; 0: not set. */
uint64_t p4d_site_host_bytes_per_rank(const p4d_site *site);

/*
 * Fills unset options of a request with the site's defaults (`defaults { seq_len = 4096 }`), origin
 * P4D_BY_SITE. Defaults of the partition come first (NULL: the default partition; a list: its first one).
 */
void p4d_site_apply_defaults(const p4d_site *site, const char *partition, p4d_request *request);

/* The network that p4d.conf describes for a partition. partition NULL: all members are 0. */
p4d_network p4d_site_network(const p4d_site_partition *partition);

/*
 * Gives a request the network of its partition (NULL: the default partition; a list: its first one). Does
 * nothing if the partition's section names other GPUs than this one. gpu may be NULL.
 */
void p4d_site_apply_network(const p4d_site *site, const char *partition, const p4d_gpu *gpu,
			    p4d_request *request);

/* The setting log: none | refusals | all. Which verdicts slurmctld logs. */
typedef enum p4d_log { P4D_LOG_NONE, P4D_LOG_REFUSALS, P4D_LOG_ALL } p4d_log;
p4d_log p4d_site_log(const p4d_site *site);

/* The setting client_log: none | syslog. Where sbatch logs refusals, which slurmctld never sees. */
typedef enum p4d_client_log { P4D_CLIENT_LOG_NONE, P4D_CLIENT_LOG_SYSLOG } p4d_client_log;
p4d_client_log p4d_site_client_log(const p4d_site *site);

/*
 * The setting admin_comment: digest | plan | none. What slurmctld writes into AdminComment about an approved
 * plan.
 */
typedef enum p4d_admin_comment {
	P4D_ADMIN_COMMENT_DIGEST,
	P4D_ADMIN_COMMENT_PLAN,
	P4D_ADMIN_COMMENT_NONE
} p4d_admin_comment;
p4d_admin_comment p4d_site_admin_comment(const p4d_site *site);

/*
 * The setting record: admin_comment | extra | none. Where slurmctld keeps the record of a verdict
 * (guard/verdict_record.h). If admin_comment = none is set, the default is none, so that AdminComment stays
 * unchanged.
 */
typedef enum p4d_record_place {
	P4D_RECORD_ADMIN_COMMENT,
	P4D_RECORD_EXTRA,
	P4D_RECORD_NONE
} p4d_record_place;
p4d_record_place p4d_site_record(const p4d_site *site);

/* The absolute path of slurmctld's metrics file; NULL: none. */
const char *p4d_site_metrics(const p4d_site *site);

/* A policy key of p4d.conf with its value: the text of a choice, a string (NULL: unset), or a number. */
typedef struct p4d_site_value {
	const char *name, *text;
	enum { P4D_VALUE_TEXT, P4D_VALUE_SWITCH, P4D_VALUE_FRACTION, P4D_VALUE_NUMBER } kind;
	double number;
	char choice[32];
} p4d_site_value;

/* Iterates over all policies, in the order of conf_keys.def: *i = 0 at first; false at the end. */
bool p4d_site_policy_next(const p4d_policy *policy, unsigned *i, p4d_site_value *value);

/* The limit for a framework: the site's, else the framework's own, if it has one. */
double p4d_site_policy_limit(const p4d_policy *policy, int framework);

const char *p4d_site_mode_name(p4d_mode mode);
