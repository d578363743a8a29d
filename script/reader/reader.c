/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the commands of a script, and reads the arguments of the command that trains. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "reader/evidence.h"
#include "reader/told.h"

/* P4D_READ_APART: maximum number of trainings of a script after which p4d still finds out whether a further
 * command only evaluates. */
enum { LEVELS = 2, P4D_READ_APART = 8 };

/* Numbers of nodes and GPUs in the options of the launchers around a command. */
typedef struct stated_sizes {
	p4d_value nodes, gpus_per_node;
	p4d_value step_nodes, step_gpus; /* numbers that the launcher of a job step states (srun) */
} stated_sizes;

typedef struct reading_state {
	p4d_reading *reading;
	const p4d_reader_host *host;
	stated_sizes stated;
	p4d_value trains_on; /* number of nodes of the job step around the current command */
	uint64_t until_ns;   /* time limit for configuration files, for all programs together */
	p4d_read_python python;
	unsigned weighs_left; /* number of words that may still be weighed, from P4D_READ_WEIGHED down */
	uint32_t trained_at;  /* p4d_shell_commands of the last training; 0: there is none */
	uint64_t first;       /* hash of the first command that trains, whose training p4d reports */
	unsigned unknowns, unknowns_end; /* range of the unknown values that belong to the current command */
	const char *name, *text;         /* the script */
	size_t length;
	p4d_read_told told;
	int certainty; /* certainty that the current command is the training, from p4d_reader__tell */
	const p4d_started *around; /* launchers around the script or text that is being read */
} reading_state;

static bool is_engine(const p4d_reader *reader)
{
	return reader == &p4d_reader__vllm || reader == &p4d_reader__sglang;
}

/* Whether a file's name shows that it only sets search paths for a shell, and nothing for a training. */
static bool finds_programs(const char *path)
{
	static const char *const names[] = {"activate", "conda.sh", "mamba.sh", "modules.sh", "setvars.sh"};
	static const char *const folders[] = {"/etc/profile", "/usr/share/"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(p4d_file_name(path), names[i]))
			return true;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (!strncmp(path, folders[i], strlen(folders[i])))
			return true;
	return false;
}

/* Whether a shell reads this file when it starts for a user. sbatch then has the exported variables in its
 * environment. */
static bool is_of_login(const char *path)
{
	static const char *const names[] = {".bashrc", ".bash_profile", ".bash_login", ".profile", "bashrc"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(p4d_file_name(path), names[i]))
			return true;
	return false;
}

static void say_unread(p4d_reading *r, const char *path, const char *what)
{
	p4d_read_unknown *u = p4d_reader__unknown(
	    r, "file", "%.120s cannot be read, so p4d does not know what it %s", path, what);

	if (u)
		u->doubt = true;
}

static bool unread(void *context, const char *path)
{
	reading_state *state = context;

	p4d_reader__python_unread(&state->python, path);
	if (finds_programs(path))
		return false;
	say_unread(state->reading, path, "sets");
	return !is_of_login(path);
}

/* Stores the place of the command that starts a program. */
static void take_program(p4d_reading *r, const p4d_shell *shell, const p4d_launch *launch, p4d_value command)
{
	const p4d_read_value place = p4d_reader__place_of(shell, command),
			     own = p4d_reader__place_of(shell, launch->words[0]);
	p4d_value program = launch->words[0];

	if (program.length >= sizeof(r->program))
		program =
		    (p4d_value){program.at + program.length - sizeof(r->program) + 1, sizeof(r->program) - 1};
	p4d_value_text(program, r->program, sizeof(r->program));
	r->file = place.file;
	r->line = place.line;
	/* the program's name may be in a variable, which is set on an earlier line */
	const bool below = place.file && own.file && !strcmp(own.file, place.file) && own.line > place.line;
	r->program_line = below ? own.line : place.line;
}

/* A relative path to a model starts where the program runs, which is not where p4d runs. */
static void place_model(p4d_reading *r, p4d_shell *shell)
{
	p4d_read_value *model = &r->value[P4D_MODEL];
	char directory[sizeof(model->text)], path[2 * sizeof(model->text)];
	p4d_text text = p4d_text_in(path, sizeof(path));
	const bool here = !strncmp(model->text, "./", 2) || !strncmp(model->text, "../", 3);
	p4d_value from;

	if (!here)
		return;
	const bool known = p4d_shell_variable(shell, "PWD", &from) && !p4d_value_unknown(from) &&
			   from.length < sizeof(directory);
	p4d_text_add(&text, known ? p4d_value_text(from, directory, sizeof(directory)) : "");
	p4d_text_add(&text, "/");
	p4d_text_add(&text, model->text + (model->text[1] == '/' ? 2 : 0));
	if (known && strlen(path) < sizeof(model->text)) {
		memcpy(model->text, path, strlen(path) + 1);
		return;
	}
	p4d_reader__unknown(r, "model", "p4d does not know the directory of %.60s", model->text);
	*model = (p4d_read_value){.unknown = true};
}

/*
 * Reads the arguments of a program; drops the arguments of an earlier program. named: number of words in its
 * name, 0: the name is unknown. alike: the name is unknown, but the arguments are those of the reader.
 * Returns what the program's configuration files prove.
 */
static p4d_read_evidence read_arguments(reading_state *state, p4d_shell *shell, const p4d_launch *launch,
					const p4d_reader *reader, size_t named, bool alike)
{
	p4d_reading *r = state->reading;
	p4d_read_context context = {.reading = r,
				    .shell = shell,
				    .host = state->host,
				    .weighs = named,
				    .values = P4D_READ_CONFIG_VALUES,
				    .until_ns = state->until_ns,
				    .of_script = launch->shell_script,
				    .accelerates = reader->accelerates && named > 1};
	char subcommand[64];

	memset(r->value, 0, sizeof(r->value));
	memset(r->extra, 0, sizeof(r->extra));
	memset(r->by_default, 0, sizeof(r->by_default));
	r->more_arguments = !named;
	r->trains_nothing = false;
	r->named = named;
	r->alike = !named && alike ? p4d_reader__program_like(reader, launch) : NULL;
	r->launches = context.accelerates;
	r->reader = reader;
	if (named > 1) {
		const size_t length = strlen(r->program);
		snprintf(r->program + length, sizeof(r->program) - length, " %s",
			 p4d_value_text(launch->words[1], subcommand, sizeof(subcommand)));
	}
	if (r->alike)
		p4d_reader__unknown(r, "program",
				    "p4d does not know the program %.80s, which has arguments like %s",
				    r->program, r->alike);
	else if (!named)
		p4d_reader__unknown(
		    r, "program",
		    "other projects also have a program %.80s, and nothing shows that this one is of %s",
		    r->program, reader->framework);
	for (const p4d_read_default *d = named ? reader->defaults : NULL; d && d->value; d++)
		p4d_reader__put_default(r, d->option, "%s", d->value);
	p4d_reader__launched(r, shell, launch, state->stated.nodes, state->stated.gpus_per_node);
	p4d_reader__arguments(&context, launch, named ? named : 1);
	p4d_reader__resolve(&context);
	state->until_ns = context.until_ns;
	if (reader->finish)
		reader->finish(r);
	/* Megatron-LM's data loader makes an attention mask; other programs on Megatron-Core have loaders of
	 * their own */
	if (strcmp(reader->framework, "megatron") != 0 &&
	    p4d_reader__is(&r->value[P4D_FRAMEWORK], "megatron"))
		p4d_reader__put_default(r, P4D_ATTENTION_MASK, "off");
	place_model(r, shell);
	p4d_reader__check(r);
	p4d_reader__padding(r);
	return context.evidence;
}

/*
 * Notes a doubt: the program has an argument that its parser would refuse, so it is of another release or was
 * changed.
 */
static void doubt_release(p4d_reading *r, const char *argument)
{
	p4d_read_unknown *u = p4d_reader__unknown(r, "arguments", "%.60s is not an argument of %s", argument,
						  p4d_reading_release(r));

	if (u)
		u->doubt = true;
}

/*
 * Reads the program of a command. A name that other projects also use counts only if the program's
 * configuration files do not disprove it.
 */
static void read_program(reading_state *state, p4d_shell *shell, const p4d_launch *launch,
			 const p4d_read_program *program, p4d_value command)
{
	const unsigned before = state->reading->unknowns;

	state->reading->kind = program->kind;
	state->reading->told = program->told;
	take_program(state->reading, shell, launch, command);
	p4d_read_evidence e = read_arguments(state, shell, launch, program->reader, program->words, true);
	const p4d_read_evidence line =
	    p4d_reader__weigh_command(shell, launch, program->reader, program->words, &state->weighs_left);
	const char *foreign = *line.foreign ? line.foreign : e.foreign;
	e.typical = e.typical || line.typical;
	if (!program->common || (e.typical && (program->placed || !*foreign))) {
		if (program->words == 1 && *foreign && !program->told)
			doubt_release(state->reading, foreign);
		return;
	}
	state->reading->unknowns = before;
	take_program(state->reading, shell, launch, command);
	read_arguments(state, shell, launch, program->reader, 0, e.typical);
}

/* Reads the standard input of `bash <<EOF` or `bash -s WORDS`, if the script contains that input. */
static void read_input(p4d_shell *shell, const p4d_launch *launch, p4d_value name)
{
	enum { MOST = 64 };
	p4d_value words[MOST];
	size_t count = 2;

	if (!p4d_shell_input(shell, &words[0]))
		return;
	words[1] = name;
	for (size_t i = 0; i < launch->count && count < MOST; i++)
		words[count++] = launch->words[i];
	p4d_shell_text(shell, words, count);
}

/*
 * Whether p4d reads this command instead of the command that it has read. It does if only this command
 * trains and the other one serves; or if only this command's program is known; or if only this command
 * certainly runs.
 */
static bool goes_before(const p4d_reading *r, const p4d_reader *reader, bool named, bool certain)
{
	const bool serves = is_engine(reader), served = is_engine(r->reader);

	if (serves != served)
		return served;
	if (named != r->named)
		return named;
	return certain && !r->certain;
}

/* Whether a command makes its program evaluate only. p4d reads it apart from the command before it. */
static bool only_evaluates(reading_state *state, p4d_shell *shell, const p4d_launch *launch,
			   const p4d_read_program *program, p4d_value command)
{
	p4d_reading *const kept = state->reading, *const apart = calloc(1, sizeof(*apart));

	if (!apart)
		return false;
	state->reading = apart;
	read_program(state, shell, launch, program, command);
	const bool evaluates = apart->trains_nothing;
	state->reading = kept;
	free(apart);
	return evaluates;
}

/*
 * Decides whether to read a command, and counts it. p4d reads the first command, and later ones that
 * goes_before prefers. A command with the same plan as the one that was read (on another node, with another
 * seed, or later) belongs to the same training. A command that only evaluates needs less memory than a
 * training, so it gives way to the next command, and does not count after a training.
 */
static bool counts(reading_state *state, p4d_shell *shell, const p4d_launch *launch,
		   const p4d_read_program *program, p4d_value command, bool certain)
{
	p4d_reading *r = state->reading;
	const p4d_reader *reader = program->reader;
	const uint64_t plan =
	    p4d_reader__plan_of(launch, reader, state->stated.nodes, state->stated.gpus_per_node);
	const bool first = !r->commands, same = !first && r->reader == reader && plan == state->first;
	const bool replaces = !first && !same && r->trains_nothing;
	const bool read = first || replaces || goes_before(r, reader, program->words, certain);

	if (!first && !same && !replaces && r->commands < P4D_READ_APART && !is_engine(reader) &&
	    only_evaluates(state, shell, launch, program, command))
		return false;
	if (!same) {
		r->commands += !replaces;
		r->serving += is_engine(reader);
	}
	if (read)
		state->first = plan;
	return read;
}

/* Removes the unknown values of a command that another command replaces. */
static void forget(reading_state *state)
{
	p4d_reading *r = state->reading;

	memmove(&r->unknown[state->unknowns], &r->unknown[state->unknowns_end],
		(r->unknowns - state->unknowns_end) * sizeof(r->unknown[0]));
	r->unknowns -= state->unknowns_end - state->unknowns;
	state->unknowns = state->unknowns_end = r->unknowns;
}

/* Whether the argument of a script is a program that p4d knows: "launch.sh python pretrain_gpt.py ..." */
static bool is_given_program(reading_state *state, p4d_shell *shell, const p4d_launch *launch)
{
	p4d_launch given;
	p4d_read_program program;

	p4d_reader__launch(launch->words + 1, launch->count - 1, &given);
	if (!given.count || given.shell_script || given.shell_text || given.shell_input)
		return false;
	p4d_reader__find_program(shell, &given, &state->weighs_left, &program);
	return program.words;
}

/* Whether a command may be the training. It may not if p4d was more certain about an earlier command. */
static bool means(reading_state *state, int certainty)
{
	p4d_reading *r = state->reading;

	if (!r->commands || !certainty || !state->certainty)
		return true;
	if (certainty > state->certainty && state->certainty < P4D_TOLD_ARGUMENTS)
		r->commands = r->serving = 0;
	return certainty >= state->certainty || state->certainty == P4D_TOLD_KNOWN;
}

static bool submits(const reading_state *state, p4d_shell *shell, const p4d_launch *launch)
{
	if (!state->host->submits || !launch->count || launch->shell_text ||
	    !p4d_value_is(launch->words[0], "sbatch"))
		return false;
	state->host->submits(state->host->shell.context, shell, launch->words, launch->count);
	return true;
}

/* Number of launcher words before the shell that runs a script or text. */
static size_t around_shell(const p4d_value *words, const p4d_launch *launch)
{
	const p4d_launcher *last = launch->launchers ? &launch->launcher[launch->launchers - 1] : NULL;

	if (last && last->shell)
		return last->at;
	return launch->words > words ? (size_t)(launch->words - words) : 0;
}

/* Reports a command to the host, with its program unless a shell runs it. */
static void hand_over(const reading_state *state, p4d_shell *shell, const p4d_started *like,
		      const p4d_launch *launch)
{
	char directory[sizeof(state->python.directory)];
	p4d_started command = *like;
	p4d_command_run run;

	if (!state->host->starts)
		return;
	if (launch->count && !launch->shell_script) {
		const bool known = p4d_reader__python_directory(shell, state->host, &state->python, launch,
								command.words, directory, sizeof(directory));
		p4d_reader__run(&run, command.words, launch, state->stated.nodes, state->stated.gpus_per_node,
				known ? directory : NULL);
		command.run = &run;
	}
	state->host->starts(state->host->shell.context, shell, &command);
}

static void take_sizes(stated_sizes *stated, p4d_launch *launch)
{
	if (launch->nodes.length)
		stated->nodes = launch->nodes;
	if (launch->gpus_per_node.length)
		stated->gpus_per_node = launch->gpus_per_node;
	if (launch->step_nodes.length)
		stated->step_nodes = launch->step_nodes;
	if (launch->step_gpus.length)
		stated->step_gpus = launch->step_gpus;
	launch->step_gpus = stated->step_gpus;
}

static void run_command(void *context, p4d_shell *shell, const p4d_value *words, size_t count, bool certain)
{
	reading_state *state = context;
	p4d_reading *r = state->reading;
	p4d_launch launch;

	p4d_reader__python_command(&state->python, words, count);
	const bool installs = p4d_reader__python_install(&state->python, shell, words, count, certain);
	p4d_reader__launch(words, count, &launch);
	if (!installs && !launch.container && launch.count && launch.words != words)
		p4d_reader__python_install(&state->python, shell, launch.words, launch.count, false);
	if ((!launch.count && !launch.shell_input) || submits(state, shell, &launch))
		return;
	const stated_sizes outside = state->stated;
	const unsigned before = r->commands;
	take_sizes(&state->stated, &launch);
	const p4d_started *around = state->around;
	const p4d_started launchers = {
	    .around = around,
	    .words = words,
	    .count = around_shell(words, &launch),
	};
	p4d_read_program program = {.reader = NULL};
	p4d_shell_scope *const scope = p4d_reader__enter_environment(shell, &launch);
	char path[256];
	state->around = launchers.count ? &launchers : around;
	const bool was_read =
	    launch.shell_script && p4d_shell_script(shell, launch.words, launch.count, LEVELS);
	if (!launch.shell_text && !launch.shell_input && !was_read)
		p4d_reader__find_program(shell, &launch, &state->weighs_left, &program);
	const int certainty =
	    p4d_reader__tell(&state->told, state->host, shell, &launch, &state->weighs_left, &program);
	/* a script identifies a program only by its name */
	const bool named = program.words;
	const p4d_reader *reader = launch.shell_script && !named ? NULL : program.reader;
	const p4d_started command = {
	    .around = around,
	    .words = words,
	    .count = count,
	    .known = named && !launch.shell_script,
	    .aside = launch.count && p4d_reader__is_none(launch.words[0]),
	    .certain = certain,
	};
	state->trained_at = reader ? p4d_shell_commands(shell) : state->trained_at;
	if (!launch.shell_input && !launch.shell_text && !was_read)
		hand_over(state, shell, &command, &launch);
	if (launch.shell_input) {
		read_input(shell, &launch, words[0]);
	} else if (launch.shell_text) {
		p4d_shell_text(shell, launch.words, launch.count);
	} else if (launch.shell_script && !was_read && !reader) {
		const bool given = is_given_program(state, shell, &launch);
		say_unread(r, p4d_value_text(launch.words[0], path, sizeof(path)),
			   given ? "does with the command that follows it" : "starts");
		if (given)
			run_command(context, shell, launch.words + 1, launch.count - 1, certain);
	} else if (!named && launch.words == words && p4d_shell_may_run(shell, words, count) &&
		   r->commands != before) {
		; /* one of the possible commands was read */
	} else if (reader && means(state, certainty) &&
		   counts(state, shell, &launch, &program, words[0], certain)) {
		r->certain = certain;
		forget(state);
		state->certainty = certainty;
		state->trains_on = state->stated.step_nodes;
		read_program(state, shell, &launch, &program, words[0]);
		r->one_node = launch.starts_ranks || reader->every_gpu;
		p4d_reader__one_node(r, shell, &launch);
		p4d_reader__python_release(r, shell, state->host, &state->python, &launch, words);
		state->unknowns_end = r->unknowns;
	} else if (reader) {
		; /* the file was read as a script */
	} else if (!*r->program && !launch.shell_script &&
		   (launch.every_gpu || launch.gpus_per_node.length)) {
		take_program(r, shell, &launch, words[0]);
	}
	p4d_shell_leave_environment(shell, scope);
	state->stated = outside;
	state->around = around;
}

static const char *variable(void *context, const char *name)
{
	const reading_state *state = context;
	const p4d_shell_host *host = &state->host->shell;

	return host->variable ? host->variable(host->context, name) : NULL;
}

static const char *file(void *context, const char *path, size_t *length)
{
	reading_state *state = context;
	const p4d_shell_host *host = &state->host->shell;

	if (!strncmp(path, "/etc/profile", strlen("/etc/profile")))
		return NULL; /* sets search paths, from files that differ between login nodes and nodes */
	const char *const text = host->file ? host->file(host->context, path, length) : NULL;
	p4d_reader__python_file(&state->python, path, text, text ? *length : 0);
	return text;
}

static bool list(void *context, const char *folder, void (*take)(void *taker, const char *name, bool folder),
		 void *taker)
{
	const reading_state *state = context;
	const p4d_shell_host *host = &state->host->shell;

	return host->list && host->list(host->context, folder, take, taker);
}

/* Whether a script continues with commands after a line. */
static bool goes_on(const char *text, size_t length, uint32_t line)
{
	bool comment = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\n')
			comment = false, line -= line > 0;
		else if (text[i] == '#')
			comment = true;
		else if (!line && !comment && !isspace((unsigned char)text[i]))
			return true;
	}
	return false;
}

static bool otherwise(void *context, uint32_t since)
{
	reading_state *state = context;

	p4d_reader__python_otherwise(&state->python, since);
	return state->trained_at > since;
}

static void left(void *context, p4d_shell *shell, p4d_value exit)
{
	const reading_state *state = context;
	const p4d_read_value place = p4d_reader__place_of(shell, exit);

	if (place.file != state->name || goes_on(state->text, state->length, place.line))
		state->reading->left = place;
}

/* Whether p4d's options set the number of nodes or GPUs of the training. */
static bool is_placed(const p4d_reading *r)
{
	static const p4d_option sizes[] = {P4D_NODES, P4D_GPUS_PER_NODE};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (p4d_reader__set(&r->value[sizes[i]]) && !r->by_default[sizes[i]])
			return true;
	return false;
}

void p4d_reader_read(p4d_reading *reading, const p4d_reader_host *host, const p4d_shell_limits *limits,
		     const char *name, const char *text, size_t length, const char *const *arguments,
		     const char *directory)
{
	reading_state state = {.reading = reading,
			       .host = host,
			       .weighs_left = P4D_READ_WEIGHED,
			       .name = name,
			       .text = text,
			       .length = length};
	const p4d_shell_host own = {&state, variable, file, list, unread, run_command, left, otherwise};

	*reading = (p4d_reading){.reader = NULL};
	p4d_reader__told(&state.told, host, text, length);
	reading->adapts = state.told.adapts;
	reading->incomplete = p4d_shell_read(&own, limits, name, text, length, arguments, directory);
	if (p4d_reading_has_server(reading))
		p4d_reader__in_step(reading, limits->memory, state.trains_on);
	reading->work = limits->work - p4d_shell_work_left(limits);
	if (p4d_reading_has_server(reading))
		p4d_reader__unknown(reading, "commands", "one command trains, and %u serve%s a model%s",
				    reading->serving, reading->serving > 1 ? "" : "s",
				    is_placed(reading) ? "" : "; p4d does not know on which nodes");
	else if (reading->commands > 1)
		p4d_reader__unknown(reading, "commands",
				    "%u commands start a training; p4d read the command at %.60s:%u",
				    reading->commands, reading->file, reading->line);
	p4d_reader__take_comments(reading, host, name, text, length);
	p4d_reader__end_unknowns(reading);
	p4d_reader__make_printable(reading);
}
