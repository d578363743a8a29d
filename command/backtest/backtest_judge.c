/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges one stored script with the guard that sbatch uses. Options come from the command line and the
 * script. Values that Slurm added (partition, account, QOS) come from the accounting. If the options
 * differ from the accounting, because quotes were lost or the job was changed, nodes and GPUs also come
 * from the accounting.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backtest/backtest.h"
#include "guard/submit.h"
#include "job/read_job.h"
#include "job/sbatch.h"
#include "line/line.h"
#include "request/framework.h"
#include "validate/run_options.h"

enum { READING_BYTES = 6 << 20, VARIABLES = 1024 };

typedef struct stored_job {
	const p4d_backtest *b;
	const p4d_backtest_case *c;
	p4d_backtest_line line;
	p4d_sbatch sbatch;
	char *environment; /* a copy of the environment, which is cut into variables */
	char *variable[VARIABLES + 1];
	size_t variables;
	p4d_read_files files;
	p4d_reading reading;
	const char *name; /* the script's name */
	const char *task; /* number of the array task; NULL: no array */
	bool of_fields;   /* the numbers of nodes and GPUs are those of the accounting */
	bool lost;        /* the script needs arguments that are unknown */
} stored_job;

static void cut_environment(stored_job *s)
{
	s->environment = strdup(s->c->environment ? s->c->environment : "");
	for (char *rest = s->environment, *line; rest && (line = strsep(&rest, "\n"));)
		if (*line && s->variables < VARIABLES)
			s->variable[s->variables++] = line;
}

static const char *stored_variable(void *context, const char *name)
{
	const stored_job *s = context;
	const size_t length = strlen(name);

	for (size_t i = 0; i < s->variables; i++)
		if (!strncmp(s->variable[i], name, length) && s->variable[i][length] == '=')
			return s->variable[i] + length + 1;
	return NULL;
}

/* Whether a variable may be set although its value is not stored. slurmdbd's variables with small letters
 * are never stored. */
static bool may_be_set(const stored_job *s, const char *name)
{
	if (!s->c->environment || strpbrk(name, "abcdefghijklmnopqrstuvwxyz"))
		return true;
	for (size_t i = 0; i < s->variables; i++)
		if (!strcmp(s->variable[i], name))
			return true;
	return s->variables == VARIABLES;
}

static const char *inherited(void *context, const char *name)
{
	static const char *const of_user[] = {"HOME", "USER", "LOGNAME"};
	const char *value = stored_variable(context, name);

	for (size_t i = 0; !value && i < sizeof(of_user) / sizeof(of_user[0]); i++)
		if (!strcmp(name, of_user[i]))
			value = getenv(name);
	return value ? value : may_be_set(context, name) ? p4d_shell_later : NULL;
}

static void put(p4d_sbatch *sbatch, p4d_sbatch_field field, const char *text)
{
	free(sbatch->value[field]);
	sbatch->value[field] = text && *text ? strdup(text) : NULL;
	sbatch->source[field] = P4D_FROM_COMMAND_LINE;
}

static void put_default(p4d_sbatch *sbatch, p4d_sbatch_field field, const char *text)
{
	if (!sbatch->value[field])
		put(sbatch, field, text);
}

/* Sets nodes and GPUs to those that the job requested, according to the accounting. */
static void put_geometry(const p4d_accounting_job *job, p4d_sbatch *sbatch)
{
	static const p4d_sbatch_field others[] = {P4D_SBATCH_GPUS, P4D_SBATCH_GRES, P4D_SBATCH_GPUS_PER_TASK,
						  P4D_SBATCH_GPUS_PER_SOCKET, P4D_SBATCH_TRES_PER_TASK};
	const uint32_t gpus = job->gpus_asked ? job->gpus_asked : job->gpus;
	uint64_t nodes = job->nodes ? job->nodes : 1;
	char text[80];

	p4d_accounting_tres(job->req_tres, "node", 1, &nodes);
	if (!gpus || !nodes || gpus % nodes)
		return;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		put(sbatch, others[i], NULL);
	snprintf(text, sizeof(text), "%" PRIu64, nodes);
	put(sbatch, P4D_SBATCH_NODES, text);
	snprintf(text, sizeof(text), "%s%s%" PRIu64, job->gpu_type, job->gpu_type[0] ? ":" : "",
		 gpus / nodes);
	put(sbatch, P4D_SBATCH_GPUS_PER_NODE, text);
}

/* Reads the options from all sources. with_line: also from the command line; false if it cannot be parsed. */
static int gather(stored_job *s, bool with_line, p4d_error *err)
{
	const p4d_accounting_job *job = s->c->job;
	p4d_sbatch *sbatch = &s->sbatch;
	unsigned components;
	int operand;

	*sbatch = (p4d_sbatch){.skips_foreign = true};
	if (with_line && p4d_sbatch_arguments(sbatch, s->line.script, s->line.word, &operand, err) < 0)
		return -1;
	if (p4d_sbatch_variables(sbatch, stored_variable, s, err) < 0 ||
	    p4d_sbatch_script(sbatch, s->c->script, s->c->length, 0, &components, err) < 0)
		return -1;
	put_default(sbatch, P4D_SBATCH_PARTITION, job->partition);
	put_default(sbatch, P4D_SBATCH_ACCOUNT, job->account);
	put_default(sbatch, P4D_SBATCH_QOS, job->qos);
	put_default(sbatch, P4D_SBATCH_RESERVATION, job->reservation);
	if (s->task)
		put_default(sbatch, P4D_SBATCH_ARRAY, s->task);
	put(sbatch, P4D_SBATCH_CLUSTERS, NULL); /* the job ran on this cluster */
	if (s->of_fields)
		put_geometry(job, sbatch);
	if (p4d_sbatch_job(sbatch, err) < 0)
		return -1;
	sbatch->job.user = job->user;
	sbatch->job.script = s->c->script;
	sbatch->job.script_length = s->c->length;
	return 0;
}

/* Whether the options agree with the job's numbers in the accounting, as far as both are known. */
static bool agrees(const stored_job *s)
{
	const p4d_accounting_job *job = s->c->job;
	p4d_geometry geometry;
	p4d_error err;

	if (!p4d_job_wants_gpus(&s->sbatch.job))
		return false;
	if (p4d_job_geometry(s->b->site, &s->sbatch.job, p4d_live_cluster, NULL, &geometry, &err) < 0)
		return err.code != P4D_E_NO_GPU && err.code != P4D_E_GPU_OF_PARTITION;
	return !job->gpus_asked ||
	       (uint64_t)geometry.nodes * geometry.gpus_per_node == (uint64_t)job->gpus_asked;
}

static int gather_all(stored_job *s, p4d_error *err)
{
	const bool has_line = s->line.script < s->line.words || s->line.wrap;

	if (gather(s, has_line, err) == 0 && agrees(s))
		return 0;
	p4d_sbatch_free(&s->sbatch);
	s->of_fields = true;
	if (gather(s, has_line, err) == 0)
		return 0;
	p4d_sbatch_free(&s->sbatch);
	return gather(s, false, err);
}

/* Whether a script uses its arguments, which are unknown without the command line. */
static bool uses_arguments(const char *script)
{
	for (const char *at = script; (at = strchr(at, '$')); at++) {
		const char *name = at + 1 + (at[1] == '{');
		if ((*name >= '1' && *name <= '9') || *name == '@' || *name == '*')
			return true;
	}
	return false;
}

static void read_script(stored_job *s, bool files, void *memory)
{
	static char *none[] = {NULL};
	char **arguments = s->line.script < s->line.words ? s->line.word + s->line.script + 1 : none;
	const char *chdir = s->sbatch.value[P4D_SBATCH_CHDIR];
	const p4d_job_script script = {.job = &s->sbatch.job,
				       .name = s->name,
				       .arguments = (const char *const *)arguments,
				       .directory = chdir && *chdir == '/' ? chdir : s->c->job->work_dir,
				       .environment = s->variable,
				       .variables = s->variables,
				       .submitted = true,
				       .export = s->sbatch.value[P4D_SBATCH_EXPORT],
				       .files = files ? &s->files : NULL,
				       .typed = &s->sbatch.request,
				       .program = p4d_site_program_of,
				       .site = s->b->site,
				       .config = files ? p4d_line_config : NULL,
				       .inherited = inherited,
				       .task = s->task,
				       .context = s};

	p4d_job_read(&script, &(p4d_shell_limits){memory, READING_BYTES, P4D_SHELL_WORK}, &s->reading);
	s->sbatch.job.reading = s->reading.reader || *s->reading.comment ? &s->reading : NULL;
	s->sbatch.job.script_arguments = script.arguments;
}

/* Whether the verdict has a prediction, of training or of an inference engine. */
static bool is_judged(const p4d_verdict *v)
{
	return v->judged || v->serving.max_model_len || v->colocated.capacity_bytes;
}

/* Whether a message of the verdict is a warning, not only a note about what p4d did. */
static bool warns(const p4d_verdict *v)
{
	for (unsigned i = 0; i < v->messages; i++)
		if (v->message[i].code != P4D_E_CHOSE && v->message[i].code != P4D_E_READ &&
		    v->message[i].code != P4D_E_REHEARSED)
			return true;
	return false;
}

static p4d_backtest_verdict verdict_of(const p4d_verdict *v)
{
	if (v->would_reject)
		return P4D_BACKTEST_REFUSED;
	if (!is_judged(v))
		return P4D_BACKTEST_NOT_JUDGED;
	return warns(v) ? P4D_BACKTEST_WARNED : P4D_BACKTEST_PASSED;
}

/* The reason without details that differ between jobs: "train.sh:12: x.py was not checked: p4d cannot tell
 * seq-len (...)" */
static void name_reason(const char *text, p4d_backtest_result *r)
{
	static const char checked[] = "was not checked: ";
	const char *after = strstr(text, checked);

	text = after ? after + sizeof(checked) - 1 : text;
	snprintf(r->reason, sizeof(r->reason), "%.*s", (int)strcspn(text, ";\n"), text);
}

/* Records that nothing in the script is a training. */
static void say_unknown(const stored_job *s, p4d_backtest_result *r)
{
	const char *slash = strrchr(s->reading.program, '/');
	char text[160];

	if (s->lost)
		snprintf(text, sizeof(text),
			 "the script uses arguments, but Slurm stored its command line without quotes");
	else if (s->reading.left.file)
		snprintf(text, sizeof(text), "the script exits before any training");
	else if (s->reading.incomplete)
		snprintf(text, sizeof(text), "%s", s->reading.incomplete);
	else if (*s->reading.program)
		snprintf(text, sizeof(text), "p4d does not know the training program %.100s",
			 slash ? slash + 1 : s->reading.program);
	else
		snprintf(text, sizeof(text), "the script starts no training that p4d knows");
	name_reason(text, r);
}

static void say_not_judged(const p4d_verdict *v, p4d_backtest_result *r)
{
	if (v->unread[0])
		name_reason(v->unread, r);
	else if (v->messages)
		name_reason(v->message[0].text, r);
	else if (v->policy.exempt)
		name_reason("p4d.conf exempts its account, QOS or user", r);
	else if (v->policy.mode == P4D_MODE_OFF)
		name_reason("mode = off in p4d.conf", r);
	else if (v->policy.scripts == P4D_SCRIPTS_IGNORE)
		name_reason("scripts = ignore in p4d.conf", r);
	else
		name_reason("the script does not seem to train a language model", r);
}

static p4d_backtest_stage stage_of(const stored_job *s, const p4d_verdict *v)
{
	const bool reads = s->reading.reader && (s->reading.named || s->reading.told);
	const bool knows = reads || p4d_is_set(&s->sbatch.request, P4D_MODEL);

	const bool left_out =
	    v->policy.exempt || v->policy.mode == P4D_MODE_OFF || v->policy.scripts == P4D_SCRIPTS_IGNORE;

	if (is_judged(v) || v->would_reject)
		return P4D_BACKTEST_JUDGED;
	if (!knows || (!left_out && !v->messages && !v->unread[0]))
		return P4D_BACKTEST_STORED;
	if (left_out)
		return P4D_BACKTEST_KNOWN;
	for (unsigned i = 0; i < v->messages; i++)
		if (v->message[i].code == P4D_E_NOT_READ || v->message[i].code == P4D_E_UNMODELLED)
			return P4D_BACKTEST_KNOWN;
	return P4D_BACKTEST_WHOLE;
}

static void take_place(const stored_job *s, p4d_backtest_result *r)
{
	if (s->reading.reader && s->reading.file)
		snprintf(r->place, sizeof(r->place), "%.180s:%" PRIu32, s->reading.file, s->reading.line);
	else
		snprintf(r->place, sizeof(r->place), "%.190s", s->name);
}

/* Stores the options of a judged training. For a model from a file it stores the sizes, because other
 * users cannot read the file. */
static void take_options(const stored_job *s, const p4d_verdict *v, p4d_backtest_result *r)
{
	p4d_request request = s->sbatch.request;

	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++)
		if (v->changed && request.origin[p4d_layout_options[i]] == P4D_BY_P4D)
			request.origin[p4d_layout_options[i]] = P4D_BY_USER;
	p4d_request_put(&request, P4D_NODES, v->geometry.nodes, P4D_BY_USER);
	p4d_request_put(&request, P4D_GPUS_PER_NODE, v->geometry.gpus_per_node, P4D_BY_USER);
	const bool of_file = strchr("./~", request.model[0]) || strstr(request.model, ".json");
	if (!p4d_run_options_write(&request, of_file, r->options, sizeof(r->options)))
		r->options[0] = '\0';
}

/* Whether p4d refuses the job because of its memory. This includes jobs of which p4d knows only the
 * weights. */
static bool is_of_memory(const p4d_verdict *v)
{
	return v->would_reject && v->messages &&
	       (v->message[0].code == P4D_E_DOES_NOT_FIT || v->message[0].code == P4D_E_NO_LAYOUT);
}

static void take_verdict(const stored_job *s, const p4d_verdict *v, p4d_backtest_result *r)
{
	r->verdict = verdict_of(v);
	r->stage = stage_of(s, v);
	r->by_task = s->reading.by_task;
	r->fraction = -1;
	snprintf(r->model, sizeof(r->model), "%.*s", (int)sizeof(r->model) - 1, s->sbatch.request.model);
	if (v->geometry.gpu) {
		snprintf(r->gpu, sizeof(r->gpu), "%.47s", v->geometry.gpu->name);
		r->capacity_bytes = v->geometry.gpu->usable_bytes;
	}
	if (v->judged) {
		snprintf(r->framework, sizeof(r->framework), "%s",
			 p4d_framework_of(v->layout.framework)->name);
		take_options(s, v, r);
		r->fraction = v->estimate.fraction;
		r->need_bytes = v->estimate.peak.device_bytes;
		r->capacity_bytes = v->estimate.capacity_bytes;
		r->above_limit = r->fraction > p4d_site_policy_limit(&v->policy, v->layout.framework);
	}
	r->above_limit = r->above_limit || is_of_memory(v);
	if (v->messages) {
		r->code = v->message[0].code;
		snprintf(r->text, sizeof(r->text), "%.399s", v->message[0].text);
	}
	take_place(s, r);
	if (r->verdict == P4D_BACKTEST_NOT_JUDGED) {
		if (s->lost || !s->reading.reader)
			say_unknown(s, r);
		else
			say_not_judged(v, r);
	}
}

/* Stores the verdicts at other limits. strict: the verdict at the lowest limit; NULL: not needed, or
 * unknown. If memory exceeds a limit by less than p4d's error, p4d would only warn. */
static void take_limits(const p4d_verdict *v, const p4d_verdict *strict, p4d_backtest_result *r)
{
	for (int i = 0; i < P4D_BACKTEST_LIMITS; i++) {
		const bool refusable = v->judged && (is_of_memory(v) || (strict && is_of_memory(strict)));
		const double limit = p4d_backtest__limits[i];
		r->refused_at[i] =
		    refusable ? r->fraction > limit && !p4d_memory_unsure(&v->layout, &v->estimate, limit)
			      : v->would_reject;
	}
}

static void guard(stored_job *s, const p4d_site *site, const p4d_request *request, p4d_verdict *v)
{
	p4d_request own = *request;
	uint32_t published_batch;

	p4d_guard_submit(site, &s->sbatch.job, p4d_live_cluster, NULL, &own, &published_batch, v);
	if (site == s->b->site)
		s->sbatch.request = own;
}

static void judge(stored_job *s, p4d_backtest_result *r)
{
	const p4d_backtest *b = s->b;
	const p4d_request typed = s->sbatch.request;
	p4d_verdict v = {.messages = 0}, strict = {.messages = 0};

	guard(s, b->site, &typed, &v);
	take_verdict(s, &v, r);
	const bool between =
	    v.judged && !v.would_reject && r->fraction > p4d_backtest__limits[0] && b->strict;
	if (between)
		guard(s, b->strict, &typed, &strict);
	take_limits(&v, between ? &strict : NULL, r);
}

/*
 * Stores the newest modification time of the files that were read, because they may have changed since the
 * submission.
 */
static void take_times(const stored_job *s, p4d_backtest_result *r)
{
	struct stat status;

	for (size_t i = 0; i < s->files.count; i++)
		if (s->files.file[i].text && stat(s->files.file[i].path, &status) == 0 &&
		    (int64_t)status.st_mtime > r->newest)
			r->newest = (int64_t)status.st_mtime;
}

static void fail(const char *why, p4d_backtest_result *r)
{
	r->verdict = P4D_BACKTEST_NOT_JUDGED;
	r->stage = P4D_BACKTEST_STORED;
	r->fraction = -1;
	name_reason(why, r);
}

static void judge_gathered(stored_job *s, bool files, void *memory, p4d_backtest_result *r)
{
	p4d_error err = {.code = P4D_OK};

	if (gather_all(s, &err) < 0 || p4d_sbatch_request(&s->sbatch, &err) < 0) {
		char why[200];
		snprintf(why, sizeof(why), "its options: %.150s", err.text);
		fail(why, r);
		return;
	}
	if (!s->lost)
		read_script(s, files, memory);
	judge(s, r);
	take_times(s, r);
}

void p4d_backtest__judge(const p4d_backtest *b, const p4d_backtest_case *c, bool files,
			 p4d_backtest_result *result)
{
	static char *memory; /* memory that all cases of this process reuse */
	stored_job s = {.b = b, .c = c};
	const char *task = strchr(c->job->id, '_');

	*result = (p4d_backtest_result){.fraction = -1};
	memory = memory ? memory : malloc(READING_BYTES);
	if (strchr(c->job->id, '+')) {
		fail("the job is heterogeneous: p4d does not read scripts with several components", result);
		return;
	}
	if (!memory || !p4d_backtest__line_read(&s.line, c)) {
		fail("no memory", result);
		return;
	}
	cut_environment(&s);
	s.task = task ? task + 1 : NULL;
	s.name = s.line.script < s.line.words ? s.line.word[s.line.script]
		 : *c->job->name              ? c->job->name
					      : "job";
	s.lost = s.line.script == s.line.words && !s.line.wrap && uses_arguments(c->script);
	judge_gathered(&s, files, memory, result);
	p4d_sbatch_free(&s.sbatch);
	p4d_read_files_free(&s.files);
	p4d_backtest__line_free(&s.line);
	free(s.environment);
}
