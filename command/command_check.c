/* SPDX-License-Identifier: Apache-2.0 */
/* p4d check: prints what sbatch would answer for a script. It runs the same guard as sbatch. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/library.h"
#include "base/number.h"
#include "base/text.h"
#include "command.h"
#include "job/read_job.h"
#include "job/sbatch.h"
#include "job/tasks.h"
#include "line/job_script.h"
#include "line/submitted.h"
#include "report/answer.h"
#include "rehearsals/rehearsals.h"
#include "report/report.h"
#include "request/framework.h"
#include "guard/submit.h"

extern char **environ;

const char p4d_check_options[] =
    "\n"
    "SBATCH OPTIONS are the options of sbatch(1), with the --p4d- options. Like sbatch, p4d check also\n"
    "reads the #SBATCH lines of the script and the SBATCH_ variables of the environment.\n"
    "\n"
    "  --gpu NAME                  the GPU, instead of the one that p4d.conf or the cluster names\n"
    "  --elsewhere LIST|all        also name the partition where the job would take the fewest GPU-hours\n"
    "  --strict                    also fail if the job gets a warning, or if p4d did not check the job\n"
    "  --skip-unknown              ignore options of neither sbatch nor p4d, such as those of other plugins";

enum { READING_BYTES = 6 << 20, COMPONENTS = 128 };

typedef struct check {
	const p4d_check_source *source;
	char **environment;
	int argc;
	char **argv;
	int start[COMPONENTS]; /* indices where the options of a component begin, after "check" or ":" */
	unsigned typed;        /* number of components on the command line */
	unsigned components;   /* number of components on the command line and in the script together */
	p4d_sbatch first;      /* the first component of the command line, which names the script */
	p4d_sbatch kept;       /* options that sbatch passes from one component to the next */
	char *script;
	size_t length;
	const char *name;        /* name of the script, for messages */
	const char *rehearsable; /* see p4d_job */
	char **arguments;        /* NULL-terminated */
	char directory[2 * PATH_MAX];
	p4d_reading reading;
	p4d_job_tasks tasks;
	p4d_read_files files;
	p4d_submitted submitted; /* values from the script */
	p4d_rehearsals rehearsals;
	char *memory;            /* memory for reading the script */
	const p4d_sbatch *whose; /* the script that is in `memory` */
	p4d_reading other;       /* the command read as another program */
	char *other_memory;
	p4d_site *site;
	struct json_object *answers; /* with --json */
	p4d_code code;
	p4d_action worst;
} check;

static int usage(p4d_error *err, const char *text)
{
	p4d_fail(err, P4D_E_USAGE, "%s", text);
	return p4d_fix(err, "p4d help check");
}

/* Some options apply to all components of a job. Copies them from the component that has them. */
static void take_common(p4d_sbatch *first, p4d_sbatch *other)
{
	static const p4d_sbatch_field common[] = {
	    P4D_SBATCH_WRAP,   P4D_SBATCH_CONF, P4D_SBATCH_JSON, P4D_SBATCH_ELSEWHERE,
	    P4D_SBATCH_STRICT, P4D_SBATCH_GPU,  P4D_SBATCH_HELP, P4D_SBATCH_SKIP_UNKNOWN};

	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
		if (!first->value[common[i]]) {
			first->value[common[i]] = other->value[common[i]];
			other->value[common[i]] = NULL;
		}
}

/* sbatch clears its options before it reads those of the next component. These options stay. */
static const p4d_sbatch_field kept[] = {P4D_SBATCH_ACCOUNT, P4D_SBATCH_MEM, P4D_SBATCH_QOS,
					P4D_SBATCH_RESERVATION};
enum { KEPT = sizeof(kept) / sizeof(kept[0]) };

static void keep(check *c, const p4d_sbatch *from)
{
	for (int i = 0; i < KEPT; i++)
		if (from->value[kept[i]]) {
			free(c->kept.value[kept[i]]);
			c->kept.value[kept[i]] = strdup(from->value[kept[i]]);
		}
}

static void take_kept(const check *c, p4d_sbatch *into)
{
	bool other_memory = into->value[P4D_SBATCH_MEM_PER_CPU] || into->value[P4D_SBATCH_MEM_PER_GPU];

	for (int i = 0; i < KEPT; i++)
		if (!into->value[kept[i]] && c->kept.value[kept[i]] &&
		    !(kept[i] == P4D_SBATCH_MEM && other_memory))
			into->value[kept[i]] = strdup(c->kept.value[kept[i]]);
}

/* Splits the command line at ":" into the components of a job. *script: the first word after the last
 * component's options. */
static int split_components(check *c, const char **script, p4d_error *err)
{
	int start = 0, operand;

	do {
		p4d_sbatch other = {.skips_foreign = c->first.value[P4D_SBATCH_SKIP_UNKNOWN]};
		p4d_sbatch *into = c->typed ? &other : &c->first;
		if (c->typed == COMPONENTS)
			return p4d_fail(err, P4D_E_USAGE, "more than %d components", COMPONENTS);
		int rc = p4d_sbatch_arguments(into, c->argc - start, c->argv + start, &operand, err);
		take_common(&c->first, &other);
		keep(c, into); /* sbatch parses the whole command line before it reads the first component */
		p4d_sbatch_free(&other);
		if (rc < 0)
			return -1;
		c->start[c->typed++] = start;
		start += operand;
	} while (start < c->argc && !strcmp(c->argv[start], ":"));
	*script = start < c->argc ? c->argv[start] : NULL;
	c->name = *script ? *script : c->first.value[P4D_SBATCH_WRAP] ? "--wrap" : "stdin";
	char path[PATH_MAX];
	c->rehearsable = p4d_library_find("libp4d-rehearsal.so", path, sizeof(path)) ? *script : NULL;
	c->arguments = c->argv + (start < c->argc ? start + 1 : c->argc);
	return 0;
}

/* The directory in which a job runs if it is submitted in the directory `from`. NULL: unknown. */
static const char *directory_of(const check *c, const char *from, char *buf, size_t size)
{
	const char *chdir = c->first.value[P4D_SBATCH_CHDIR];

	if (!from || (chdir && *chdir == '/'))
		return chdir && *chdir == '/' ? chdir : NULL;
	snprintf(buf, size, "%s%s%s", from, chdir ? "/" : "", chdir ? chdir : "");
	return buf;
}

/* Reads the script from the first of these that exists, as sbatch does: the source, a file, --wrap,
 * standard input. */
static int read_script(check *c, const char *name, p4d_error *err)
{
	const char *wrap = c->first.value[P4D_SBATCH_WRAP], *in = c->first.value[P4D_SBATCH_CHDIR];
	char buf[2 * PATH_MAX];

	if (wrap && name)
		return usage(err, "--wrap replaces the script; give either --wrap or a script");
	if (!wrap && !name && !c->source->script && (!c->source->standard_input || isatty(STDIN_FILENO)))
		return usage(err, "no job script given");
	if (c->source->directory)
		in = directory_of(c, c->source->directory, buf, sizeof(buf));
	c->script = c->source->script
			? p4d_line_script_copy(c->source->script, c->source->length, c->name, &c->length, err)
		    : wrap ? p4d_line_script_wrapped(wrap, &c->length, err)
			   : p4d_line_read_script(name, in, &c->length, err);
	return c->script ? 0 : -1;
}

/* Reads a list of nodes from a file with one or more nodes per line, for -F, or for -w with a path. */
static int read_nodes(p4d_sbatch *sbatch, p4d_error *err)
{
	char **list = &sbatch->value[P4D_SBATCH_NODELIST];
	const char *path = sbatch->value[P4D_SBATCH_NODEFILE];
	p4d_text nodes = {.grows = true};
	size_t length;

	if (!path && *list && strchr(*list, '/'))
		path = *list;
	if (!path)
		return 0;
	int file = p4d_file_open(path);
	char *text = file < 0 ? NULL : p4d_file_read(file, P4D_LINE_SCRIPT_BYTES, &length);
	if (!text)
		p4d_fail(err, P4D_E_IO, "node file %.200s: %m", path);
	if (file >= 0)
		close(file);
	if (!text)
		return -1;
	p4d_text_add(&nodes, "");
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		line[strcspn(line, "#*")] = '\0'; /* # begins a comment, * a number of tasks */
		for (char *word; (word = strsep(&line, " \t\r"));)
			if (*word)
				p4d_text_entry(&nodes, ",", "%s", word);
	}
	free(text);
	free(*list);
	*list = nodes.at;
	return 0;
}

/* Reads all options of a component. A component that only the script has gets the options of the last
 * component on the command line. */
static int gather(check *c, unsigned component, p4d_sbatch *sbatch, p4d_error *err)
{
	int start = c->start[component < c->typed ? component : c->typed - 1], operand;
	unsigned components;

	sbatch->skips_foreign = c->first.value[P4D_SBATCH_SKIP_UNKNOWN];
	if (p4d_sbatch_arguments(sbatch, c->argc - start, c->argv + start, &operand, err) < 0 ||
	    p4d_sbatch_environment(sbatch, c->environment, err) < 0 ||
	    p4d_sbatch_script(sbatch, c->script, c->length, component, &components, err) < 0)
		return -1;
	take_kept(c, sbatch);
	keep(c, sbatch);
	char **clusters = &sbatch->value[P4D_SBATCH_CLUSTERS];
	if (*clusters && p4d_live_cluster_is(*clusters)) {
		free(*clusters); /* --clusters named this cluster */
		*clusters = NULL;
	}
	if (sbatch->value[P4D_SBATCH_HINT] &&
	    (sbatch->value[P4D_SBATCH_SOCKETS_PER_NODE] || sbatch->value[P4D_SBATCH_CORES_PER_SOCKET]))
		sbatch->release = p4d_live_cluster_release();
	return read_nodes(sbatch, err) < 0 ? -1 : p4d_sbatch_job(sbatch, err);
}

static p4d_job_script script_of(check *c, const p4d_sbatch *sbatch, const p4d_request *typed)
{
	return (p4d_job_script){.job = &sbatch->job,
				.name = c->name,
				.arguments = (const char *const *)c->arguments,
				.directory = c->directory,
				.environment = c->environment,
				.variables = SIZE_MAX,
				.submitted = true,
				.export = sbatch->value[P4D_SBATCH_EXPORT],
				.files = &c->files,
				.typed = typed,
				.program = p4d_site_program_of,
				.site = c->site,
				.config = p4d_line_config,
				.context = &c->submitted};
}

/* Reads the script for the job as sbatch does. */
static const p4d_reading *read_as(void *context, const p4d_request *typed)
{
	check *c = context;

	c->other_memory = c->other_memory ? c->other_memory : malloc(READING_BYTES);
	if (!c->other_memory)
		return NULL;
	const p4d_job_script script = script_of(c, c->whose, typed);
	p4d_job_read(&script, &(p4d_shell_limits){c->other_memory, READING_BYTES, P4D_SHELL_WORK}, &c->other);
	return c->other.reader ? &c->other : NULL;
}

/* Finds the training that the script starts. Does nothing for a job of several components, because they
 * all run the same script. */
static void read_job(check *c, p4d_sbatch *sbatch)
{
	const char *from = c->source->directory;
	char here[PATH_MAX], buf[2 * PATH_MAX];

	sbatch->job.script = c->script;
	sbatch->job.script_length = c->length;
	if (c->components > 1)
		return;
	const char *in = directory_of(c, from ? from : getcwd(here, sizeof(here)), buf, sizeof(buf));
	snprintf(c->directory, sizeof(c->directory), "%s", in ? in : "");
	c->memory = c->memory ? c->memory : malloc(READING_BYTES);
	if (!c->memory)
		return;
	c->submitted.script = c->script;
	c->submitted.length = c->length;
	c->submitted.files = &c->files;
	c->submitted.environment = c->environment;
	c->submitted.program = p4d_site_program_of;
	c->submitted.site = c->site;
	p4d_job_script script = script_of(c, sbatch, &sbatch->request);
	script.submits = p4d_submitted_add;
	script.rehearsals = p4d_rehearsals_any() ? &c->rehearsals : NULL;
	const p4d_shell_limits limits = {c->memory, READING_BYTES, P4D_SHELL_WORK};
	p4d_job_read(&script, &limits, &c->reading);
	script.submits = NULL; /* the first reading has found all of the jobs that it submits */
	sbatch->job.array_tasks = p4d_job_tasks_of(&c->tasks, &script, &limits, &c->reading);
	sbatch->job.reading = c->reading.reader || *c->reading.comment ? &c->reading : NULL;
	sbatch->job.rehearsals = &c->rehearsals;
	sbatch->job.script_arguments = (const char *const *)c->arguments;
	sbatch->job.rehearsable = c->rehearsable;
	c->whose = sbatch;
	sbatch->job.read_as = read_as;
	sbatch->job.read_context = c;
}

/* Without a cluster, a script without #SBATCH lines may request no GPUs. If the user names the GPU, the job
 * gets as many GPUs as the script starts processes for. */
static void take_started_gpus(p4d_sbatch *sbatch)
{
	const p4d_reading *reading = sbatch->job.reading;
	p4d_job *job = &sbatch->job;
	uint64_t gpus, nodes = 1;

	if (!job->gpu_type || !reading || p4d_job_wants_gpus(job) || sbatch->gres ||
	    !p4d_number_whole(reading->value[P4D_GPUS_PER_NODE].text, 1, 1024, &gpus) ||
	    asprintf(&sbatch->gres, "gpu:%" PRIu64, gpus) < 0)
		return;
	job->gres = sbatch->gres;
	if (!job->min_nodes && p4d_number_whole(reading->value[P4D_NODES].text, 1, 1 << 20, &nodes))
		job->min_nodes = job->max_nodes = (uint32_t)nodes;
}

/* Judges a component. It never fails: as with sbatch, an error becomes a part of the verdict. */
static void judge(check *c, p4d_sbatch *sbatch, bool reads, uint32_t *published_batch, p4d_verdict *verdict)
{
	p4d_error err;

	*published_batch = 0;
	if (p4d_sbatch_request(sbatch, &err) < 0) {
		p4d_guard_fail(c->site, &sbatch->job, &err, NULL, verdict);
		return;
	}
	if (reads)
		read_job(c, sbatch);
	take_started_gpus(sbatch);
	p4d_guard_submit(c->site, &sbatch->job, p4d_live_cluster, NULL, &sbatch->request, published_batch,
			 verdict);
	p4d_guard_foresee(c->site, &sbatch->job, p4d_live_cluster, NULL, verdict);
}

static void advise(const check *c, const p4d_sbatch *sbatch, const p4d_verdict *v, uint32_t published_batch,
		   p4d_advice *advice)
{
	const char *partition = v->geometry.partition[0] ? v->geometry.partition : sbatch->job.partition;
	char preempt_mode[64] = "";
	p4d_search_space space = {
	    .nodes = v->geometry.nodes,
	    .gpus_per_node = v->geometry.gpus_per_node,
	    .published_batch = published_batch,
	    .capacity = {v->geometry.gpu, v->geometry.host_bytes, p4d_site_host_bytes_per_rank(c->site)},
	    .method = P4D_METHOD_PLAN,
	    .safe = v->policy.safe,
	    .limit = v->policy.safe};
	const char *elsewhere = c->first.value[P4D_SBATCH_ELSEWHERE];

	if (elsewhere && p4d_is_set(&sbatch->request, P4D_MODEL))
		p4d_advice_on_place(advice, c->site, elsewhere, &sbatch->request, &space, v);
	if (v->action == P4D_REJECT || v->would_reject)
		return;
	if (sbatch->value[P4D_SBATCH_REQUEUE] && partition)
		p4d_live_preempt_mode(partition, preempt_mode, sizeof(preempt_mode));
	p4d_advice_on_script(advice, &sbatch->job, v);
	p4d_advice_on_options(advice, sbatch, v, preempt_mode);
	/* no advice about smaller GPUs for unvalidated figures, or if a part of the model is on the host */
	if (v->judged && !p4d_framework_unvalidated(&v->layout) && !v->layout.offload &&
	    v->estimate.fraction <= p4d_site_policy_limit(&v->policy, v->layout.framework)) {
		const p4d_plan_memo memo = p4d_plan_memo_of(P4D_SEARCH_MEMO);
		space.memo = &memo;
		p4d_advice_on_size(advice, c->site, &sbatch->request, &space);
		free(memo.entry);
	}
}

/* Whether p4d has anything to report about a component. */
static bool matters(const p4d_sbatch *sbatch, const p4d_verdict *v)
{
	return sbatch->job.reading || p4d_is_set(&sbatch->request, P4D_MODEL) || v->action != P4D_PASS ||
	       v->messages;
}

static bool is_worse(const p4d_verdict *a, const p4d_verdict *b)
{
	const p4d_rank rank_a = p4d_verdict_rank(a), rank_b = p4d_verdict_rank(b);

	return p4d_rank_is_worse(&rank_a, &rank_b);
}

static void take_verdict(check *c, const p4d_verdict *verdict)
{
	if (verdict->action > c->worst)
		c->worst = verdict->action;
	if (c->code == P4D_OK)
		c->code = p4d_answer_code(verdict, c->first.value[P4D_SBATCH_STRICT]);
}

/* Copies doubts about a script to the jobs that it submits. */
static void take_doubts(const p4d_reading *from, p4d_reading *to)
{
	for (unsigned i = 0; i < from->unknowns; i++)
		if (from->unknown[i].doubt) { /* one doubt is enough */
			to->unknowns -= to->unknowns == P4D_READ_UNKNOWNS;
			to->unknown[to->unknowns++] = from->unknown[i];
		}
}

/* Judges the jobs that the script submits. Returns the one with the worst verdict; NULL: p4d checks none. */
static p4d_submitted_job *judge_submitted(check *c, uint32_t *published_batch, p4d_verdict *worst)
{
	p4d_submitted_job *found = NULL;
	p4d_verdict verdict;
	uint32_t batch;

	for (unsigned i = 0; i < c->submitted.count; i++) {
		p4d_submitted_job *job = c->submitted.job[i];
		if (c->first.value[P4D_SBATCH_GPU])
			job->sbatch.job.gpu_type = c->first.value[P4D_SBATCH_GPU];
		take_doubts(&c->reading, &job->reading);
		judge(c, &job->sbatch, false, &batch, &verdict);
		if (!matters(&job->sbatch, &verdict) || (found && !is_worse(&verdict, worst)))
			continue;
		*worst = verdict;
		*published_batch = batch;
		found = job;
	}
	return found;
}

/* Prints the answer for the submitted job with the worst verdict. Returns false if p4d checks none.
 * counts: whether this verdict becomes the exit status. */
static bool answer_submitted(check *c, bool counts, struct json_object **object)
{
	p4d_verdict verdict;
	p4d_advice advice = {0};
	uint32_t published_batch;
	char which[64] = "", task[32] = "";
	p4d_submitted_job *job = judge_submitted(c, &published_batch, &verdict);

	if (!job)
		return false;
	advise(c, &job->sbatch, &verdict, published_batch, &advice);
	if (counts)
		take_verdict(c, &verdict);
	const p4d_checked answer = {&job->sbatch, &verdict, &advice,
				    job->reading.reader ? NULL : &job->reading};
	const unsigned all = c->submitted.count + c->submitted.more;
	if (all > 1)
		snprintf(which, sizeof(which), ", the worst of %u%s", c->submitted.count,
			 c->submitted.more ? " that were checked" : "");
	if (c->answers) {
		char from[PATH_MAX + 16];
		snprintf(from, sizeof(from), "%s:%" PRIu32, job->from, job->line);
		*object = p4d_answer_json(&answer);
		json_object_object_add(*object, "submitted_by", json_object_new_string(from));
		if (job->of_task)
			json_object_object_add(*object, "array_task", json_object_new_int64(job->task));
		return true;
	}
	if (job->of_task)
		snprintf(task, sizeof(task), ", array task %" PRIu32, job->task);
	printf("p4d: the job that %s submits at line %" PRIu32 "%s%s:\n", job->from, job->line, task, which);
	fflush(stdout);
	p4d_answer_print(&answer, "");
	return true;
}

static void answer_component(check *c, unsigned component, const p4d_checked *answer)
{
	struct json_object *object = NULL;
	char prefix[16] = ""; /* the prefix that Slurm prints for a component */

	if (c->components > 1)
		snprintf(prefix, sizeof(prefix), "%u: ", component);
	const bool first = c->components > 1 || matters(answer->sbatch, answer->verdict);
	if (first && !c->answers)
		p4d_answer_print(answer, prefix);
	take_verdict(c, answer->verdict);
	const bool submitted = answer_submitted(c, !first, &object);
	if (!first && !submitted && !c->answers)
		p4d_answer_print(answer, prefix);
	if (!c->answers)
		return;
	if (object && !first) {
		json_object_array_add(c->answers, object);
		return;
	}
	struct json_object *own = p4d_answer_json(answer);
	if (object)
		json_object_object_add(own, "submits", object);
	json_object_array_add(c->answers, own);
}

static int check_component(check *c, unsigned component, p4d_error *err)
{
	p4d_sbatch sbatch = {0};
	p4d_verdict verdict;
	p4d_advice advice = {0};
	uint32_t published_batch = 0;

	if (gather(c, component, &sbatch, err) < 0) {
		p4d_sbatch_free(&sbatch);
		return -1;
	}
	judge(c, &sbatch, true, &published_batch, &verdict);
	advise(c, &sbatch, &verdict, published_batch, &advice);
	answer_component(c, component,
			 &(p4d_checked){&sbatch, &verdict, &advice, c->reading.reader ? NULL : &c->reading});
	p4d_sbatch_free(&sbatch);
	return 0;
}

/* Prints the answer as JSON: one job as an object, several as {"verdict", "components": [...]}. */
static int print_json(check *c, p4d_error *err)
{
	struct json_object *object;

	if (c->components == 1) {
		object = json_object_get(json_object_array_get_idx(c->answers, 0));
	} else {
		object = json_object_new_object();
		json_object_object_add(object, "verdict",
				       json_object_new_string(p4d_report_action(c->worst)));
		json_object_object_add(object, "components", json_object_get(c->answers));
	}
	return p4d_report_json_print(object, err);
}

static int check_job(const p4d_subcommand *self, check *c, p4d_error *err)
{
	const char *name = NULL;
	p4d_sbatch probe = {0};

	if (split_components(c, &name, err) < 0) {
		if (!err->fix[0])
			p4d_fix(err, "p4d help check");
		return -1;
	}
	if (c->first.value[P4D_SBATCH_HELP]) {
		if (!self)
			return usage(err, "a program gets no help text");
		p4d_line_help(self, true);
		return P4D_OK;
	}
	if (read_script(c, name, err) < 0)
		return -1;
	int rc = p4d_sbatch_script(&probe, c->script, c->length, 0, &c->components, err);
	p4d_sbatch_free(&probe);
	if (rc < 0)
		return -1;
	if (c->components < c->typed)
		c->components = c->typed;
	c->site = p4d_line_open_site(c->first.value[P4D_SBATCH_CONF], err);
	const char *gpu = c->first.value[P4D_SBATCH_GPU];
	if (!c->site)
		return -1;
	if (gpu && !p4d_site_gpu(c->site, gpu, NULL))
		return p4d_line_unknown_gpu(c->site, gpu, err);
	if (c->first.value[P4D_SBATCH_JSON] || !self)
		c->answers = json_object_new_array();
	else
		p4d_answer_misplaced(c->arguments, c->name);
	for (unsigned i = 0; i < c->components; i++)
		if (check_component(c, i, err) < 0)
			return -1;
	if (self && p4d_live_cluster_is_late())
		p4d_answer_late();
	if (c->answers && print_json(c, err) < 0)
		return -1;
	return (int)c->code;
}

static int check_source(const p4d_subcommand *self, const p4d_check_source *source, int argc, char *argv[],
			p4d_error *err)
{
	check c = {.source = source,
		   .environment = source->environment ? source->environment : environ,
		   .argc = argc,
		   .argv = argv,
		   .worst = P4D_PASS,
		   .code = P4D_OK};
	int status = check_job(self, &c, err);

	p4d_sbatch_free(&c.first);
	p4d_sbatch_free(&c.kept);
	p4d_site_free(c.site);
	json_object_put(c.answers);
	free(c.script);
	p4d_submitted_free(&c.submitted);
	p4d_read_files_free(&c.files);
	free(c.memory);
	free(c.other_memory);
	return status;
}

int p4d_command_check(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	static const p4d_check_source process = {.standard_input = true};

	return check_source(self, &process, argc, argv, err);
}

int p4d_command_check_from(const p4d_check_source *source, int argc, char *argv[], p4d_error *err)
{
	return check_source(NULL, source, argc, argv, err);
}
