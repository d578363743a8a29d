/* SPDX-License-Identifier: Apache-2.0 */
/* Words and environment of the command that is rehearsed. */
#include "rehearse/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/exported.h"

void *p4d_words__take(p4d_words_memory *memory, size_t size)
{
	void *block = calloc(1, size ? size : 1);

	if (!block || !p4d_grow(&memory->block, &memory->room, memory->count + 1, sizeof(*memory->block))) {
		free(block);
		memory->spent = true;
		return NULL;
	}
	memory->block[memory->count++] = block;
	return block;
}

char *p4d_words__copy(p4d_words_memory *memory, const char *text, size_t length)
{
	char *copy = p4d_words__take(memory, length + 1);

	if (copy)
		memcpy(copy, text, length);
	return copy;
}

char *p4d_words__print(p4d_words_memory *memory, const char *format, ...)
{
	va_list arguments;
	char *text = NULL;

	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0) {
		memory->spent = true;
		return NULL;
	}
	char *copy = p4d_words__copy(memory, text, (size_t)length);
	free(text);
	return copy;
}

void p4d_words__free(p4d_words_memory *memory)
{
	for (size_t i = 0; i < memory->count; i++)
		free(memory->block[i]);
	free(memory->block);
	*memory = (p4d_words_memory){0};
}

/* Returns an array with room for one more than `count` elements. If it is not the old array, it has a copy
 * of the elements, and the old array stays allocated until the memory is freed. */
static void *grown(p4d_words_memory *memory, void *at, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return at;
	size_t wanted = *room ? 2 * *room : 32;
	void *more = p4d_words__take(memory, wanted * size);
	if (!more)
		return NULL;
	if (count)
		memcpy(more, at, count * size);
	*room = wanted;
	return more;
}

static void add(p4d_words *w, p4d_word word)
{
	p4d_word *more = grown(w->memory, w->at, w->count, &w->room, sizeof(*w->at));

	if (!more || !word.text)
		return;
	w->at = more;
	w->at[w->count++] = word;
}

static p4d_value copied(p4d_words *w, p4d_value value)
{
	p4d_cell *cells = p4d_words__take(w->memory, value.length * sizeof(*cells));

	if (!cells)
		return (p4d_value){0};
	if (value.length)
		memcpy(cells, value.at, value.length * sizeof(*cells));
	return (p4d_value){cells, value.length};
}

void p4d_words__add_value(p4d_words *w, p4d_shell *shell, p4d_value value)
{
	const uint16_t unknown = shell ? p4d_value_unknown(value) : 0;
	p4d_word word = {.text = p4d_words__take(w->memory, value.length + 1), .value = copied(w, value)};

	if (!word.text)
		return;
	p4d_value_text(value, word.text, value.length + 1);
	if (unknown) {
		const char *why = p4d_shell_unknown(shell, unknown);
		word.unknown = p4d_words__copy(w->memory, why, strlen(why));
	}
	add(w, word);
}

void p4d_words__add(p4d_words *w, const char *text)
{
	const size_t length = strlen(text);
	p4d_cell *cells = p4d_words__take(w->memory, length * sizeof(*cells));

	for (size_t i = 0; cells && i < length; i++)
		cells[i].c = text[i];
	add(w, (p4d_word){.text = p4d_words__copy(w->memory, text, length),
			  .value = {cells, cells ? (uint32_t)length : 0}});
}

static void add_variable(p4d_words *w, char *text)
{
	char **more = grown(w->memory, w->variable, w->variables, &w->variables_room, sizeof(*w->variable));

	if (!more || !text)
		return;
	w->variable = more;
	w->variable[w->variables++] = text;
}

void p4d_words__set(p4d_words *w, const char *name, const char *value)
{
	add_variable(w, p4d_words__print(w->memory, "%s=%s", name, value));
}

void p4d_words__assign(p4d_words *w, const char *assignment)
{
	add_variable(w, p4d_words__copy(w->memory, assignment, strlen(assignment)));
}

void p4d_words__export(p4d_words *w, const char *list)
{
	p4d_exported item;

	while (p4d_exported_next(&list, &item))
		if (item.value && item.name_length)
			add_variable(w, p4d_words__print(w->memory, "%.*s=%.*s", (int)item.name_length,
							 item.name, (int)item.value_length, item.value));
}

void p4d_words__unset(p4d_words *w, const char *name)
{
	p4d_words__assign(w, name);
}

const char *p4d_words__variable(const p4d_words *w, const char *name)
{
	const size_t length = strlen(name);

	for (size_t i = w->variables; i; i--) {
		const char *v = w->variable[i - 1];
		if (strncmp(v, name, length) != 0)
			continue;
		if (v[length] == '=')
			return v + length + 1;
		if (!v[length])
			return NULL;
	}
	return getenv(name);
}

char **p4d_words__list(const p4d_words *w)
{
	char **list = p4d_words__take(w->memory, (w->count + 1) * sizeof(*list));

	for (size_t i = 0; list && i < w->count; i++)
		list[i] = w->at[i].text;
	return list;
}
