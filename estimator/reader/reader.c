/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a script, and the arguments of those that train. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "reader/reader_internal.h"

static const p4d_reader *const readers[] = {
    &p4d_reader__slime, /* with Megatron's arguments, too */
    &p4d_reader__megatron,
    &p4d_reader__torchtitan,
    &p4d_reader__trl,
    &p4d_reader__axolotl,
    &p4d_reader__llamafactory,
    &p4d_reader__swift,
    &p4d_reader__torchtune,
    &p4d_reader__litgpt,
    &p4d_reader__vllm,
    &p4d_reader__sglang,
    &p4d_reader__nemo,
    &p4d_reader__neox,
    &p4d_reader__nanotron,
    &p4d_reader__verl,
    &p4d_reader__skyrl,
    &p4d_reader__skyrl_sft,
    &p4d_reader__openrlhf,
    &p4d_reader__p4d,
    &p4d_reader__nemo_rl,
    &p4d_reader__nemo_rl_dpo,
    &p4d_reader__nemo_rl_others,
    &p4d_reader__nemo_rl_sft,
    &p4d_reader__verl_sft,
    &p4d_reader__openrlhf_sft,
    &p4d_reader__openrlhf_others,
    &p4d_reader__swift_rl,
    &p4d_reader__swift_megatron,
    &p4d_reader__trl_rl,
    &p4d_reader__openrlhf_preference,
    &p4d_reader__foundry,
    &p4d_reader__open_lm,
    &p4d_reader__picotron,
    &p4d_reader__colossal,
    &p4d_reader__automodel,
    &p4d_reader__unsloth,
    &p4d_reader__maxtext,
    &p4d_reader__xla,
    &p4d_reader__trainer,
    &p4d_reader__deepspeed,
};
enum { READERS = sizeof(readers) / sizeof(readers[0]), LEVELS = 2 };

typedef struct reading_state {
	p4d_reading *reading;
	const p4d_reader_host *host;
	p4d_value nodes, gpus_per_node; /* of the launcher around a script */
	uint64_t until_ns;              /* for configuration files, of all programs */
	p4d_read_python python;
	const char *name, *text; /* of the script */
	size_t length;
} reading_state;

const p4d_reader *p4d_reader__at(size_t index)
{
	return index < READERS ? readers[index] : NULL;
}

const char *p4d_reading_release(const p4d_reading *r)
{
	return r->reader->release;
}

const char *p4d_reading_framework(const p4d_reading *r)
{
	return r->reader->framework;
}

/* With one wildcard at most, at either end; with as many directories as the pattern has. */
static bool is_named(p4d_value program, const char *pattern)
{
	uint32_t from = program.length, length = (uint32_t)strlen(pattern), directories = 0;
	const char end = length ? pattern[length - 1] : '*';

	if (!from || (end != '*' && (program.at[from - 1].unknown || program.at[from - 1].c != end)))
		return false; /* most are not */
	for (const char *at = pattern; *at; at++)
		directories += *at == '/';
	while (from && (program.at[from - 1].unknown || program.at[from - 1].c != '/' || directories--))
		from--;
	p4d_value last = {program.at + from, program.length - from};
	if (pattern[0] == '*' && last.length + 1 >= length)
		return p4d_value_is((p4d_value){last.at + last.length + 1 - length, length - 1}, pattern + 1);
	if (length && pattern[length - 1] == '*' && last.length + 1 >= length) {
		for (uint32_t i = 0; i + 1 < length; i++)
			if (last.at[i].unknown || last.at[i].c != pattern[i])
				return false;
		return true;
	}
	return p4d_value_is(last, pattern);
}

/*
 * How many words name a program: "axolotl train" is two; 0: they do not. "train.py *.yaml" is one, which is
 * called so by others, too, but without such a file.
 */
static size_t is_program(const p4d_launch *launch, const char *pattern)
{
	const char *blank = strchr(pattern, ' ');
	char program[64];

	if (!blank)
		return is_named(launch->words[0], pattern);
	snprintf(program, sizeof(program), "%.*s", (int)(blank - pattern), pattern);
	if (launch->count < 2 || !is_named(launch->words[0], program) ||
	    !is_named(launch->words[1], blank + 1))
		return 0;
	return blank[1] == '*' ? 1 : 2;
}

/* Whether a word is an option or NAME=VALUE of this name. */
static bool is_argument(p4d_value word, const char *name)
{
	char text[96];
	uint32_t equals = 0;

	while (word.length && !word.at[0].unknown && word.at[0].c == '+') /* hydra's "++NAME=" */
		word = (p4d_value){word.at + 1, word.length - 1};
	if (!word.length || (word.at[0].c != name[0] && (!strchr("-_", name[0]) || word.at[0].c != '_')))
		return false; /* most are not */
	while (equals < word.length && (word.at[equals].unknown || word.at[equals].c != '='))
		equals++;
	return p4d_reader__same_name(p4d_value_text((p4d_value){word.at, equals}, text, sizeof(text)), name);
}

/* Programs beside a training that take its arguments, too: they generate, evaluate, convert. */
static bool is_none(p4d_value program)
{
	static const char *const parts[] = {"generat",    "inference",       "eval",   "server", "convert",
					    "preprocess", "checkpoint_util", "analyze"};
	char text[256];

	p4d_value_text(program, text, sizeof(text));
	const char *slash = strrchr(text, '/');
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(slash ? slash : text, parts[i]))
			return true;
	return false;
}

/* Whether one of its words is an argument of the reader's programs. */
static bool has_argument(const p4d_launch *launch, const p4d_reader *reader)
{
	char name[96];

	for (size_t i = 1; i < launch->count; i++) {
		p4d_value word = launch->words[i];
		uint32_t equals = 0;
		while (equals < word.length && (word.at[equals].unknown || word.at[equals].c != '='))
			equals++;
		word.length = equals;
		if (*p4d_value_text(word, name, sizeof(name)) == '-' && p4d_reader__find(reader, name))
			return true;
	}
	return false;
}

/* *words: of the program's name; 0: not by that, but by an argument that others may have, too. The longest
 * name is the one. */
static const p4d_reader *find_reader(const p4d_launch *launch, size_t *words)
{
	const p4d_reader *found = NULL;
	size_t longest = 0;
	bool begins[256] = {false}; /* the parts of the program's path; most begin as no program does */

	*words = 0;
	if (!launch->count)
		return NULL;
	const p4d_value path = launch->words[0];
	const bool none = is_none(path);
	for (uint32_t i = 0; i < path.length; i++)
		if (!path.at[i].unknown && (!i || (path.at[i - 1].c == '/' && !path.at[i - 1].unknown)))
			begins[(unsigned char)path.at[i].c] = true;
	for (int i = 0; i < READERS; i++)
		for (int j = 0; j < P4D_READ_PROGRAMS && readers[i]->programs[j]; j++) {
			const char *name = readers[i]->programs[j];
			const bool part = name[strlen(name) - 1] == '*';
			if ((*name != '*' && !begins[(unsigned char)*name]) || (part && none))
				continue;
			const size_t named = strlen(name) > longest ? is_program(launch, name) : 0;
			/* a part of a name is others', too */
			if (!named || (readers[i]->arguments_alone[0] && part && !readers[i]->assignments &&
				       !has_argument(launch, readers[i])))
				continue;
			found = readers[i];
			longest = strlen(name);
			*words = named;
		}
	if (found || none)
		return found;
	for (int i = 0; i < READERS; i++)
		for (int j = 0; j < 4 && readers[i]->arguments_alone[j]; j++)
			for (size_t k = 1; k < launch->count; k++)
				if (is_argument(launch->words[k], readers[i]->arguments_alone[j]))
					return readers[i];
	return NULL;
}

static bool is_engine(const p4d_reader *reader)
{
	return reader == &p4d_reader__vllm || reader == &p4d_reader__sglang;
}

/* Whether a file, by its name, only lets a shell find programs: nothing that a training is told. */
static bool finds_programs(const char *path)
{
	static const char *const names[] = {"activate", "conda.sh", "mamba.sh", "modules.sh", "setvars.sh"};
	static const char *const folders[] = {"/etc/profile", "/usr/share/"};
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(slash ? slash + 1 : path, names[i]))
			return true;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (!strncmp(path, folders[i], strlen(folders[i])))
			return true;
	return false;
}

/* Whether a shell reads a file when it starts to work for a user: what that exports sbatch has in its
 * environment. */
static bool is_of_login(const char *path)
{
	static const char *const names[] = {".bashrc", ".bash_profile", ".bash_login", ".profile", "bashrc"};
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(slash ? slash + 1 : path, names[i]))
			return true;
	return false;
}

static void say_unread(p4d_reading *r, const char *path, const char *what)
{
	p4d_read_unknown *u =
	    p4d_reader__unknown(r, "file", "%.120s cannot be read, nor what it %s", path, what);

	if (u)
		u->doubt = true;
}

static bool unread(void *context, const char *path)
{
	const reading_state *state = context;

	if (finds_programs(path))
		return false;
	say_unread(state->reading, path, "sets");
	return !is_of_login(path);
}

/* Which command starts a program, whose end says what it is. */
static void take_program(p4d_reading *r, const p4d_shell *shell, const p4d_launch *launch, p4d_value command)
{
	const p4d_read_value place = p4d_reader__place_of(shell, command);
	p4d_value program = launch->words[0];

	if (program.length >= sizeof(r->program))
		program =
		    (p4d_value){program.at + program.length - sizeof(r->program) + 1, sizeof(r->program) - 1};
	p4d_value_text(program, r->program, sizeof(r->program));
	r->file = place.file;
	r->line = place.line;
}

/* The arguments of one program; those of another that was read before are forgotten. */
static void read_program(reading_state *state, p4d_shell *shell, const p4d_launch *launch,
			 const p4d_reader *reader, size_t named)
{
	p4d_reading *r = state->reading;
	p4d_read_context context = {.reading = r,
				    .shell = shell,
				    .host = state->host,
				    .values = P4D_READ_CONFIG_VALUES,
				    .until_ns = state->until_ns,
				    .of_script = launch->shell_script,
				    .accelerates = reader->accelerates && named > 1};
	char subcommand[64];

	memset(r->value, 0, sizeof(r->value));
	memset(r->extra, 0, sizeof(r->extra));
	memset(r->by_default, 0, sizeof(r->by_default));
	r->more_arguments = !named;
	r->named = named;
	r->reader = reader;
	if (named > 1) {
		const size_t length = strlen(r->program);
		snprintf(r->program + length, sizeof(r->program) - length, " %s",
			 p4d_value_text(launch->words[1], subcommand, sizeof(subcommand)));
	}
	if (!named)
		p4d_reader__unknown(r, "program",
				    "%.100s is none that p4d knows; its arguments are like those of %s",
				    r->program, reader->framework);
	for (const p4d_read_default *d = named ? reader->defaults : NULL; d && d->value; d++)
		p4d_reader__put_default(r, d->option, "%s", d->value);
	p4d_reader__launched(r, shell, launch, state->nodes, state->gpus_per_node);
	p4d_reader__arguments(&context, launch, named ? named : 1);
	state->until_ns = context.until_ns;
	if (reader->finish)
		reader->finish(r);
	p4d_reader__check(r);
	p4d_reader__padding(r);
}

/* bash <<EOF, bash -s WORDS: what stands in the script is read. */
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

/* Whether a command is read though another was read before it: it trains, that one serves; its program is
 * known, that one's was not; it runs whatever a test says, that one does not. */
static bool goes_before(const p4d_reading *r, const p4d_reader *reader, size_t named, bool certain)
{
	const bool serves = is_engine(reader), served = is_engine(r->reader);

	if (serves != served)
		return served;
	if (!named != !r->named)
		return named;
	return certain && !r->certain;
}

/* Whether what a script is given is a program that p4d knows: "launch.sh python pretrain_gpt.py ..." */
static bool is_given_program(const p4d_launch *launch)
{
	p4d_launch given;
	size_t named = 0;

	p4d_reader__launch(launch->words + 1, launch->count - 1, &given);
	return given.count && !given.shell_script && !given.shell_text && !given.shell_input &&
	       find_reader(&given, &named) && named;
}

static void run_command(void *context, p4d_shell *shell, const p4d_value *words, size_t count, bool certain)
{
	reading_state *state = context;
	p4d_reading *r = state->reading;
	p4d_launch launch;

	p4d_reader__python_command(&state->python, words, count);
	p4d_reader__launch(words, count, &launch);
	if (!launch.count && !launch.shell_input)
		return;
	const p4d_value nodes = state->nodes, gpus = state->gpus_per_node;
	const unsigned before = r->commands;
	if (launch.nodes.length)
		state->nodes = launch.nodes;
	if (launch.gpus_per_node.length)
		state->gpus_per_node = launch.gpus_per_node;
	size_t named = 0;
	char path[256];
	const bool was_read =
	    launch.shell_script && p4d_shell_script(shell, launch.words, launch.count, LEVELS);
	const p4d_reader *reader =
	    launch.shell_text || launch.shell_input || was_read ? NULL : find_reader(&launch, &named);
	/* a script is one of a program by its name only */
	if (launch.shell_script && !named)
		reader = NULL;
	if (launch.shell_input) {
		read_input(shell, &launch, words[0]);
	} else if (launch.shell_text) {
		p4d_shell_text(shell, launch.words, launch.count);
	} else if (launch.shell_script && !was_read && !reader) {
		const bool given = is_given_program(&launch);
		say_unread(r, p4d_value_text(launch.words[0], path, sizeof(path)),
			   given ? "does with what it is given" : "starts");
		if (given)
			run_command(context, shell, launch.words + 1, launch.count - 1, certain);
	} else if (!named && launch.words == words && p4d_shell_may_run(shell, words, count) &&
		   r->commands != before) {
		; /* one of what it may be was read */
	} else if (reader && (r->commands++ == 0 || goes_before(r, reader, named, certain))) {
		r->certain = certain;
		take_program(r, shell, &launch, words[0]);
		read_program(state, shell, &launch, reader, named);
		p4d_reader__python_release(r, shell, state->host, &state->python, &launch, words);
	} else if (!reader && !*r->program && !launch.shell_script &&
		   (launch.every_gpu || launch.gpus_per_node.length)) {
		take_program(r, shell, &launch, words[0]);
	}
	state->nodes = nodes;
	state->gpus_per_node = gpus;
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

	p4d_reader__python_file(&state->python, path);
	return host->file ? host->file(host->context, path, length) : NULL;
}

/* Whether a script has commands behind a line. */
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

static void left(void *context, p4d_shell *shell, p4d_value exit)
{
	const reading_state *state = context;
	const p4d_read_value place = p4d_reader__place_of(shell, exit);

	if (place.file != state->name || goes_on(state->text, state->length, place.line))
		state->reading->left = place;
}

void p4d_reader_read(p4d_reading *reading, const p4d_reader_host *host, const p4d_shell_limits *limits,
		     const char *name, const char *text, size_t length, const char *const *arguments,
		     const char *directory)
{
	reading_state state = {
	    .reading = reading, .host = host, .name = name, .text = text, .length = length};
	const p4d_shell_host own = {&state, variable, file, unread, run_command, left};

	*reading = (p4d_reading){.reader = NULL};
	reading->incomplete = p4d_shell_read(&own, limits, name, text, length, arguments, directory);
	if (reading->commands > 1)
		p4d_reader__unknown(reading, "commands", "%u commands start a training; the first is read",
				    reading->commands);
}
