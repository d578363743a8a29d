/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, and values. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shell/shell_internal.h"

const char p4d_shell_later[] = "";

void p4d_shell__stop(p4d_shell *sh, const char *why)
{
	if (!sh->stopped)
		sh->stopped = why;
}

bool p4d_shell__work(p4d_shell *sh, uint64_t amount)
{
	if (sh->work < amount) {
		sh->work = 0;
		p4d_shell__stop(sh, "the script takes too long to read");
	} else {
		sh->work -= amount;
	}
	return !sh->stopped;
}

void *p4d_shell__take(p4d_shell *sh, size_t size)
{
	size = (size + 7) & ~(size_t)7;
	if (sh->stopped || sh->size - sh->used < size) {
		p4d_shell__stop(sh, "the script takes too much memory to read");
		return NULL;
	}
	void *memory = sh->memory + sh->used;
	sh->used += size;
	return memory;
}

static const char *copy_of(p4d_shell *sh, const char *text, size_t length)
{
	char *copy = p4d_shell__take(sh, length + 1);

	if (!copy)
		return "";
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

p4d_shell_name p4d_shell__name(p4d_shell *sh, const char *text, size_t length)
{
	text = copy_of(sh, text, length);
	return (p4d_shell_name){text, sh->stopped ? 0 : length};
}

p4d_shell_name p4d_shell__name_of(p4d_shell *sh, p4d_value value)
{
	const char *text = p4d_shell__text_of(sh, value);

	return (p4d_shell_name){text, sh->stopped ? 0 : value.length};
}

uint16_t p4d_shell__reason(p4d_shell *sh, const char *format, ...)
{
	char text[160];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	if (!p4d_shell__work(sh, 16 + sh->unknowns / 4))
		return P4D_SHELL_UNKNOWNS;
	for (uint32_t i = 0; i < sh->unknowns; i++)
		if (!strcmp(sh->unknown[i], text))
			return (uint16_t)(i + 1);
	if (sh->unknowns == P4D_SHELL_UNKNOWNS)
		return P4D_SHELL_UNKNOWNS;
	sh->unknown[sh->unknowns] = copy_of(sh, text, strlen(text));
	return (uint16_t)++sh->unknowns;
}

const char *p4d_shell_unknown(const p4d_shell *sh, uint16_t unknown)
{
	return unknown && unknown <= sh->unknowns ? sh->unknown[unknown - 1] : "";
}

const p4d_value *p4d_shell_may_be(const p4d_shell *sh, uint16_t unknown, size_t *count)
{
	if (!unknown || unknown > sh->unknowns || sh->anything[unknown - 1] || !sh->may_be[unknown - 1].count)
		return NULL;
	*count = sh->may_be[unknown - 1].count;
	return sh->may_be[unknown - 1].at;
}

const char *p4d_shell_keep(p4d_shell *sh, const char *text)
{
	return copy_of(sh, text, strlen(text));
}

const char *p4d_shell_file_name(const p4d_shell *sh, uint8_t file)
{
	return file < sh->files ? sh->file[file] : "";
}

uint8_t p4d_shell__place(p4d_shell *sh, const char *format, ...)
{
	char text[256];
	va_list values;

	if (sh->files == P4D_SHELL_FILES)
		return 0;
	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	sh->file[sh->files] = copy_of(sh, text, strlen(text));
	return (uint8_t)sh->files++;
}

/* Whether a block is the most recently allocated one. */
static bool is_last(const p4d_shell *sh, const void *at, size_t size)
{
	return at && (const char *)at + ((size + 7) & ~(size_t)7) == sh->memory + sh->used;
}

/*
 * Makes room for `added` more elements of `size` bytes. If other memory was allocated after the array, the
 * elements move, and their old memory stays unused.
 */
static bool grow(p4d_shell *sh, void **at, uint32_t count, uint32_t *room, size_t size, uint32_t added)
{
	if (count + added <= *room)
		return true;
	uint32_t more = *room ? *room * 2 : 8;
	if (more < count + added)
		more = count + added;
	if (is_last(sh, *at, *room * size)) {
		if (!p4d_shell__take(sh, (more - *room) * size))
			return false;
		*room = more;
		return true;
	}
	void *bigger = p4d_shell__take(sh, more * size);
	if (!bigger)
		return false;
	if (count)
		memcpy(bigger, *at, count * size);
	*at = bigger;
	*room = more;
	return true;
}

static void put(p4d_shell *sh, p4d_shell_build *b, p4d_cell cell)
{
	void *at = b->at;

	if (!grow(sh, &at, b->length, &b->room, sizeof(*b->at), 1))
		return;
	b->at = at;
	b->at[b->length++] = cell;
}

void p4d_shell__add(p4d_shell *sh, p4d_shell_build *b, p4d_cell cell)
{
	if (p4d_shell__work(sh, 1))
		put(sh, b, cell);
}

/* Completes a value. Returns unused memory if possible. */
static p4d_value finished(p4d_shell *sh, const p4d_shell_build *b)
{
	if (is_last(sh, b->at, b->room * sizeof(*b->at)))
		sh->used = (size_t)((char *)(b->at + b->length) - sh->memory + 7) & ~(size_t)7;
	return (p4d_value){b->at, b->length};
}

void p4d_shell__add_value(p4d_shell *sh, p4d_shell_build *b, p4d_value value, bool quoted)
{
	/* copying a character costs less work than reading one */
	if (!value.length || !p4d_shell__work(sh, value.length / 4 + 1))
		return;
	void *at = b->at;
	if (!grow(sh, &at, b->length, &b->room, sizeof(*b->at), value.length))
		return;
	b->at = at;
	p4d_cell *to = b->at + b->length;
	for (uint32_t i = 0; i < value.length; i++) {
		to[i] = value.at[i];
		to[i].quoted = quoted;
		to[i].expanded = true;
	}
	b->length += value.length;
}

p4d_value p4d_shell__extended(p4d_shell *sh, p4d_shell_build *kept, p4d_value before, p4d_value value)
{
	enum { SHORT = 64 };

	if (before.length < SHORT || value.length < before.length ||
	    !p4d_shell__equal(before, p4d_shell__part(value, 0, before.length)))
		return value;
	if (kept->at == before.at && kept->length == before.length && kept->room >= value.length) {
		memcpy(kept->at + before.length, value.at + before.length,
		       (value.length - before.length) * sizeof(*value.at));
		if (is_last(sh, value.at, value.length * sizeof(*value.at)))
			sh->used = (size_t)((const char *)value.at - sh->memory);
		kept->length = value.length;
		return (p4d_value){kept->at, kept->length};
	}
	*kept = (p4d_shell_build){0};
	if (is_last(sh, value.at, value.length * sizeof(*value.at)) &&
	    p4d_shell__take(sh, value.length * sizeof(*value.at)))
		*kept = (p4d_shell_build){
		    .at = (p4d_cell *)value.at, .length = value.length, .room = 2 * value.length};
	return value;
}

void p4d_shell__add_text(p4d_shell *sh, p4d_shell_build *b, const char *text, p4d_cell like)
{
	like.unknown = 0;
	for (; *text; text++) {
		like.c = *text;
		p4d_shell__add(sh, b, like);
	}
}

p4d_value p4d_shell__value_of(p4d_shell *sh, const char *text, p4d_cell like)
{
	p4d_shell_build b = {0};

	p4d_shell__add_text(sh, &b, text, like);
	return (p4d_value){b.at, b.length};
}

void p4d_shell__add_word(p4d_shell *sh, p4d_shell_words *words, p4d_value word)
{
	void *at = words->at;

	if (!p4d_shell__work(sh, 1) || !grow(sh, &at, words->count, &words->room, sizeof(*words->at), 1))
		return;
	words->at = at;
	words->at[words->count++] = word;
}

static bool is_holder(p4d_cell c)
{
	return !c.unknown && c.quoted && c.c == 0;
}

p4d_value p4d_shell__copied(p4d_shell *sh, p4d_value value)
{
	p4d_shell_build b = {0};

	for (uint32_t i = 0; i < value.length; i++)
		p4d_shell__add(sh, &b, value.at[i]);
	return finished(sh, &b);
}

uint16_t p4d_shell__any_number(const p4d_value *at, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < at[i].length; j++)
			if (at[i].at[j].unknown && !at[i].at[j].quoted && at[i].at[j].c != P4D_CELL_WORD)
				return at[i].at[j].unknown;
	return 0;
}

p4d_value p4d_shell__joined(p4d_shell *sh, p4d_shell_build *b)
{
	uint32_t length = 0;

	while (length < b->length && b->at[length].c) /* fast path: most values stay as they are */
		length++;
	for (uint32_t i = length; i < b->length; i++) {
		p4d_cell cell = b->at[i];
		if (is_holder(cell))
			continue;
		if (!cell.unknown && cell.c == 0)
			cell.c = ' ';
		b->at[length++] = cell;
	}
	b->length = length;
	return finished(sh, b);
}

uint16_t p4d_value_unknown(p4d_value value)
{
	for (uint32_t i = 0; i < value.length; i++)
		if (value.at[i].unknown)
			return value.at[i].unknown;
	return 0;
}

const char *p4d_value_text(p4d_value value, char *buf, size_t size)
{
	size_t length = value.length < size - 1 ? value.length : size - 1;

	for (size_t i = 0; i < length; i++)
		buf[i] = value.at[i].unknown ? '?' : value.at[i].c;
	buf[length] = '\0';
	return buf;
}

bool p4d_value_may_be_options(p4d_value value)
{
	const bool path = value.length > 1 && !value.at[1].unknown && value.at[1].c == '/';

	return value.length && value.at[0].unknown && value.at[0].c != P4D_CELL_WORD &&
	       value.at[0].c != P4D_CELL_WORDS && !(path && value.at[0].quoted);
}

bool p4d_value_is_unset(p4d_value value)
{
	return value.length == 1 && p4d_cell_is_unset(value.at[0]) && !value.at[0].quoted;
}

bool p4d_cell_is_unset(p4d_cell cell)
{
	return cell.unknown && cell.c == P4D_CELL_UNSET;
}

bool p4d_value_is(p4d_value value, const char *text)
{
	uint32_t i = 0;

	for (; i < value.length && text[i]; i++)
		if (value.at[i].unknown || value.at[i].c != text[i])
			return false;
	return i == value.length && !text[i];
}

const char *p4d_shell__text_of(p4d_shell *sh, p4d_value value)
{
	char *text = p4d_shell__work(sh, value.length) ? p4d_shell__take(sh, value.length + 1) : NULL;

	return text ? p4d_value_text(value, text, value.length + 1) : "";
}

bool p4d_shell__equal(p4d_value a, p4d_value b)
{
	enum { BLOCK = 64 }; /* number of characters that are compared together */

	if (a.length != b.length)
		return false;
	for (uint32_t i = 0; i < a.length;) {
		unsigned differ = 0;
		const uint32_t end = a.length - i < BLOCK ? a.length : i + BLOCK;
		for (; i < end; i++)
			differ |= (unsigned)(a.at[i].c ^ b.at[i].c) | (a.at[i].unknown ^ b.at[i].unknown);
		if (differ)
			return false;
	}
	return true;
}

p4d_value p4d_shell__not_known(p4d_shell *sh, uint16_t reason)
{
	p4d_shell_build b = {0};

	p4d_shell__add(sh, &b, (p4d_cell){.unknown = reason, .c = '?'});
	return (p4d_value){b.at, b.length};
}

p4d_value p4d_shell__digits(p4d_shell *sh, int64_t number, p4d_cell like)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRId64, number);
	return p4d_shell__value_of(sh, digits, like);
}
