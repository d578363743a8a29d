/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_submit.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "accounting.h"
#include "client_job.h"
#include "client_option.h"
#include "client_script.h"
#include "cluster_facts.h"
#include "guard/guard.h"
#include "guard/submit.h"
#include "guard/note.h"
#include "job/export.h"
#include "job_environment.h"
#include "job/tasks.h"
#include "job_record.h"
#include "module.h"
#include "reader/reader_words.h"
#include "rehearsals/rehearsals.h"
#include "request/framework.h"
#include "site_file.h"
#include "site_words.h"
#include "spank_report.h"

typedef struct submission {
	const p4d_given *given;
	int argc; /* number of arguments in plugstack.conf */
	char **argv;
	bool typed; /* the job has p4d options */
	p4d_site *site;
	bool site_is_unusable; /* the configuration is the default, because p4d.conf is broken */
	p4d_sbatch sbatch;     /* the job as the user typed it */
	p4d_job job;           /* the job as p4d judges it */
	p4d_request request;
	p4d_verdict verdict;
	p4d_cluster cluster;
	bool cluster_asked;
	p4d_associations *associations;
	bool accounts_are_private; /* slurmctld knows more accounts than this user may see */
	char *user;
	p4d_client_script script;
	p4d_read_files files;
	p4d_job_tasks tasks;
	p4d_reading *reading;
	p4d_rehearsals rehearsals;
	char *memory;       /* memory for reading the script */
	p4d_reading *other; /* the script read with another option */
	char *other_memory;
	char directory[PATH_MAX];
} submission;

enum { READING_BYTES = 6 << 20 };

static void release(submission *s)
{
	p4d_cluster_free(&s->cluster);
	p4d_associations_free(s->associations);
	free(s->user);
	p4d_client_script_free(&s->script);
	p4d_read_files_free(&s->files);
	free(s->reading);
	free(s->memory);
	free(s->other);
	free(s->other_memory);
	p4d_sbatch_free(&s->sbatch);
	p4d_site_free(s->site);
}

/*
 * Opens the site's configuration; false: no memory. If p4d.conf is broken, that is not the user's fault, so
 * p4d prints one line without the word "error", because some programs cancel a job if sbatch prints that
 * word.
 */
static bool open_site(submission *s)
{
	p4d_error unusable;

	if (s->site)
		return true;
	s->site = p4d_site_file_load(s->argc, s->argv, &unusable);
	s->site_is_unusable = unusable.code;
	if (unusable.code && s->typed && p4d_client_talks())
		slurm_spank_log("p4d: [P4D%03d] p4d cannot use p4d.conf on this host (p4d conf says why); "
				"slurmctld decides with its own p4d.conf",
				(int)unusable.code);
	return s->site;
}

/*
 * Whether slurmctld gave no answer (its answers are numbers from ESLURM_INVALID_PARTITION_NAME on), or its
 * answer was cut off because it was killed. It may be restarting, and sbatch waits for it as well.
 */
static bool is_away(int error)
{
	enum { THOUSAND = 1000 };

	return error < ESLURM_INVALID_PARTITION_NAME || error == ESLURM_IN_STANDBY_MODE ||
	       error / THOUSAND == SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT / THOUSAND;
}

/*
 * Asks slurmctld about the cluster; if it does not answer, tries for ten seconds. sbatch waits for it as
 * well, so a restart of slurmctld must not bypass the check.
 */
static const p4d_cluster *ask_cluster(void *context)
{
	const struct timespec pause = {.tv_nsec = 300000000};
	submission *s = context;
	struct timespec now, first;

	clock_gettime(CLOCK_MONOTONIC, &first);
	for (now = first; !s->cluster_asked && now.tv_sec - first.tv_sec < 10;) {
		const int hushed = p4d_client_hush();
		const p4d_cluster_conf conf = {.conf = p4d_client_slurm_conf(), .stays = true};
		const int rc = p4d_cluster_load(&s->cluster, &conf), why = errno;
		p4d_client_unhush(hushed);
		s->cluster_asked = !rc || !is_away(why);
		if (!s->cluster_asked)
			nanosleep(&pause, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	s->cluster_asked = true;
	return s->cluster.count ? &s->cluster : NULL;
}

static void load_associations(submission *s)
{
	const int hushed = p4d_client_hush();

	s->associations = p4d_accounting_load(NULL);
	p4d_client_unhush(hushed);
}

static void name_user(submission *s)
{
	const struct passwd *entry = s->user ? NULL : getpwuid(geteuid());

	if (entry)
		s->user = strdup(entry->pw_name);
}

/* The associations and QOSes, for their limits on nodes. NULL: slurmctld does not enforce limits, because
 * AccountingStorageEnforce does not contain "limits"; or it is unknown whether it does. */
static const p4d_associations *limits(void *context, const char **user)
{
	enum { ENFORCES_LIMITS = 2 };
	submission *s = context;
	const slurm_conf_t *conf = p4d_client_slurm_conf();

	if (!conf || !(conf->accounting_storage_enforce & ENFORCES_LIMITS))
		return NULL;
	name_user(s);
	if (!s->associations)
		load_associations(s);
	*user = s->user;
	return s->associations;
}

/* Finds the accounts and QOSes of the submitting user, if the site's policy depends on them. */
static void identify(submission *s)
{
	s->job.limits = limits;
	s->job.limits_context = s;
	if (!p4d_site_policy_depends_on_accounts(s->site))
		return;
	const slurm_conf_t *conf = p4d_client_slurm_conf();
	s->accounts_are_private =
	    conf && conf->private_data & (PRIVATE_DATA_ACCOUNTS | PRIVATE_DATA_USERS) && geteuid();
	name_user(s);
	load_associations(s);
	s->job.user = s->user;
	s->job.associations = s->associations;
}

/*
 * Whether the script has several components. They all run the script, and p4d cannot tell which lines are for
 * which component.
 */
static bool is_heterogeneous(const p4d_client_script *script)
{
	p4d_sbatch probe = {.prefix = NULL};
	unsigned components = 1;

	for (const char *at = script->words; at < script->words + script->words_length; at += strlen(at) + 1)
		if (!strcmp(at, ":"))
			return true;
	const bool unusable =
	    p4d_sbatch_script(&probe, script->text, script->length, 0, &components, NULL) < 0;
	p4d_sbatch_free(&probe);
	return unusable || components > 1;
}

static const char *program(void *context, const char *path)
{
	submission *s = context;

	return open_site(s) ? p4d_site_program(s->site, path) : NULL;
}

static bool make_room(p4d_reading **reading, char **memory)
{
	*memory = malloc(READING_BYTES);
	*reading = malloc(sizeof(**reading));
	return *memory && *reading;
}

static p4d_job_script script_of(submission *s, const p4d_request *typed)
{
	return (p4d_job_script){.job = &s->job,
				.name = s->script.name,
				.arguments = s->script.arguments,
				.directory = *s->directory ? s->directory : NULL,
				.environment = environ,
				.variables = SIZE_MAX,
				.submitted = true,
				.export = s->sbatch.value[P4D_SBATCH_EXPORT],
				.files = &s->files,
				.typed = typed,
				.program = program,
				.site = s};
}

/* Reads the script again with other options: a program that p4d does not know may be one that it knows. */
static const p4d_reading *read_as(void *context, const p4d_request *typed)
{
	submission *s = context;

	if (!s->other_memory && !make_room(&s->other, &s->other_memory))
		return NULL;
	const p4d_job_script script = script_of(s, typed);
	p4d_job_read(&script, &(p4d_shell_limits){s->other_memory, READING_BYTES, P4D_SHELL_WORK}, s->other);
	return s->other->reader ? s->other : NULL;
}

static bool can_rehearse(void)
{
	char path[PATH_MAX];

	return !access(p4d_module_find("libp4d-rehearsal.so", path, sizeof(path)), R_OK);
}

static void take_directory(submission *s)
{
	if (!getcwd(s->directory, sizeof(s->directory)))
		s->directory[0] = '\0';
}

/* Handles srun, which has no script: p4d only looks for a rehearsal of its command. */
static void read_srun(submission *s)
{
	if (!p4d_client_script_of_srun(&s->script) || !make_room(&s->reading, &s->memory) ||
	    is_heterogeneous(&s->script))
		return;
	take_directory(s);
	p4d_job_script script = script_of(s, &s->request);
	script.rehearsals = &s->rehearsals;
	s->job.script = s->script.text;
	s->job.script_length = s->script.length;
	p4d_job_read(&script, &(p4d_shell_limits){s->memory, READING_BYTES, P4D_SHELL_WORK}, s->reading);
	s->job.script = NULL;
	s->job.rehearsals = &s->rehearsals;
}

/* Reads the script for the training that it starts. */
static void read_script(submission *s)
{
	const bool rehearsed = p4d_rehearsals_any() && p4d_job_wants_gpus(&s->job);

	if (spank_context() == S_CTX_LOCAL) {
		if (rehearsed)
			read_srun(s);
		return;
	}
	p4d_client_script_open(&s->script);
	s->job.script = s->script.text;
	s->job.script_length = s->script.length;
	if (p4d_client_script_has_option(&s->script))
		p4d_client_script_name(&s->script);
	if (!s->script.text || !(p4d_is_set(&s->request, P4D_PROGRAM) ||
				 p4d_reader_may_train(s->script.text, s->script.length) || rehearsed ||
				 p4d_site_words_in(s->argc, s->argv, s->script.text, s->script.length)))
		return;
	p4d_client_script_name(&s->script);
	if (!make_room(&s->reading, &s->memory) || !s->script.arguments || is_heterogeneous(&s->script))
		return;
	take_directory(s);
	p4d_job_script script = script_of(s, &s->request);
	script.rehearsals = rehearsed ? &s->rehearsals : NULL;
	const p4d_shell_limits limits = {s->memory, READING_BYTES, P4D_SHELL_WORK};
	p4d_job_read(&script, &limits, s->reading);
	s->job.array_tasks = p4d_job_tasks_of(&s->tasks, &script, &limits, s->reading);
	s->job.read_as = read_as;
	s->job.read_context = s;
	s->job.reading = s->reading->reader || *s->reading->comment ? s->reading : NULL;
	s->job.rehearsals = &s->rehearsals;
	s->job.script_arguments = s->script.arguments;
	if (s->script.is_file && can_rehearse())
		s->job.rehearsable = s->script.name;
}

/* reads model files here, with the user's rights */
static void complete(submission *s)
{
	uint32_t published_batch;

	p4d_guard_submit(s->site, &s->job, ask_cluster, s, &s->request, &published_batch, &s->verdict);
}

/*
 * Sets a variable in the job. spank: also for a job that does not get this environment; NULL: not needed, and
 * sbatch takes time for each such variable.
 */
static void set_variable(spank_t spank, const char *name, const char *value)
{
	setenv(name, value, 1);
	if (spank)
		spank_job_control_setenv(spank, name, value, 1);
}

/*
 * Sets the key with which the ranks of p4d-train authenticate each other. The job must get it also with
 * --export=NONE, since its tasks have no other secret in common.
 */
static void export_key(spank_t spank)
{
	static const char digit[] = "0123456789abcdef";
	unsigned char random[16];
	char key[2 * sizeof(random) + 1] = "";

	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		return;
	for (size_t i = 0; i < sizeof(random); i++)
		memcpy(key + 2 * i, (char[]){digit[random[i] >> 4], digit[random[i] & 15]}, 2);
	set_variable(spank, P4D_JOB_KEY, key);
}

static void export_one(const char *name, const char *value, void *spank)
{
	setenv(name, value, 1);
	/* only the plan must reach a job with --export=NONE, because slurmstepd derives the other variables
	 * from it */
	if (!strcmp(name, P4D_EXPORT_PLAN))
		spank_job_control_setenv(spank, name, value, 1);
}

/*
 * Stores the decision in the job. A complete plan includes the options, so they are removed; otherwise every
 * step and nested job would inherit them. srun always passes them to its step, and then they must agree with
 * the plan.
 */
static void put_into_job(spank_t spank, const submission *s)
{
	const p4d_request *request = &s->request;
	const p4d_verdict *verdict = &s->verdict;
	const bool batch = spank_context() == S_CTX_ALLOCATOR && !p4d_client_is_salloc();
	const bool decided = verdict->plan[0];
	spank_t apart = batch && p4d_client_exports_all() ? NULL : spank;
	char note[P4D_NOTE_MAX];

	/* With options but without a plan, slurmctld refuses the job. This must not happen to a job for
	 * another cluster: p4d does not know that cluster's GPUs, so there is no plan */
	if ((s->typed && !decided && !s->job.clusters) || spank_context() == S_CTX_LOCAL)
		p4d_given_put(s->given, spank, decided ? request : NULL);
	if (decided && p4d_framework_of((int)request->value[P4D_FRAMEWORK])->takes_job_key)
		export_key(apart);
	/* variables for commands in the script, in addition to the plan, from which slurmstepd derives the
	 * others */
	if (decided && verdict->judged && !batch)
		p4d_export(request, &verdict->layout, verdict->plan, export_one, spank);
	else if (decided)
		set_variable(apart, P4D_EXPORT_PLAN, verdict->plan);
	if (*p4d_note_write(verdict, note))
		set_variable(apart, P4D_EXPORT_VERDICT, note);
}

/* Reports and enforces a verdict, for jobs and steps. */
static int conclude(spank_t spank, submission *s)
{
	p4d_verdict *verdict = &s->verdict;

	verdict->fault_of_site = verdict->fault_of_site || (s->site_is_unusable && !verdict->plan[0]);
	p4d_spank_report_verdict(verdict);
	if (p4d_is_set(&s->request, P4D_VERBOSE))
		p4d_spank_report_memory(verdict);
	if (verdict->action == P4D_REJECT && !s->accounts_are_private)
		p4d_spank_report_refusal(s->site, p4d_client_job_id() ? "step" : "submit", &s->job, verdict);
	/* with `optional p4d.so`, Slurm submits the job nevertheless, so slurmctld must see what it has to
	 * refuse */
	put_into_job(spank, s);
	return verdict->action == P4D_REJECT && !s->accounts_are_private ? -1 : 0;
}

/* Warns about a p4d option after the script's name, which sbatch does not see. */
static void report_misplaced(submission *s)
{
	p4d_message message;
	char text[1024];

	if (!s->script.arguments || !p4d_client_talks() ||
	    !p4d_guard_misplaced(s->script.arguments, "sbatch", s->script.name, &message) || !open_site(s))
		return;
	const p4d_policy policy = p4d_guard_policy(s->site, &s->job, NULL);
	if (!policy.exempt && policy.mode >= P4D_MODE_WARN)
		p4d_spank_report_text(p4d_guard_message_text(&message, text, sizeof(text)));
}

int p4d_submit_job(spank_t spank, const p4d_given *given, int argc, char **argv)
{
	submission s = {.given = given, .argc = argc, .argv = argv};
	p4d_error err = {.code = P4D_OK};

	bool malformed =
	    p4d_client_job(&s.sbatch, &err) < 0 || p4d_client_request(&s.sbatch, given, &err) < 0;
	s.request = s.sbatch.request;
	s.job = s.sbatch.job;
	s.typed = malformed ? p4d_given_any(given) : p4d_request_any(&s.request);
	if (!malformed)
		read_script(&s);
	report_misplaced(&s);
	if ((!s.typed && !s.job.reading && !s.rehearsals.count) || !open_site(&s)) {
		release(&s);
		return 0;
	}
	identify(&s);
	if (malformed)
		p4d_guard_fail(s.site, &s.job, &err, NULL, &s.verdict);
	else
		complete(&s);
	int rc = conclude(spank, &s);
	release(&s);
	return rc;
}

/* Fills options that the step does not set with those of its job. */
static void inherit_job(p4d_job *step, const p4d_job *job)
{
	step->partition = job->partition;
	step->qos = job->qos;
	step->account = job->account;
	step->user = job->user;
	step->reservation = job->reservation;
	step->constraint = job->constraint;
	step->exclusive = job->exclusive;
	step->mem_per_node_bytes = job->mem_per_node_bytes;
	step->mem_per_cpu_bytes = job->mem_per_cpu_bytes;
	step->mem_per_gpu_bytes = job->mem_per_gpu_bytes;
	step->mem_is_all = job->mem_is_all;
	if (!step->min_nodes) {
		step->min_nodes = job->min_nodes;
		step->max_nodes = job->max_nodes;
	}
	if (!p4d_job_wants_gpus(step)) {
		step->gres = job->gres;
		step->gpus = job->gpus;
		step->gpus_per_task = job->gpus_per_task;
		step->gpus_per_socket = job->gpus_per_socket;
	}
}

/* Uses the plan that was approved with the job, because this step's environment does not have it. */
static int restore_plan(submission *s, const p4d_approval *approved, p4d_error *err)
{
	const char *line = approved->plan;
	p4d_request *request = &s->request;
	p4d_request plan = {0};

	if (p4d_record_step_agrees(approved, NULL, request, err) < 0 || p4d_plan_read(line, &plan, err) < 0)
		return -1;
	*request = plan;
	snprintf(s->verdict.plan, sizeof(s->verdict.plan), "%s", line);
	s->verdict.judged =
	    !p4d_layout_build(&plan, (uint64_t)plan.value[P4D_NODES], (uint64_t)plan.value[P4D_GPUS_PER_NODE],
			      &s->verdict.layout, NULL);
	return 0;
}

/* For a step with options but without a plan: asks slurmctld for the job, and for its plan if it has one. */
static int judge_by_record(submission *s, uint32_t job_id, p4d_error *err)
{
	p4d_record record;

	const int hushed = p4d_client_hush();
	int rc = p4d_record_load(&record, job_id, err);
	p4d_client_unhush(hushed);
	if (rc < 0)
		return -1;
	if (record.approved.plan[0]) {
		rc = restore_plan(s, &record.approved, err);
	} else {
		inherit_job(&s->job, &record.job);
		complete(s);
		rc = 0;
		/* the approved plan is known only by its digest; the same options give the same plan, with
		 * the same digest */
		if (!rc && record.approved.digest[0] && s->verdict.plan[0])
			rc = p4d_record_step_agrees(&record.approved, s->verdict.plan, &s->request, err);
	}
	if (rc < 0)
		p4d_guard_fail(s->site, &record.job, err, NULL, &s->verdict);
	p4d_record_free(&record);
	return 0;
}

int p4d_submit_step(spank_t spank, const p4d_given *given, int argc, char **argv)
{
	submission s = {.given = given, .argc = argc, .argv = argv, .typed = true};
	p4d_request plan = {0};
	p4d_error err = {.code = P4D_OK};
	/* with --jobid alone, the environment is not that of the job */
	const char *line = getenv("SLURM_JOB_ID") ? getenv(P4D_EXPORT_PLAN) : NULL;

	if (!p4d_given_request(given, &s.request, &err) && line && !p4d_plan_read(line, &plan, &err) &&
	    !p4d_record_options_agree(&plan, &s.request, &err))
		return 0;
	if (!open_site(&s))
		return 0;
	s.job.partition = getenv("SLURM_JOB_PARTITION");
	s.job.account = getenv("SLURM_JOB_ACCOUNT");
	s.job.qos = getenv("SLURM_JOB_QOS");
	if (!err.code && !p4d_client_job(&s.sbatch, &err)) {
		s.job = s.sbatch.job;
		/* without slurmctld's answer the job is unknown; slurmstepd will ask again */
		if (judge_by_record(&s, p4d_client_job_id(), &err) < 0)
			s.verdict.action = P4D_PASS;
	} else {
		p4d_guard_fail(s.site, &s.job, &err, NULL, &s.verdict);
	}
	int rc = conclude(spank, &s);
	release(&s);
	return rc;
}
