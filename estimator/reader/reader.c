/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a script, and the arguments of those that train. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "reader/reader_internal.h"

static const p4d_reader *const readers[] = {&p4d_reader__megatron, &p4d_reader__trainer};
enum { READERS = sizeof(readers) / sizeof(readers[0]), LEVELS = 2 };

typedef struct reading_state {
	p4d_reading *reading;
	const p4d_shell_host *host;
	p4d_value nodes, gpus_per_node; /* of the launcher around a script */
} reading_state;

const char *p4d_reading_framework(const p4d_reading *r)
{
	return r->reader->framework;
}

bool p4d_reader__set(const p4d_read_value *value)
{
	return value->file != NULL;
}

uint64_t p4d_reader__number(const p4d_read_value *value)
{
	uint64_t number;

	return value->file && p4d_number_whole(value->text, 1, UINT32_MAX, &number) ? number : 0;
}

void p4d_reader__unknown(p4d_reading *r, const char *name, const char *format, ...)
{
	char why[sizeof(r->unknown[0].why)];
	va_list values;

	va_start(values, format);
	vsnprintf(why, sizeof(why), format, values);
	va_end(values);
	for (unsigned i = 0; i < r->unknowns; i++)
		if (!strcmp(r->unknown[i].name, name) && !strcmp(r->unknown[i].why, why))
			return;
	if (r->unknowns == P4D_READ_UNKNOWNS)
		return;
	p4d_read_unknown *u = &r->unknown[r->unknowns++];
	snprintf(u->name, sizeof(u->name), "%s", name);
	memcpy(u->why, why, sizeof(why));
}

static void put(p4d_read_value *value, const p4d_read_value *place, const char *format, va_list values)
{
	vsnprintf(value->text, sizeof(value->text), format, values);
	value->file = place->file;
	value->line = place->line;
}

void p4d_reader__put(p4d_reading *r, p4d_option option, const p4d_read_value *place, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	put(&r->value[option], place, format, values);
	va_end(values);
	r->by_default[option] = false;
}

void p4d_reader__put_default(p4d_reading *r, p4d_option option, const char *format, ...)
{
	va_list values;

	if (r->value[option].unknown)
		return;
	va_start(values, format);
	put(&r->value[option], &(p4d_read_value){.file = r->reader->framework}, format, values);
	va_end(values);
	r->by_default[option] = true;
}

/* Whether a name is the same but for - and _. */
static bool same_name(p4d_value word, const char *name)
{
	uint32_t i = 0;

	for (; i < word.length && name[i]; i++) {
		char c = word.at[i].unknown ? '?' : word.at[i].c;
		if (c != name[i] && !((c == '_' || c == '-') && (name[i] == '_' || name[i] == '-')))
			return false;
	}
	return i == word.length && !name[i];
}

/* With one wildcard at most, at either end. */
static bool is_named(p4d_value program, const char *pattern)
{
	uint32_t from = program.length, length = (uint32_t)strlen(pattern);

	if (!from)
		return false;
	while (from && (program.at[from - 1].unknown || program.at[from - 1].c != '/'))
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

static bool is_option(p4d_value word)
{
	return word.length > 1 && !word.at[0].unknown && word.at[0].c == '-' &&
	       !(word.at[1].c >= '0' && word.at[1].c <= '9') && word.at[1].c != '.';
}

/* *named: by the program, not only by an argument that others may have, too. */
static const p4d_reader *find_reader(const p4d_launch *launch, bool *named)
{
	*named = true;
	if (!launch->count)
		return NULL;
	for (int i = 0; i < READERS; i++)
		for (int j = 0; j < 8 && readers[i]->programs[j]; j++)
			if (is_named(launch->words[0], readers[i]->programs[j]))
				return readers[i];
	*named = false;
	for (int i = 0; i < READERS; i++)
		for (int j = 0; j < 4 && readers[i]->arguments_alone[j]; j++)
			for (size_t k = 1; k < launch->count; k++)
				if (same_name(launch->words[k], readers[i]->arguments_alone[j]))
					return readers[i];
	return NULL;
}

/* Where a value was written: what its first character came from. */
static void place_of(const p4d_shell *shell, p4d_value value, p4d_read_value *to)
{
	const p4d_cell where = value.length ? value.at[0] : (p4d_cell){0};

	to->file = p4d_shell_file_name(shell, where.file);
	to->line = where.line;
}

static p4d_read_value *slot(p4d_reading *r, int what)
{
	return what >= (int)P4D_OPTIONS ? &r->extra[what - (int)P4D_OPTIONS] : &r->value[what];
}

void p4d_reader__forget(p4d_reading *r, p4d_option option)
{
	r->value[option] = (p4d_read_value){.unknown = true};
	r->by_default[option] = false;
}

static const char *name_of(int what, const char *argument)
{
	return what >= 0 && what < (int)P4D_OPTIONS ? p4d_request_option_info((p4d_option)what)->name
						    : argument + 2;
}

/* One argument with its value, which has length 0 where there is none. */
static void take(p4d_reading *r, const p4d_shell *shell, const p4d_read_argument *a, p4d_value word,
		 p4d_value value)
{
	const char *name = name_of(a->what, a->name);
	p4d_read_value found = {.file = NULL};

	place_of(shell, value.length ? value : word, &found);
	if (a->value && (p4d_value_is(value, "False") || p4d_value_is(value, "false")))
		return;
	if (a->what == P4D_READ_NOT_MODELLED) {
		p4d_reader__unknown(r, name, "%s (%.60s:%u) is not modelled", a->name, found.file,
				    found.line);
		return;
	}
	*slot(r, a->what) = (p4d_read_value){.unknown = true}; /* until it is read */
	if (!a->value && p4d_value_unknown(value)) {
		p4d_reader__unknown(r, name, "%s", p4d_shell_unknown(shell, p4d_value_unknown(value)));
		return;
	}
	if (!a->value && !value.length) {
		p4d_reader__unknown(r, name, "%s (%.60s:%u) has no value", a->name, found.file, found.line);
		return;
	}
	if (a->value)
		snprintf(found.text, sizeof(found.text), "%s", a->value);
	else
		p4d_value_text(value, found.text, sizeof(found.text));
	if (value.length >= sizeof(found.text)) {
		p4d_reader__unknown(r, name, "it has %u characters", value.length);
		return;
	}
	if (a->words) {
		const char *const *pair = a->words;
		while (pair[0] && strcmp(pair[0], found.text))
			pair += 2;
		if (!pair[0]) {
			p4d_reader__unknown(r, name, "%s %.60s is not modelled", a->name, found.text);
			return;
		}
		if (!*pair[1])
			return; /* says nothing */
		snprintf(found.text, sizeof(found.text), "%s", pair[1]);
	}
	*slot(r, a->what) = found;
	if (a->what < (int)P4D_OPTIONS)
		r->by_default[a->what] = false;
}

static bool is_unknown_word(p4d_value word)
{
	return word.length && word.at[0].unknown;
}

static void read_arguments(p4d_reading *r, p4d_shell *shell, const p4d_launch *launch)
{
	for (size_t i = 1; i < launch->count; i++) {
		p4d_value word = launch->words[i], value = {0};
		uint32_t equals = 0;
		if (!is_option(word)) {
			if (!is_unknown_word(word))
				continue;
			p4d_reader__unknown(r, "arguments", "%s",
					    p4d_shell_unknown(shell, p4d_value_unknown(word)));
			r->more_arguments = true;
			continue;
		}
		while (equals < word.length && (word.at[equals].unknown || word.at[equals].c != '='))
			equals++;
		if (equals < word.length)
			value = (p4d_value){word.at + equals + 1, word.length - equals - 1};
		else if (i + 1 < launch->count && !is_option(launch->words[i + 1]))
			value = launch->words[i + 1];
		const p4d_value name = {word.at, equals};
		for (const p4d_read_argument *a = r->reader->arguments; a->name; a++)
			if (same_name(name, a->name)) {
				take(r, shell, a, word, value);
				if (!a->value && equals == word.length && i + 2 < launch->count &&
				    !is_option(launch->words[i + 2]) &&
				    !is_unknown_word(launch->words[i + 2]) && a->what >= 0) {
					*slot(r, a->what) = (p4d_read_value){.unknown = true};
					p4d_reader__unknown(r, name_of(a->what, a->name),
							    "%s with several values is not modelled",
							    a->name);
				}
				/* the value is not one of the words that nobody knows */
				i += !a->value && equals == word.length && value.length;
				break;
			}
	}
}

static void take_launched(p4d_reading *r, const p4d_shell *shell, p4d_option option, p4d_value value)
{
	uint64_t number;
	p4d_read_value found = {.file = NULL};

	if (!value.length)
		return;
	if (p4d_value_unknown(value)) {
		p4d_reader__unknown(r, p4d_request_option_info(option)->name, "%s",
				    p4d_shell_unknown(shell, p4d_value_unknown(value)));
		return;
	}
	p4d_value_text(value, found.text, sizeof(found.text));
	if (!p4d_number_whole(found.text, 1, UINT32_MAX, &number))
		return; /* "gpu", "auto", "1:4" */
	place_of(shell, value, &found);
	r->value[option] = found;
}

/* PyTorch's allocator is told by a variable. */
static void take_allocator(p4d_reading *r, p4d_shell *shell)
{
	static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
	p4d_read_value found = {.file = NULL};
	char text[256];
	p4d_value value;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!p4d_shell_variable(shell, names[i], &value) ||
		    !strstr(p4d_value_text(value, text, sizeof(text)), "expandable_segments:True"))
			continue;
		place_of(shell, value, &found);
		p4d_reader__put(r, P4D_ALLOCATOR, &found, "expandable");
	}
}

static void unread(void *context, const char *path)
{
	const reading_state *state = context;

	p4d_reader__unknown(state->reading, "file", "%.120s cannot be read, nor what it sets", path);
}

static void run_command(void *context, p4d_shell *shell, const p4d_value *words, size_t count, bool certain)
{
	reading_state *state = context;
	p4d_reading *r = state->reading;
	p4d_launch launch = p4d_reader__launch(words, count);

	if (!launch.count)
		return;
	const p4d_value nodes = state->nodes, gpus = state->gpus_per_node;
	if (launch.nodes.length)
		state->nodes = launch.nodes;
	if (launch.gpus_per_node.length)
		state->gpus_per_node = launch.gpus_per_node;
	bool named = false;
	char path[256];
	const p4d_reader *reader =
	    launch.shell_text || launch.shell_script ? NULL : find_reader(&launch, &named);
	if (launch.shell_text) {
		p4d_shell_text(shell, launch.words, launch.count);
	} else if (launch.shell_script) {
		if (!p4d_shell_script(shell, launch.words, launch.count, LEVELS))
			unread(context, p4d_value_text(launch.words[0], path, sizeof(path)));
	} else if (reader && (r->commands++ == 0 || (named && !r->named))) {
		p4d_read_value place;
		memset(r->value, 0, sizeof(r->value));
		memset(r->extra, 0, sizeof(r->extra));
		memset(r->by_default, 0, sizeof(r->by_default));
		r->more_arguments = !named;
		r->named = named;
		r->reader = reader;
		r->certain = certain;
		p4d_value_text(launch.words[0], r->program, sizeof(r->program));
		place_of(shell, words[0], &place);
		r->file = place.file;
		r->line = place.line;
		if (!named)
			p4d_reader__unknown(
			    r, "program", "%.100s is none that p4d knows; its arguments are like those of %s",
			    r->program, reader->framework);
		for (const p4d_read_default *d = named ? reader->defaults : NULL; d && d->value; d++)
			p4d_reader__put_default(r, d->option, "%s", d->value);
		take_launched(r, shell, P4D_NODES, state->nodes);
		take_launched(r, shell, P4D_GPUS_PER_NODE, state->gpus_per_node);
		take_allocator(r, shell);
		read_arguments(r, shell, &launch);
		if (reader->finish)
			reader->finish(r);
	}
	state->nodes = nodes;
	state->gpus_per_node = gpus;
}

static const char *variable(void *context, const char *name)
{
	const reading_state *state = context;

	return state->host->variable ? state->host->variable(state->host->context, name) : NULL;
}

static const char *file(void *context, const char *path, size_t *length)
{
	const reading_state *state = context;

	return state->host->file ? state->host->file(state->host->context, path, length) : NULL;
}

void p4d_reader_read(p4d_reading *reading, const p4d_shell_host *host, const p4d_shell_limits *limits,
		     const char *name, const char *text, size_t length, const char *const *arguments,
		     const char *directory)
{
	reading_state state = {.reading = reading, .host = host};
	const p4d_shell_host own = {&state, variable, file, unread, run_command};

	*reading = (p4d_reading){.reader = NULL};
	reading->incomplete = p4d_shell_read(&own, limits, name, text, length, arguments, directory);
	if (reading->commands > 1)
		p4d_reader__unknown(reading, "commands", "%u commands start a training; the first is read",
				    reading->commands);
}
