/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the command in a job script that is to be rehearsed, and its environment. */
#include "rehearse/read_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "line/line.h"

extern char **environ;

enum { MEMORY = 6 << 20 };

/* The variable by which sbatch passes its --export on to srun. */
static const char of_srun[] = "SLURM_EXPORT_ENV";

/* Scores: the command with the highest is most likely the training. */
enum {
	NOTHING,
	A_PROGRAM,    /* ./train, without a launcher */
	OF_PYTHON,    /* python train.py */
	IN_RANKS,     /* srun ./train */
	LAUNCHED,     /* torchrun train.py */
	IS_KNOWN = 8, /* added if p4d knows the program */
	TRAINS = 4,   /* added if the program's name says that it trains */
	IS_CERTAIN = 2,
	BEST = 32
};

typedef struct finding {
	p4d_read_command *command;
	p4d_read_files files;
	p4d_words unknown; /* the command's variables with unknown values */
	int score;
	char conda[PATH_MAX]; /* conda environment that the script activated; "": none */
	char slurm[4096];     /* value of the Slurm variable that was asked for last */
	char *key; /* key of the command at the place that was found; NULL: p4d still looks for the command */
	bool has_key;
} finding;

/*
 * The value of a Slurm variable that no option sets. If it is set in p4d's own environment, that value is
 * used.
 */
static const char *later(void *context, const char *name)
{
	finding *f = context;
	const char *own = getenv(name);
	const p4d_read_command *c = f->command;

	if (own)
		return own;
	const p4d_player plain = {
	    .nodes = 1, .ranks_per_node = 1, .job_name = c->name, .submitted = c->directory};
	const char *text =
	    p4d_player__slurm(c->player ? c->player : &plain, c->rank, name, f->slurm, sizeof(f->slurm));
	return text ? text : p4d_shell_later;
}

/* Whether a name is in a list of program names. part: or contains one of them. */
static bool is_any(const char *text, const char *const *names, size_t count, bool part)
{
	const char *last = p4d_file_name(text);

	for (size_t i = 0; i < count; i++)
		if (part ? strstr(last, names[i]) != NULL : !strcmp(last, names[i]))
			return true;
	return false;
}
#define IS_ANY(text, names, part) is_any(text, names, sizeof(names) / sizeof((names)[0]), part)

static int score_python(const char *program, bool module)
{
	/* modules and tools that prepare a job, but do not train */
	static const char *const tools[] = {
	    "pip",   "venv",      "http.server", "json.tool",  "site",
	    "build", "ensurepip", "zipfile",     "virtualenv", "torch.utils.collect_env"};

	if (module ? IS_ANY(program, tools, false) : program[0] == '-')
		return NOTHING;
	return OF_PYTHON;
}

/* The score of a command by its launchers. */
static int score_launched(const p4d_words *w, const p4d_launchers *l)
{
	static const char *const ranks[] = {"torchrun",
					    "torch.distributed.run",
					    "torch.distributed.launch",
					    "accelerate",
					    "accelerate-launch",
					    "accelerate.commands.launch",
					    "deepspeed",
					    "composer",
					    "tune",
					    "colossalai",
					    "oumi"};
	static const char *const tasks[] = {"srun",          "mpirun",  "mpiexec",
					    "mpiexec.hydra", "orterun", "horovodrun"};
	const char *program = w->at[l->program].text;
	int score = strchr(program, '/') ? A_PROGRAM : NOTHING;

	for (unsigned i = 0; i < l->count; i++) {
		const p4d_launcher *a = &l->at[i];
		const bool python = !strncmp(a->name, "python", 6) && i + 1 == l->count;
		int of = IS_ANY(a->name, ranks, false) ? LAUNCHED : NOTHING;
		if (python)
			of = score_python(program, a->module);
		score = of > score ? of : score;
	}
	if (l->shell)
		score = OF_PYTHON; /* the score of a shell script such as "srun bash run.sh" */
	const size_t length = strlen(program);
	if (length > 3 && !strcmp(program + length - 3, ".py") && score < OF_PYTHON)
		score = OF_PYTHON;
	for (unsigned i = 0; i < l->count; i++)
		if (IS_ANY(l->at[i].name, tasks, false) && score >= A_PROGRAM && score < LAUNCHED)
			score = IN_RANKS;
	return score;
}

static int score(const p4d_words *w, const p4d_started *command)
{
	static const char *const trains[] = {"train", "tune", "sft",  "dpo",  "grpo",  "llm",
					     "gpt",   "main", "run_", "vllm", "sglang"};
	static const char *const prepares[] = {"prep",  "download", "convert", "tokeniz", "process",
					       "setup", "install",  "merge",   "check",   "eval",
					       "test",  "export",   "plot"};
	p4d_launchers launchers;
	p4d_value *values = p4d_words__take(w->memory, w->count * sizeof(*values));

	for (size_t i = 0; values && i < w->count; i++)
		values[i] = w->at[i].value;
	if (!values)
		return NOTHING;
	p4d_reader_launchers(&launchers, values, w->count);
	if (launchers.program >= w->count)
		return NOTHING;
	const char *program = w->at[launchers.program].text;
	int sum = score_launched(w, &launchers);
	if (!sum && !command->known)
		return NOTHING;
	sum += IS_CERTAIN * command->certain + IS_KNOWN * (command->known && !command->aside);
	if (IS_ANY(program, trains, true))
		sum += TRAINS;
	if (command->aside || IS_ANY(program, prepares, true))
		sum -= TRAINS;
	return sum > NOTHING ? sum : 1;
}

static void take_variable(void *context, const char *name, const p4d_value *value)
{
	finding *f = context;
	p4d_words *w = &f->command->words;
	const char *own = p4d_words__variable(w, name);

	if (!value) {
		if (own)
			p4d_words__unset(w, name);
		return;
	}
	char *text = p4d_words__take(w->memory, value->length + 1);
	if (!text)
		return;
	p4d_value_text(*value, text, value->length + 1);
	if (p4d_value_unknown(*value) && strncmp(name, "MASTER_", 7) != 0)
		p4d_words__add(&f->unknown, name);
	else if (p4d_value_unknown(*value))
		return; /* p4d sets this variable itself */
	else if (!own || strcmp(own, text) != 0)
		p4d_words__set(w, name, text);
}

static void add_words(p4d_words *w, p4d_shell *shell, const p4d_started *command)
{
	if (command->around)
		add_words(w, shell, command->around);
	for (size_t i = 0; i < command->count; i++)
		p4d_words__add_value(w, shell, command->words[i]);
}

/* Handles conda activate NAME: finds the environment of that name in ~/.conda/environments.txt. */
static void activate(finding *f, const char *name)
{
	char path[PATH_MAX], line[PATH_MAX];
	const char *home = getenv("HOME");

	snprintf(path, sizeof(path), "%.4000s/.conda/environments.txt", home ? home : "");
	FILE *in = *name == '/' ? NULL : fopen(path, "re");
	snprintf(f->conda, sizeof(f->conda), "%s", *name == '/' ? name : "");
	while (in && fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		const char *slash = strrchr(line, '/');
		if (slash && !strcmp(slash + 1, name))
			snprintf(f->conda, sizeof(f->conda), "%s", line);
	}
	if (in)
		fclose(in);
	if (!*f->conda)
		p4d_words__add(&f->command->notes,
			       p4d_words__print(f->command->memory, "conda activate %.60s", name));
}

/* Notes a command that p4d does not run, with its words. */
static void note(finding *f, const p4d_words *said)
{
	char text[128];
	int length = 0;

	for (size_t i = 0; i < said->count && length < (int)sizeof(text) - 1; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "%s%s", i ? " " : "",
				   said->at[i].text);
	p4d_words__add(&f->command->notes, text);
}

/* Whether a command changes the search path for later commands. */
static bool changes_environment(finding *f, const p4d_started *command)
{
	static const char *const conda[] = {"conda", "mamba", "micromamba"};
	static const char *const modules[] = {"module", "ml", "spack"};
	p4d_words said = {.memory = f->command->memory};
	char first[32], second[32], third[PATH_MAX];

	p4d_value_text(command->words[0], first, sizeof(first));
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (!strcmp(first, modules[i])) {
			add_words(&said, NULL, command);
			note(f, &said);
			return true;
		}
	for (size_t i = 0; i < sizeof(conda) / sizeof(conda[0]) && command->count > 2; i++) {
		p4d_value_text(command->words[1], second, sizeof(second));
		if (strcmp(first, conda[i]) != 0 || strcmp(second, "activate") != 0)
			continue;
		activate(f, p4d_value_text(command->words[2], third, sizeof(third)));
		return true;
	}
	return false;
}

static void take_conda(finding *f, p4d_words *w)
{
	const char *path = p4d_words__variable(w, "PATH");

	if (!*f->conda)
		return;
	p4d_words__set(w, "CONDA_PREFIX", f->conda);
	p4d_words__set(
	    w, "PATH",
	    p4d_words__print(w->memory, "%s/bin%s%s", f->conda, path ? ":" : "", path ? path : ""));
}

static void take_place(const p4d_read_command *c, const p4d_shell *shell, const p4d_started *command,
		       char place[sizeof(c->place)])
{
	const p4d_value first = command->words[0];

	snprintf(place, sizeof(c->place), "%s", c->script);
	if (first.length && first.at[0].line)
		snprintf(place, sizeof(c->place), "%s:%" PRIu32, p4d_shell_file_name(shell, first.at[0].file),
			 first.at[0].line);
}

/* Takes variables of the job: those that sbatch sets, and those that the script sets. */
static void take_variables(finding *f, p4d_shell *shell)
{
	p4d_read_command *c = f->command;
	const char *list = c->sbatch->value[P4D_SBATCH_EXPORT];

	if (list) {
		p4d_words__export(&c->words, list);
		p4d_words__set(&c->words, of_srun, list);
	}
	p4d_shell_environment(shell, take_variable, f);
}

/* Called for each command: keeps it if it is more likely the training than those before. */
static void take_command(void *context, p4d_shell *shell, const p4d_started *command)
{
	finding *f = context;
	p4d_read_command *c = f->command;
	p4d_words words = {.memory = c->memory};
	p4d_value here;

	if (!command->count || changes_environment(f, command))
		return;
	add_words(&words, shell, command);
	const int s = words.count ? score(&words, command) : NOTHING;
	c->others += s && s == f->score;
	if (s <= f->score)
		return;
	f->score = s;
	f->unknown = (p4d_words){.memory = c->memory};
	c->others = 0;
	c->words = words;
	take_place(c, shell, command, c->place);
	take_variables(f, shell);
	take_conda(f, &c->words);
	if (p4d_shell_variable(shell, "PWD", &here) && here.length && !p4d_value_unknown(here)) {
		c->words.directory = p4d_words__take(c->memory, here.length + 1);
		if (c->words.directory)
			p4d_value_text(here, c->words.directory, here.length + 1);
	}
}

/* Called for each command: makes the key of the one that was found, as sbatch will compute it. */
static void take_key(void *context, p4d_shell *shell, const p4d_started *command)
{
	finding *f = context;
	char place[sizeof(f->command->place)];
	p4d_job_command of;

	if (f->has_key || !command->run)
		return;
	take_place(f->command, shell, command, place);
	if (strcmp(place, f->command->place) != 0 ||
	    !p4d_job_command_key(&f->command->sbatch->job, shell, command, &of))
		return;
	memcpy(f->key, of.key, sizeof(of.key));
	f->has_key = true;
}

/* Finds the nodes and GPUs that the job's options request. */
static int take_geometry(p4d_read_command *c, p4d_error *err)
{
	p4d_geometry g = {.nodes = 0};
	p4d_job *job = &c->sbatch->job;
	uint32_t each = 0;
	char type[48];

	job->assumed = c->assumed;
	if (p4d_job_wants_gpus(job) || p4d_job_gets_gpus(c->site, job, p4d_live_cluster, NULL)) {
		if (p4d_job_geometry(c->site, job, p4d_live_cluster, NULL, &g, err))
			return -1;
		c->gpu = g.gpu;
	}
	c->host_bytes = g.host_bytes;
	c->ranks.nodes = g.nodes ? g.nodes : job->max_nodes;
	c->ranks.gpus_per_node = g.gpus_per_node;
	c->ranks.tasks = job->tasks;
	c->ranks.tasks_per_node = job->tasks_per_node ? job->tasks_per_node : g.tasks_per_node;
	if (job->gpus_per_task && p4d_gres_parse(job->gpus_per_task, type, sizeof(type), &each, err) > 0)
		c->ranks.gpus_per_task = each;
	return 0;
}

static int take_directory(p4d_read_command *c, p4d_error *err)
{
	const char *chdir = c->sbatch->value[P4D_SBATCH_CHDIR], *slash = strrchr(c->script, '/');
	char here[PATH_MAX] = "";

	snprintf(c->name, sizeof(c->name), "%s", slash ? slash + 1 : c->script);
	if (chdir && *chdir == '/')
		snprintf(c->directory, sizeof(c->directory), "%s", chdir);
	else if (getcwd(here, sizeof(here)))
		snprintf(c->directory, sizeof(c->directory), "%s%s%s", here, chdir ? "/" : "",
			 chdir ? chdir : "");
	if (*c->directory)
		return 0;
	return p4d_fail(err, P4D_E_IO, "the working directory: %s", strerror(errno));
}

/* Reads options of the job from all sources that sbatch reads. */
static int take_options(p4d_read_command *c, const char *text, size_t length, p4d_error *err)
{
	unsigned components;

	if (p4d_sbatch_environment(c->sbatch, environ, err) < 0 ||
	    p4d_sbatch_script(c->sbatch, text, length, 0, &components, err) < 0 ||
	    p4d_sbatch_job(c->sbatch, err) < 0)
		return -1;
	if (components > 1)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"%.200s is a heterogeneous job, which p4d does not rehearse", c->script);
	return take_directory(c, err) || take_geometry(c, err) ? -1 : 0;
}

static int read_text(finding *f, p4d_error *err)
{
	p4d_read_command *c = f->command;
	char *memory = p4d_words__take(c->memory, MEMORY);
	p4d_reading *reading = p4d_words__take(c->memory, sizeof(*reading));

	if (!memory || !reading)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the job script");
	p4d_job_read(&(p4d_job_script){.job = &c->sbatch->job,
				       .name = c->script,
				       .arguments = (const char *const *)c->arguments,
				       .directory = c->directory,
				       .environment = environ,
				       .variables = SIZE_MAX,
				       .export = c->sbatch->value[P4D_SBATCH_EXPORT],
				       .files = &f->files,
				       .program = p4d_site_program_of,
				       .site = c->site,
				       .config = p4d_line_config,
				       .later = f->key ? NULL : later,
				       .starts = f->key ? take_key : take_command,
				       .context = f},
		     &(p4d_shell_limits){memory, MEMORY, P4D_SHELL_WORK}, reading);
	for (size_t i = 0; i < f->unknown.count; i++)
		p4d_words__add(&c->notes, p4d_words__print(c->memory, "$%s", f->unknown.at[i].text));
	for (unsigned i = 0; i < reading->unknowns; i++)
		if (reading->unknown[i].doubt)
			p4d_words__add(&c->notes, reading->unknown[i].why);
	if (f->score || f->key)
		return 0;
	p4d_fail(err, P4D_E_UNMODELLED, "%.200s: p4d found no command that starts a program%s%s", c->script,
		 reading->incomplete ? "; " : "", reading->incomplete ? reading->incomplete : "");
	return p4d_fix(err, "p4d rehearse --shell %.200s, or p4d rehearse -- PROGRAM", c->script);
}

int p4d_read_command__find(p4d_read_command *c, p4d_error *err)
{
	finding f = {.command = c, .unknown = {.memory = c->memory}};
	size_t length;

	errno = 0;
	const char *text = p4d_read_files_open(&f.files, c->script, &length);
	c->words = c->notes = (p4d_words){.memory = c->memory};
	c->others = 0;
	int rc = text ? 0
		      : p4d_fail(err, P4D_E_IO, "job script %.200s: %s", c->script,
				 errno ? strerror(errno) : "not a regular file of at most 1 MiB");
	if (!rc && !*c->directory)
		rc = take_options(c, text, length, err);
	c->sbatch->job.script = text;
	c->sbatch->job.script_length = length;
	if (!rc)
		rc = read_text(&f, err);
	c->sbatch->job.script = NULL;
	p4d_read_files_free(&f.files);
	return rc;
}

bool p4d_read_command__key(p4d_read_command *c, char key[P4D_REHEARSALS_KEY_TEXT])
{
	finding f = {.command = c, .unknown = {.memory = c->memory}, .key = key};
	size_t length;
	p4d_error err;

	c->sbatch->job.script = p4d_read_files_open(&f.files, c->script, &length);
	c->sbatch->job.script_length = length;
	if (c->sbatch->job.script)
		read_text(&f, &err);
	c->sbatch->job.script = NULL;
	p4d_read_files_free(&f.files);
	return f.has_key;
}

int p4d_read_command__open(p4d_read_command *c, p4d_error *err)
{
	p4d_read_files files = {.count = 0};
	size_t length;

	errno = 0;
	const char *text = p4d_read_files_open(&files, c->script, &length);
	c->words = c->notes = (p4d_words){.memory = c->memory};
	const int rc = text ? take_options(c, text, length, err)
			    : p4d_fail(err, P4D_E_IO, "job script %.200s: %s", c->script,
				       errno ? strerror(errno) : "not a regular file of at most 1 MiB");
	c->sbatch->job.script = NULL;
	p4d_read_files_free(&files);
	return rc;
}

bool p4d_read_command__trains(const p4d_words *words)
{
	return score(words, &(p4d_started){.certain = true}) >= A_PROGRAM + IS_CERTAIN;
}
