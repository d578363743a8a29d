/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the values that p4d reads from a job script, with their places. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "command.h"
#include "job/read_job.h"
#include "job/sbatch.h"
#include "job/tasks.h"
#include "line/submitted.h"
#include "model/model.h"
#include "report/report.h"
#include "request/framework.h"

const char p4d_read_options[] =
    "\n"
    "  --json          print JSON, as p4d-json(5) describes it\n"
    "  --program NAME  known program that takes the same arguments as the script's: trl, trainer, ...\n"
    "\n"
    "ARGS are the arguments that sbatch would pass to the script. p4d does not execute the script.";

extern char **environ;

enum { MEMORY = 6 << 20 };

static const char *place(const char *from, uint32_t line, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);

	p4d_text_escaped(&text, from);
	if (line)
		p4d_text_print(&text, ":%" PRIu32, line);
	return buf;
}

static void add(struct json_object *to, const char *key, struct json_object *value)
{
	json_object_object_add(to, key, value);
}

static struct json_object *json_value(const p4d_option_info *info, const char *text)
{
	if (info->kind != P4D_INTEGER_KIND || !strcmp(info->argument, P4D_RELEASE) ||
	    strspn(text, "0123456789") != strlen(text))
		return json_object_new_string(text);
	return json_object_new_uint64(strtoull(text, NULL, 10));
}

/* A request with the values that decide which options the framework supports. */
static p4d_request framework_read(const p4d_reading *r)
{
	static const p4d_option kinds[] = {P4D_FRAMEWORK, P4D_MODEL_CODE};
	p4d_request request = {.model = ""};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (r->value[kinds[i]].file)
			p4d_request_set(&request, kinds[i], r->value[kinds[i]].text, P4D_BY_SCRIPT, NULL);
	return request;
}

/*
 * Whether the model has no experts, so that options about experts have no effect. The script describes the
 * model, or p4d knows it.
 */
static bool has_no_experts(const p4d_reading *r)
{
	p4d_request model = {.model = ""};
	bool says = false;

	if (r->value[P4D_EXPERTS].file || r->value[P4D_EXPERTS].unknown || !r->value[P4D_MODEL].file)
		return false;
	if (!strcmp(r->value[P4D_MODEL].text, "custom"))
		return true;
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		says = says || (r->value[i].file && p4d_layout_lacks(&model, (p4d_option)i));
	return says &&
	       p4d_request_set(&model, P4D_MODEL, r->value[P4D_MODEL].text, P4D_BY_SCRIPT, NULL) == 0 &&
	       p4d_model_resolve(&model, NULL, NULL, NULL) == 0 && !p4d_is_set(&model, P4D_EXPERTS);
}

/* Whether p4d's model of the framework has the option that was read, and whether the option has an effect. */
static bool is_typed(const p4d_reading *r, const p4d_request *framework, bool dense, p4d_option option)
{
	if (!r->value[option].file || (dense && p4d_layout_lacks(framework, option)))
		return false;
	if (option == P4D_EVAL_MICRO_BATCH)
		return p4d_framework_evaluates(framework);
	return !r->by_default[option] || !p4d_framework_fixed_of(framework, option);
}

/* Whether an option has the program's default. This is known only if p4d knows all arguments, because an
 * unknown one may set the option. */
static bool is_default(const p4d_reading *r, int option)
{
	return r->value[option].file && r->by_default[option] && !r->more_arguments;
}

/* The `p4d estimate` command for the same training. "": p4d does not model the program. */
static const char *estimate_command(const p4d_reading *r, char *buf, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+,/:";
	p4d_text text = p4d_text_in(buf, size);

	if (!r->reader || !r->value[P4D_FRAMEWORK].file || r->more_arguments)
		return buf;
	const p4d_request framework = framework_read(r);
	const bool dense = has_no_experts(r);
	p4d_text_add(&text, "p4d estimate");
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (is_typed(r, &framework, dense, (p4d_option)i)) {
			if (strspn(r->value[i].text, plain) != strlen(r->value[i].text))
				return buf[0] = '\0', buf; /* users paste this command, so it must contain
							      nothing that a shell would interpret */
			p4d_text_print(&text, " --%s=%s", p4d_request_option_info((p4d_option)i)->name,
				       r->value[i].text);
		}
	if (text.truncated)
		buf[0] = '\0';
	return buf;
}

static struct json_object *json_of(const p4d_reading *r)
{
	struct json_object *answer = json_object_new_object(), *options = json_object_new_object(),
			   *defaults = json_object_new_object(), *unknown = json_object_new_array();
	char from[PATH_MAX + 16], command[4096];

	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		const p4d_read_value *v = &r->value[i];
		struct json_object *value;
		if (!v->file)
			continue;
		if (r->by_default[i]) {
			if (is_default(r, i))
				add(defaults, info->name, json_value(info, v->text));
			continue;
		}
		value = json_object_new_object();
		add(value, "value", json_value(info, v->text));
		add(value, "from", json_object_new_string(place(v->file, v->line, from, sizeof(from))));
		add(options, info->name, value);
	}
	for (unsigned i = 0; i < r->unknowns; i++) {
		struct json_object *entry = json_object_new_object();
		add(entry, "name", json_object_new_string(r->unknown[i].name));
		add(entry, "why", json_object_new_string(r->unknown[i].why));
		json_object_array_add(unknown, entry);
	}
	add(answer, "framework", r->reader ? json_object_new_string(p4d_reading_framework(r)) : NULL);
	add(answer, "program", *r->program ? json_object_new_string(r->program) : NULL);
	add(answer, "from",
	    *r->program ? json_object_new_string(place(r->file, r->line, from, sizeof(from))) : NULL);
	add(answer, "release",
	    r->reader && p4d_reading_release(r) ? json_object_new_string(p4d_reading_release(r)) : NULL);
	add(answer, "options", options);
	add(answer, "defaults", defaults);
	add(answer, "unknown", unknown);
	add(answer, "comment", *r->comment ? json_object_new_string(r->comment) : NULL);
	add(answer, "command",
	    *estimate_command(r, command, sizeof(command)) ? json_object_new_string(command) : NULL);
	add(answer, "incomplete", r->incomplete ? json_object_new_string(r->incomplete) : NULL);
	add(answer, "exit",
	    r->left.file ? json_object_new_string(place(r->left.file, r->left.line, from, sizeof(from)))
			 : NULL);
	return answer;
}

static void print_values(const p4d_reading *r, bool by_default)
{
	char from[PATH_MAX + 16];

	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_read_value *v = &r->value[i];
		if (v->file && r->by_default[i] == by_default)
			printf("  %-20s %-14s %s\n", p4d_request_option_info((p4d_option)i)->name, v->text,
			       by_default ? "" : place(v->file, v->line, from, sizeof(from)));
	}
}

static void print_unknown(const p4d_reading *r)
{
	if (*r->comment)
		printf("\n%s\n", r->comment);
	if (r->unknowns || r->incomplete)
		puts("\nNot known:\n");
	for (unsigned i = 0; i < r->unknowns; i++)
		printf("  %-20s %s\n", r->unknown[i].name, r->unknown[i].why);
	if (r->incomplete)
		printf("  %-20s %s\n", "the rest", r->incomplete);
}

static void print_no_training(const p4d_reading *r, const char *name)
{
	char from[PATH_MAX + 16];

	if (*r->program)
		printf("%s: p4d does not know %s (%s)", name, r->program,
		       place(r->file, r->line, from, sizeof(from)));
	else
		printf("%s: p4d found no training program", name);
	if (r->left.file)
		printf("; it exits at %s", place(r->left.file, r->left.line, from, sizeof(from)));
	puts(r->incomplete ? "; p4d did not read the script to its end" : "");
	print_unknown(r);
}

static void print_defaults(const p4d_reading *r)
{
	const char *release = p4d_reading_release(r);
	bool any = false;

	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		any = any || is_default(r, i);
	if (!any)
		return;
	printf("\nNot in the script, so p4d takes the defaults of %s:\n\n",
	       release ? release : "the program");
	print_values(r, true);
}

static void print_text(const p4d_reading *r, const char *name)
{
	char from[PATH_MAX + 16], command[4096];

	if (!r->reader) {
		print_no_training(r, name);
		return;
	}
	printf("%s: %s (%s), started at %s%s\n\n", name, r->program, p4d_reading_framework(r),
	       place(r->file, r->line, from, sizeof(from)),
	       r->certain ? "" : ", if a condition is true that p4d cannot decide");
	print_values(r, false);
	print_defaults(r);
	print_unknown(r);
	unsigned lacks = 0;
	for (unsigned i = 0; i < r->unknowns; i++)
		lacks += !r->unknown[i].doubt;
	if (*estimate_command(r, command, sizeof(command)))
		printf("\nTo estimate its memory%s:\n\n  %s\n",
		       lacks ? ", once you add the missing values" : "", command);
}

/* Whether two jobs run the same training, as in a loop over learning rates. */
static bool says_the_same(const p4d_reading *a, const p4d_reading *b)
{
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (strcmp(a->value[i].text, b->value[i].text) != 0)
			return false;
	return a->reader == b->reader && !strcmp(a->program, b->program);
}

/* Whether a job trains something else than all jobs before it. */
static bool is_new(const p4d_submitted *s, unsigned at)
{
	bool is_new = s->job[at]->reading.reader;

	for (unsigned i = 0; is_new && i < at; i++)
		is_new = !says_the_same(&s->job[i]->reading, &s->job[at]->reading);
	return is_new;
}

static struct json_object *json_of_tasks(p4d_job_tasks *tasks)
{
	struct json_object *all = json_object_new_array();

	while (tasks && p4d_job_tasks_next(tasks)) {
		struct json_object *one = json_of(tasks->reading);
		add(one, "array_task", json_object_new_int64(tasks->task));
		json_object_array_add(all, one);
	}
	return all;
}

static void print_all_json(const p4d_reading *r, p4d_job_tasks *tasks, const p4d_submitted *s)
{
	struct json_object *answer = json_of(r), *jobs = json_object_new_array();
	char from[PATH_MAX + 16];

	add(answer, "array_tasks", json_of_tasks(tasks));

	for (unsigned i = 0; i < s->count; i++)
		if (is_new(s, i)) {
			const p4d_submitted_job *j = s->job[i];
			struct json_object *job = json_of(&j->reading);
			add(job, "submitted_by",
			    json_object_new_string(place(j->from, j->line, from, sizeof(from))));
			json_object_array_add(jobs, job);
		}
	add(answer, "submits", jobs);
	p4d_report_json_print(answer, NULL);
}

/* Prints the values that are not the same in all tasks of an array. */
static void print_task(const p4d_reading *all, const p4d_job_tasks *tasks)
{
	const p4d_reading *r = tasks->reading;
	const char *separator = "";
	char from[PATH_MAX + 16];

	printf("Array task %" PRIu32 ": ", tasks->task);
	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_read_value *v = &r->value[i];
		const bool same = all->value[i].file && !strcmp(all->value[i].text, v->text);
		if (!v->file || same || r->by_default[i])
			continue;
		printf("%s%s %s (%s)", separator, p4d_request_option_info((p4d_option)i)->name, v->text,
		       place(v->file, v->line, from, sizeof(from)));
		separator = ", ";
	}
	puts(*separator ? "" : "nothing else");
}

/* Prints the tasks of an array that differ from each other. tasks NULL: all tasks are alike. Returns false
 * if it printed nothing. */
static bool print_tasks(const p4d_reading *all, p4d_job_tasks *tasks, const char *name)
{
	const unsigned kinds = tasks ? p4d_job_tasks_kinds(tasks) : 0;

	if (kinds > 1 && all->reader)
		puts("");
	while (kinds && p4d_job_tasks_next(tasks)) {
		if (all->reader) {
			print_task(all, tasks);
			continue;
		}
		if (kinds > 1)
			printf("Array task %" PRIu32 ":\n\n", tasks->task);
		print_text(tasks->reading, name);
		puts("");
	}
	if (kinds && tasks->cut)
		puts("p4d did not read the other tasks of the array.");
	return kinds;
}

/* Prints the values of the script itself, and of the jobs that it submits. Omits the script itself if only
 * these jobs train. */
static void print_all(const p4d_reading *r, const char *name, p4d_job_tasks *tasks, const p4d_submitted *s)
{
	bool printed = r->reader;

	if (printed)
		print_text(r, name);
	printed = print_tasks(r, tasks, name) || printed;
	for (unsigned i = 0; i < s->count; i++)
		if (is_new(s, i)) {
			printf("%sThe job that %s submits at line %" PRIu32, printed ? "\n" : "",
			       s->job[i]->from, s->job[i]->line);
			if (s->job[i]->of_task)
				printf(", array task %" PRIu32, s->job[i]->task);
			puts(":\n");
			print_text(&s->job[i]->reading, s->job[i]->name);
			printed = true;
		}
	if (!printed)
		print_text(r, name);
}

static int usage(p4d_error *err, const char *text)
{
	p4d_fail(err, P4D_E_USAGE, "%s", text);
	return p4d_fix(err, "p4d help read");
}

/* Reads a script and prints the values. A script that p4d cannot read is no error: the answer says so. */
static int read_job(const char *path, char *const *arguments, const p4d_request *typed, bool json,
		    p4d_error *err)
{
	p4d_read_files files = {.count = 0};
	p4d_sbatch sbatch = {.prefix = NULL};
	char directory[PATH_MAX], *memory = malloc(2 * MEMORY);
	p4d_reading *reading = malloc(2 * sizeof(*reading)); /* the second reading is for a task */
	p4d_submitted submitted = {.script = NULL};
	p4d_job_tasks tasks;
	size_t length;
	unsigned components;
	int status = -1;
	const char *text = p4d_read_files_open(&files, path, &length);

	if (!memory || !reading) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the job script");
	} else if (!text) {
		p4d_fail(err, P4D_E_IO, "job script %.200s: %s", path,
			 errno ? strerror(errno) : "not a regular file of at most 1 MiB");
	} else {
		p4d_error unread;
		if (p4d_sbatch_script(&sbatch, text, length, 0, &components, &unread) < 0 ||
		    p4d_sbatch_job(&sbatch, &unread) < 0)
			p4d_sbatch_free(&sbatch);
		sbatch.job.script = text;
		sbatch.job.script_length = length;
		submitted.script = text;
		submitted.length = length;
		submitted.files = &files;
		p4d_job_script script = {.job = &sbatch.job,
					 .name = path,
					 .arguments = (const char *const *)arguments,
					 .directory = getcwd(directory, sizeof(directory)),
					 .environment = environ,
					 .variables = SIZE_MAX,
					 .export = sbatch.value[P4D_SBATCH_EXPORT],
					 .files = &files,
					 .typed = typed,
					 .config = p4d_line_config,
					 .submits = p4d_submitted_add,
					 .context = &submitted};
		const p4d_shell_limits limits = {memory, MEMORY, P4D_SHELL_WORK};
		p4d_job_read(&script, &limits, reading);
		script.submits = NULL; /* the first reading has found all of the jobs that it submits */
		reading[1] = reading[0];
		const p4d_shell_limits others = {memory + MEMORY, MEMORY, P4D_SHELL_WORK};
		p4d_job_tasks *each = p4d_job_tasks_of(&tasks, &script, &others, reading + 1);
		json ? print_all_json(reading, each, &submitted) : print_all(reading, path, each, &submitted);
		status = 0;
	}
	p4d_submitted_free(&submitted);
	p4d_sbatch_free(&sbatch);
	p4d_read_files_free(&files);
	free(reading);
	free(memory);
	return status;
}

/*
 * The value of --program NAME or --program=NAME; *i becomes the index of its last word. NULL: argv[*i] is
 * another option.
 */
static const char *program_of(char *argv[], int *i)
{
	static const char name[] = "--program";
	const size_t length = strlen(name);

	if (strncmp(argv[*i], name, length) != 0)
		return NULL;
	if (argv[*i][length] == '=')
		return argv[*i] + length + 1;
	return !argv[*i][length] && argv[*i + 1] ? argv[++*i] : NULL;
}

int p4d_command_read(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	p4d_request typed = {.model = ""};
	bool json = false;
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			p4d_line_help(self, true);
			return 0;
		}
		const char *program = program_of(argv, &i);
		if (program && p4d_request_set(&typed, P4D_PROGRAM, program, P4D_BY_USER, err) < 0) {
			p4d_request_without_prefix(err->text);
			return -1;
		}
		if (!program && strcmp(argv[i], "--json") != 0)
			return usage(err, "p4d read has only the options --json and --program, which precede "
					  "the script's name");
		json = json || !program;
	}
	if (i == argc)
		return usage(err, "no job script given");
	/* users also type --json after the script's name */
	if (argc > i + 1 && !strcmp(argv[argc - 1], "--json")) {
		json = true;
		argv[--argc] = NULL;
	}
	errno = 0;
	return read_job(argv[i], argv + i + 1, &typed, json, err);
}
