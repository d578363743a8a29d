/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, values and variables. */
#include <ctype.h>
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
		p4d_shell__stop(sh, "it takes too long to read");
	} else {
		sh->work -= amount;
	}
	return !sh->stopped;
}

void *p4d_shell__take(p4d_shell *sh, size_t size)
{
	size = (size + 7) & ~(size_t)7;
	if (sh->stopped || sh->size - sh->used < size) {
		p4d_shell__stop(sh, "it takes too much memory to read");
		return NULL;
	}
	void *memory = sh->memory + sh->used;
	sh->used += size;
	return memory;
}

const char *p4d_shell__copy(p4d_shell *sh, const char *text, size_t length)
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
	text = p4d_shell__copy(sh, text, length);
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
	sh->unknown[sh->unknowns] = p4d_shell__copy(sh, text, strlen(text));
	return (uint16_t)++sh->unknowns;
}

const char *p4d_shell_unknown(const p4d_shell *sh, uint16_t unknown)
{
	return unknown && unknown <= sh->unknowns ? sh->unknown[unknown - 1] : "";
}

const char *p4d_shell_keep(p4d_shell *sh, const char *text)
{
	return p4d_shell__copy(sh, text, strlen(text));
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
	sh->file[sh->files] = p4d_shell__copy(sh, text, strlen(text));
	return (uint8_t)sh->files++;
}

/* Room for one more of `size` bytes; what was there before stays behind, unused. */
static bool grow(p4d_shell *sh, void **at, uint32_t count, uint32_t *room, size_t size)
{
	if (count < *room)
		return true;
	uint32_t more = *room ? *room * 2 : 8;
	void *bigger = p4d_shell__take(sh, more * size);
	if (!bigger)
		return false;
	if (count)
		memcpy(bigger, *at, count * size);
	*at = bigger;
	*room = more;
	return true;
}

void p4d_shell__add(p4d_shell *sh, p4d_shell_build *b, p4d_cell cell)
{
	void *at = b->at;

	if (!p4d_shell__work(sh, 1) || !grow(sh, &at, b->length, &b->room, sizeof(*b->at)))
		return;
	b->at = at;
	b->at[b->length++] = cell;
}

void p4d_shell__add_value(p4d_shell *sh, p4d_shell_build *b, p4d_value value, bool quoted)
{
	for (uint32_t i = 0; i < value.length; i++) {
		p4d_cell cell = value.at[i];
		cell.quoted = quoted;
		p4d_shell__add(sh, b, cell);
	}
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

	if (!p4d_shell__work(sh, 1) || !grow(sh, &at, words->count, &words->room, sizeof(*words->at)))
		return;
	words->at = at;
	words->at[words->count++] = word;
}

static bool is_boundary(p4d_cell c)
{
	return !c.unknown && !c.quoted && (c.c == 0 || c.c == ' ' || c.c == '\t' || c.c == '\n');
}

static bool is_holder(p4d_cell c)
{
	return !c.unknown && c.quoted && c.c == 0;
}

void p4d_shell__split(p4d_shell *sh, const p4d_shell_build *b, p4d_shell_words *words)
{
	for (uint32_t i = 0; i < b->length && !sh->stopped;) {
		p4d_shell_build word = {0};
		if (is_boundary(b->at[i])) {
			i++;
			continue;
		}
		for (; i < b->length && !is_boundary(b->at[i]); i++)
			if (!is_holder(b->at[i]))
				p4d_shell__add(sh, &word, b->at[i]);
		p4d_shell__add_word(sh, words, (p4d_value){word.at, word.length});
	}
}

p4d_value p4d_shell__joined(p4d_shell *sh, const p4d_shell_build *b)
{
	p4d_shell_build joined = {0};

	for (uint32_t i = 0; i < b->length; i++) {
		p4d_cell cell = b->at[i];
		if (is_holder(cell))
			continue;
		if (!cell.unknown && cell.c == 0)
			cell.c = ' ';
		p4d_shell__add(sh, &joined, cell);
	}
	return (p4d_value){joined.at, joined.length};
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
	if (a.length != b.length)
		return false;
	for (uint32_t i = 0; i < a.length; i++)
		if (a.at[i].c != b.at[i].c || a.at[i].unknown != b.at[i].unknown)
			return false;
	return true;
}

p4d_shell_var *p4d_shell__find(p4d_shell *sh, p4d_shell_name name, bool create)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < name.length; i++)
		hash = hash * 31 + (unsigned char)name.text[i];
	p4d_shell_var **bucket = &sh->variable[hash % P4D_SHELL_BUCKETS];
	for (p4d_shell_var *v = *bucket; v && p4d_shell__work(sh, 1); v = v->next)
		if (v->name.length == name.length && !memcmp(v->name.text, name.text, name.length))
			return v;
	p4d_shell_var *v = create ? p4d_shell__take(sh, sizeof(*v)) : NULL;
	if (!v)
		return NULL;
	*v = (p4d_shell_var){
	    .next = *bucket, .name = p4d_shell__name(sh, name.text, name.length), .scope = sh->scope};
	*bucket = v;
	return v;
}

p4d_shell_var *p4d_shell__own(p4d_shell *sh, p4d_shell_name name)
{
	p4d_shell_var *v = p4d_shell__find(sh, name, true);

	if (!v || v->scope == sh->scope)
		return v;
	uint32_t hash = 0;
	for (size_t i = 0; i < name.length; i++)
		hash = hash * 31 + (unsigned char)name.text[i];
	p4d_shell_var **bucket = &sh->variable[hash % P4D_SHELL_BUCKETS];
	p4d_shell_var *own = p4d_shell__take(sh, sizeof(*own));
	if (!own)
		return NULL;
	*own = *v;
	own->scope = sh->scope;
	own->next = *bucket;
	if (v->scope < sh->process && !v->exported)
		own->set = own->array = false;
	own->value.room = own->value.count; /* what is added goes elsewhere */
	*bucket = own;
	return own;
}

void p4d_shell__enter(p4d_shell *sh, p4d_shell_scope *scope, bool process)
{
	memcpy(scope->variable, sh->variable, sizeof(scope->variable));
	scope->function = sh->function;
	scope->local = sh->local;
	scope->parameters = sh->parameters;
	scope->scope = sh->scope;
	scope->process = sh->process;
	scope->exited = sh->exited;
	scope->returned = sh->returned;
	scope->left_loop = sh->left_loop;
	scope->broke_loop = sh->broke_loop;
	sh->scope = ++sh->scopes;
	if (!process)
		return;
	sh->process = sh->scope;
	sh->function = NULL;
}

void p4d_shell__leave(p4d_shell *sh, const p4d_shell_scope *scope)
{
	memcpy(sh->variable, scope->variable, sizeof(scope->variable));
	sh->function = scope->function;
	sh->local = scope->local;
	sh->parameters = scope->parameters;
	sh->scope = scope->scope;
	sh->process = scope->process;
	sh->exited = scope->exited;
	sh->returned = scope->returned;
	sh->left_loop = scope->left_loop;
	sh->broke_loop = scope->broke_loop;
}

p4d_value p4d_shell__not_known(p4d_shell *sh, uint16_t reason)
{
	p4d_shell_build b = {0};

	p4d_shell__add(sh, &b, (p4d_cell){.unknown = reason, .c = '?'});
	return (p4d_value){b.at, b.length};
}

static void set_one(p4d_shell *sh, p4d_shell_var *v, p4d_value value)
{
	v->value = (p4d_shell_words){0};
	p4d_shell__add_word(sh, &v->value, value);
	v->array = false;
	v->set = true;
}

/* The value of an environment variable was written nowhere: line 0. */
p4d_shell_var *p4d_shell__lookup(p4d_shell *sh, p4d_shell_name name)
{
	p4d_shell_var *v = p4d_shell__find(sh, name, true);

	if (v && v->scope < sh->process && !v->exported && (v->set || v->array))
		return NULL;          /* of the bash around this one */
	if (!v || v->set || v->array) /* an array that was unset, or is empty */
		return v && v->set ? v : NULL;
	const char *text = sh->host->variable ? sh->host->variable(sh->host->context, v->name.text) : NULL;
	if (!text)
		return NULL;
	v->exported = true;
	if (text != p4d_shell_later) {
		p4d_cell where = {.file = p4d_shell__place(sh, "$%.64s", v->name.text) & 127u};
		set_one(sh, v, p4d_shell__value_of(sh, text, where));
		return v;
	}
	p4d_shell_build b = {0};
	p4d_shell__add(
	    sh, &b,
	    (p4d_cell){.unknown = p4d_shell__reason(sh, "$%.64s is known to the job only", v->name.text),
		       .c = '?'});
	set_one(sh, v, (p4d_value){b.at, b.length});
	return v;
}

bool p4d_shell_variable(p4d_shell *sh, const char *name, p4d_value *value)
{
	p4d_shell_var *v = p4d_shell__lookup(sh, (p4d_shell_name){name, strlen(name)});

	if (!v || !v->value.count)
		return false;
	*value = v->value.at[0];
	return true;
}

/* What a value may be after a test that is not known: what it began with, and perhaps more. */
static p4d_value perhaps(p4d_shell *sh, p4d_shell_name name, p4d_value before, p4d_value after, uint32_t line)
{
	p4d_shell_build b = {0};

	if (after.length >= before.length && p4d_shell__equal(before, (p4d_value){after.at, before.length}))
		p4d_shell__add_value(sh, &b, before, false);
	p4d_shell__add(sh, &b,
		       (p4d_cell){.line = line,
				  .unknown = p4d_shell__reason(sh, "$%.*s depends on a test (line %u)",
							       (int)(name.length < 64 ? name.length : 64),
							       name.text, line),
				  .c = '?'});
	return (p4d_value){b.at, b.length};
}

void p4d_shell__assign(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value value, bool append,
		       uint32_t line)
{
	if (mode == P4D_SHELL_SKIP)
		return;
	p4d_shell_var *known = p4d_shell__lookup(sh, name);
	p4d_shell_var *v = p4d_shell__own(sh, name);
	if (!v)
		return;
	p4d_value before = known && known->value.count ? known->value.at[0] : (p4d_value){0};
	if (append) {
		p4d_shell_build b = {0};
		p4d_shell__add_value(sh, &b, before, false);
		p4d_shell__add_value(sh, &b, value, false);
		value = (p4d_value){b.at, b.length};
	}
	if (mode == P4D_SHELL_MAYBE && !(known && p4d_shell__equal(before, value)))
		value = perhaps(sh, name, before, value, line);
	if (!v->array || v->value.count < 2) {
		set_one(sh, v, value);
		return;
	}
	p4d_shell_words elements = {0}; /* the first of an array */
	p4d_shell__add_word(sh, &elements, value);
	for (uint32_t i = 1; i < v->value.count; i++)
		p4d_shell__add_word(sh, &elements, v->value.at[i]);
	v->value = elements;
}

void p4d_shell__assign_array(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_shell_words words,
			     bool append, uint32_t line)
{
	if (mode == P4D_SHELL_SKIP)
		return;
	p4d_shell_var *known = append ? p4d_shell__lookup(sh, name) : NULL;
	p4d_shell_var *v = p4d_shell__own(sh, name);
	if (!v)
		return;
	if (!known)
		v->value = (p4d_shell_words){0};
	v->array = v->set = true;
	if (mode == P4D_SHELL_MAYBE) {
		p4d_shell__add_word(sh, &v->value, perhaps(sh, name, (p4d_value){0}, (p4d_value){0}, line));
		return;
	}
	for (uint32_t i = 0; i < words.count; i++)
		p4d_shell__add_word(sh, &v->value, words.at[i]);
}
