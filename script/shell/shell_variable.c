/* SPDX-License-Identifier: Apache-2.0 */
/* Variables, and the copies that subshells have. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

p4d_shell_var *p4d_shell__find(p4d_shell *sh, p4d_shell_name name, bool create)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < name.length; i++)
		hash = hash * 31 + (unsigned char)name.text[i];
	p4d_shell_var **bucket = &sh->in.variable[hash % P4D_SHELL_BUCKETS];
	for (p4d_shell_var *v = *bucket; v && p4d_shell__work(sh, 1); v = v->next)
		if (v->name.length == name.length && !memcmp(v->name.text, name.text, name.length))
			return v;
	p4d_shell_var *v = create ? p4d_shell__take(sh, sizeof(*v)) : NULL;
	if (!v)
		return NULL;
	*v = (p4d_shell_var){
	    .next = *bucket, .name = p4d_shell__name(sh, name.text, name.length), .scope = sh->in.scope};
	*bucket = v;
	return v;
}

p4d_shell_var *p4d_shell__own(p4d_shell *sh, p4d_shell_name name)
{
	p4d_shell_var *v = p4d_shell__find(sh, name, true);

	if (v && v->scope == sh->in.scope)
		v->exported = v->exported || (sh->in.options & P4D_SHELL_ALLEXPORT);
	if (!v || v->scope == sh->in.scope)
		return v;
	uint32_t hash = 0;
	for (size_t i = 0; i < name.length; i++)
		hash = hash * 31 + (unsigned char)name.text[i];
	p4d_shell_var **bucket = &sh->in.variable[hash % P4D_SHELL_BUCKETS];
	p4d_shell_var *own = p4d_shell__take(sh, sizeof(*own));
	if (!own)
		return NULL;
	*own = *v;
	own->exported = own->exported || (sh->in.options & P4D_SHELL_ALLEXPORT);
	own->scope = sh->in.scope;
	own->next = *bucket;
	if (v->scope < sh->in.process && !v->exported)
		own->set = own->array = own->map = false;
	own->value.room = own->value.count; /* no room is left, so a new element goes into other memory and
					     * the outer shell's array stays unchanged */
	own->key.room = own->key.count;
	own->kept = (p4d_shell_build){0};
	*bucket = own;
	return own;
}

void p4d_shell__enter(p4d_shell *sh, p4d_shell_scope *scope, bool process)
{
	*scope = sh->in;
	sh->in.scope = ++sh->scopes;
	if (!process)
		return;
	sh->in.process = sh->in.scope;
	sh->in.function = NULL;
	sh->in.options = 0;
}

void p4d_shell__leave(p4d_shell *sh, const p4d_shell_scope *scope)
{
	sh->in = *scope;
}

static void set_one(p4d_shell *sh, p4d_shell_var *v, p4d_value value)
{
	v->value = (p4d_shell_words){0};
	p4d_shell__add_word(sh, &v->value, value);
	v->array = v->map = false;
	v->lost = 0;
	v->set = true;
}

/* The variable that a name stands for: with declare -n, another variable. */
static p4d_shell_name meant(p4d_shell *sh, p4d_shell_name name)
{
	for (int i = 0; sh->references && i < 8; i++) {
		const p4d_shell_var *v = p4d_shell__find(sh, name, false);
		if (!v || !v->reference || !v->target.length)
			break;
		name = v->target;
	}
	return name;
}

/* Finds a variable. The value of an environment variable has no place: its line is 0. */
p4d_shell_var *p4d_shell__lookup(p4d_shell *sh, p4d_shell_name name)
{
	if (p4d_shell__is_of_frames(name))
		return p4d_shell__of_frames(sh, name);
	p4d_shell_var *v = p4d_shell__find(sh, meant(sh, name), true);

	if (v && v->scope < sh->in.process && !v->exported && (v->set || v->array))
		return NULL;          /* the variable is set, or is an array (perhaps empty or unset) */
	if (!v || v->set || v->array) /* set, or an array that is empty or was unset */
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
	p4d_shell__add(sh, &b,
		       (p4d_cell){.unknown = p4d_shell__reason(sh, "$%.64s is known only to the running job",
							       v->name.text),
				  .c = strncmp(v->name.text, "SLURM_", 6) ? '?' : P4D_CELL_WORD});
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

bool p4d_shell_assigned(p4d_shell *sh, const char *name)
{
	const p4d_shell_var *v = p4d_shell__lookup(sh, (p4d_shell_name){name, strlen(name)});

	return v && v->assigned;
}

bool p4d_shell_exported(p4d_shell *sh, const char *name, p4d_value *value)
{
	p4d_shell_scope scope;

	p4d_shell__enter(sh, &scope, true);
	const bool set = p4d_shell_variable(sh, name, value);
	p4d_shell__leave(sh, &scope);
	return set;
}

/* Whether this subshell has a variable of the same name, which hides v. */
static bool is_hidden(const p4d_shell_var *first, const p4d_shell_var *v)
{
	for (; first != v; first = first->next)
		if (first->name.length == v->name.length &&
		    !memcmp(first->name.text, v->name.text, v->name.length))
			return true;
	return false;
}

void p4d_shell_environment(p4d_shell *sh,
			   void (*each)(void *context, const char *name, const p4d_value *value),
			   void *context)
{
	for (int i = 0; i < P4D_SHELL_BUCKETS; i++)
		for (const p4d_shell_var *v = sh->in.variable[i]; v; v = v->next) {
			if (is_hidden(sh->in.variable[i], v))
				continue;
			if (v->set && v->exported && v->value.count)
				each(context, v->name.text, &v->value.at[0]);
			else if (!v->set && v->array)
				each(context, v->name.text, NULL);
		}
}

void p4d_shell_each_exported(p4d_shell *sh, void (*take)(void *context, const char *name, p4d_value value),
			     void *context)
{
	for (int i = 0; i < P4D_SHELL_BUCKETS; i++)
		for (const p4d_shell_var *v = sh->in.variable[i]; v && p4d_shell__work(sh, 1); v = v->next)
			if (v->exported && v->set && v->assigned && !is_hidden(sh->in.variable[i], v))
				take(context, v->name.text, v->value.count ? v->value.at[0] : (p4d_value){0});
}

/* Whether a text is one word without a leading dash, and so no option. */
static bool is_plain(p4d_value value)
{
	for (uint32_t i = 0; i < value.length; i++)
		if (value.at[i].unknown ? value.at[i].c != P4D_CELL_WORD && value.at[i].c != P4D_CELL_WORDS
					: strchr(" \t\n", value.at[i].c) != NULL)
			return false;
	return !value.length || value.at[0].unknown || value.at[0].c != '-';
}

enum { MAY_BE_MOST = 16 };

static void add_text(p4d_shell *sh, uint16_t unknown, p4d_value text)
{
	p4d_shell_words *texts = &sh->may_be[unknown - 1];
	p4d_shell_build copy = {
	    0}; /* a copy, because the text may be in memory where the next value is built */

	for (uint32_t i = 0; i < texts->count && p4d_shell__work(sh, text.length + 1); i++)
		if (p4d_shell__equal(texts->at[i], text))
			return;
	sh->anything[unknown - 1] |= texts->count == MAY_BE_MOST;
	if (sh->anything[unknown - 1])
		return;
	p4d_shell__add_value(sh, &copy, text, false);
	p4d_shell__add_word(sh, texts, (p4d_value){copy.at, copy.length});
}

/* Adds one of the possible values of an unknown text. If there is no room, the text may be anything. */
void p4d_shell__may_be(p4d_shell *sh, uint16_t unknown, p4d_value text)
{
	const uint16_t earlier = text.length == 1 ? text.at[0].unknown : 0;
	size_t count = 0;

	if (!unknown || !text.length || earlier == unknown || unknown == P4D_SHELL_UNKNOWNS)
		return;
	if (!earlier)
		add_text(sh, unknown, text);
	const p4d_value *texts = p4d_shell_may_be(sh, earlier, &count);
	sh->anything[unknown - 1] |= earlier && !texts;
	for (size_t i = 0; i < count; i++)
		add_text(sh, unknown, texts[i]);
}

/* The possible value of a variable after an unknown test: the part that is certain, and perhaps more. */
static p4d_value perhaps(p4d_shell *sh, p4d_shell_name name, p4d_value before, p4d_value after, bool plain,
			 uint32_t line)
{
	const uint16_t unknown =
	    p4d_shell__reason(sh, "$%.*s depends on a condition (line %u)",
			      (int)(name.length < 64 ? name.length : 64), name.text, line);
	p4d_shell_build b = {0};

	if (after.length >= before.length && p4d_shell__equal(before, (p4d_value){after.at, before.length})) {
		p4d_shell__add_value(sh, &b, before, false);
		if (before.length)
			after = (p4d_value){after.at + before.length, after.length - before.length};
		if (before.length && after.length && !after.at[0].unknown && after.at[0].c == ' ')
			p4d_shell__add(sh, &b, after.at[0]); /* the rest differs between the two values */
	} else {
		p4d_shell__may_be(sh, unknown, before);
	}
	p4d_shell__may_be(sh, unknown, after);
	p4d_shell__add(sh, &b,
		       (p4d_cell){.line = line, .unknown = unknown, .c = plain ? P4D_CELL_WORDS : '?'});
	return (p4d_value){b.at, b.length};
}

/* The new value of a variable or element after an assignment, given its previous value. */
static p4d_value assigned(p4d_shell *sh, const p4d_shell_var *v, p4d_shell_mode mode, p4d_value before,
			  p4d_value value, bool is_there, bool append, uint32_t line)
{
	if (v->integer) { /* the variable is an integer (declare -i) */
		int64_t number;
		uint16_t unknown;
		value = p4d_shell__number(sh, value, &number, &unknown)
			    ? p4d_shell__digits(sh, number, value.length ? value.at[0] : (p4d_cell){0})
			    : p4d_shell__not_known(sh, unknown);
		if (append)
			value = p4d_shell__not_known(sh, p4d_shell__reason(sh, "a sum in line %u", line));
	} else if (append) {
		p4d_shell_build b = {0};
		p4d_shell__add_value(sh, &b, before, false);
		p4d_shell__add_value(sh, &b, value, false);
		value = p4d_shell__joined(sh, &b);
	}
	if (mode == P4D_SHELL_MAYBE && !(is_there && p4d_shell__equal(before, value)))
		value = perhaps(sh, v->name, before, value, is_plain(before) && is_plain(value), line);
	return value;
}

/*
 * Copies the elements and changes one of them. The old elements stay unchanged, because other variables may
 * share them.
 */
static void set_element(p4d_shell *sh, p4d_shell_words *words, uint32_t index, p4d_value value)
{
	p4d_shell_words elements = {0};

	for (uint32_t i = 0; i < words->count || i == index; i++) {
		p4d_shell__add_word(sh, &elements, i == index ? value : words->at[i]);
		if (sh->stopped)
			return;
	}
	*words = elements;
}

static bool is_name(p4d_value value)
{
	for (uint32_t i = 0; i < value.length; i++)
		if (value.at[i].unknown || !(isalnum((unsigned char)value.at[i].c) || value.at[i].c == '_'))
			return false;
	return value.length && !isdigit((unsigned char)value.at[0].c);
}

/* Whether every shell sets the variable itself. */
static bool is_of_shells(p4d_shell_name name)
{
	static const char *const names[] = {"PWD", "OLDPWD", "PATH", "HOME", "USER"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name.text, names[i]))
			return true;
	return false;
}

/* Makes the variables unknown that the script itself has set and exported. */
static void hide_exported(p4d_shell *sh, const char *launcher)
{
	for (int i = 0; i < P4D_SHELL_BUCKETS; i++) {
		p4d_shell_var *const first = sh->in.variable[i];
		for (p4d_shell_var *v = first; v && p4d_shell__work(sh, 1); v = v->next) {
			if (!v->exported || !v->set || !v->assigned || is_hidden(first, v) ||
			    is_of_shells(v->name))
				continue;
			p4d_shell_var *const own = p4d_shell__own(sh, v->name);
			if (own)
				set_one(sh, own,
					p4d_shell__not_known(
					    sh, p4d_shell__reason(sh, "$%.64s, which %.20s does not pass on",
								  v->name.text, launcher)));
		}
	}
}

static void export_as(p4d_shell *sh, p4d_shell_name name, p4d_value value)
{
	p4d_shell__assign(sh, P4D_SHELL_RUN, name, value, false, value.length ? value.at[0].line : 0);
	p4d_shell_var *const v = p4d_shell__find(sh, name, false);
	if (v)
		v->exported = true;
}

/* Exports the variables of a file of NAME=VALUE lines. If p4d cannot read it, it may set any variable. */
static void export_file(p4d_shell *sh, p4d_value path)
{
	const p4d_shell_redirection from = {.has_input_path = true, .input_path = path};
	p4d_value text;

	if (!p4d_shell__input(sh, &from, &text)) {
		p4d_shell__unread(sh, p4d_shell__text_of(sh, path));
		return;
	}
	while (text.length && !sh->stopped) {
		p4d_value line = p4d_shell__without_end(p4d_shell__next_line(&text));
		uint32_t n = 0;
		if (line.length > 7 && p4d_value_is(p4d_shell__part(line, 0, 7), "export ")) /* apptainer */
			line = p4d_shell__part(line, 7, line.length - 7);
		while (n < line.length && (line.at[n].unknown || line.at[n].c != '='))
			n++;
		const p4d_value name = p4d_shell__part(line, 0, n);
		if (n < line.length && is_name(name))
			export_as(sh, p4d_shell__name_of(sh, name),
				  p4d_shell__part(line, n + 1, line.length - n - 1));
	}
}

p4d_shell_scope *p4d_shell_enter_environment(p4d_shell *sh, const p4d_shell_setting *settings, size_t count,
					     const char *without)
{
	p4d_shell_scope *const before = count || without ? p4d_shell__take(sh, sizeof(*before)) : NULL;

	if (!before)
		return NULL;
	p4d_shell__enter(sh, before, false);
	if (without)
		hide_exported(sh, without);
	for (size_t i = 0; i < count; i++)
		if (settings[i].name)
			export_as(sh, (p4d_shell_name){settings[i].name, strlen(settings[i].name)},
				  settings[i].value);
		else
			export_file(sh, settings[i].value);
	return before;
}

void p4d_shell_leave_environment(p4d_shell *sh, const p4d_shell_scope *scope)
{
	if (scope)
		p4d_shell__leave(sh, scope);
}

static bool is_called(p4d_shell_name name, p4d_value value)
{
	return p4d_value_is(value, name.text);
}

void p4d_shell__assign(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value value, bool append,
		       uint32_t line)
{
	if (mode == P4D_SHELL_SKIP)
		return;
	name = meant(sh, name);
	const uint16_t set_elsewhere = p4d_shell__may_be_set(sh, name);
	p4d_shell_var *known = p4d_shell__lookup(sh, name);
	p4d_shell_var *v = p4d_shell__own(sh, name);
	if (!v)
		return;
	v->since = sh->unreads;
	v->assigned = true;
	if (v->map) {
		p4d_shell__assign_element(sh, mode, name, p4d_shell__value_of(sh, "0", (p4d_cell){0}), value,
					  append, line);
		return;
	}
	const bool is_there = (known && known->value.count) || set_elsewhere;
	const p4d_value before = set_elsewhere ? p4d_shell__not_known(sh, set_elsewhere)
				 : is_there    ? known->value.at[0]
					       : (p4d_value){0};
	value = assigned(sh, v, mode, before, value, is_there, append, line);
	if (v->reference && mode == P4D_SHELL_RUN && is_name(value) && !is_called(v->name, value))
		v->target = p4d_shell__name_of(sh, value); /* declare -n */
	else if (v->reference)
		value = p4d_shell__not_known(sh, p4d_shell__reason(sh, "a reference to another variable"));
	if (!v->array && v->value.count == 1)
		value = p4d_shell__extended(sh, &v->kept, v->value.at[0], value);
	if (!v->array || v->value.count < 2)
		set_one(sh, v, value);
	else
		set_element(sh, &v->value, 0, value);
}

static void lose(p4d_shell *sh, p4d_shell_var *v, uint16_t reason)
{
	v->value = v->key = (p4d_shell_words){0};
	p4d_shell__add_word(sh, &v->value, p4d_shell__not_known(sh, reason));
	v->lost = reason;
	v->array = v->set = true;
}

void p4d_shell__assign_array(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_shell_words words,
			     bool append, uint32_t line)
{
	if (mode == P4D_SHELL_SKIP)
		return;
	name = meant(sh, name);
	const uint16_t set_elsewhere = append ? p4d_shell__may_be_set(sh, name) : 0;
	p4d_shell_var *known = append ? p4d_shell__lookup(sh, name) : NULL;
	p4d_shell_var *v = p4d_shell__own(sh, name);
	if (!v)
		return;
	v->since = sh->unreads;
	v->assigned = true;
	if (!known || set_elsewhere) {
		v->value = v->key = (p4d_shell_words){0};
		v->lost = 0;
	}
	if (set_elsewhere)
		p4d_shell__add_word(sh, &v->value, p4d_shell__not_known(sh, set_elsewhere));
	v->array = v->set = true;
	if (mode == P4D_SHELL_MAYBE) {
		p4d_value some = perhaps(sh, name, (p4d_value){0}, (p4d_value){0}, false, line);
		for (uint32_t i = 0; known && i < words.count; i++)
			p4d_shell__may_be(sh, p4d_value_unknown(some), words.at[i]);
		if (v->map)
			lose(sh, v, p4d_value_unknown(some));
		else
			p4d_shell__add_word(sh, &v->value, some);
		return;
	}
	if (v->map && words.count) { /* keys and values, or only keys, depending on bash's release */
		lose(sh, v, p4d_shell__reason(sh, "a map without keys (line %u)", line));
		return;
	}
	for (uint32_t i = 0; i < words.count; i++)
		p4d_shell__add_word(sh, &v->value, words.at[i]);
}

bool p4d_shell__index(p4d_shell *sh, const p4d_shell_var *v, p4d_value subscript, int64_t *index,
		      uint16_t *unknown)
{
	*index = 0;
	if (v->lost) {
		*unknown = v->lost;
		return false;
	}
	if (v->map) {
		*unknown = p4d_value_unknown(subscript);
		while (*index < (int64_t)v->key.count && p4d_shell__work(sh, subscript.length + 1) &&
		       !p4d_shell__equal(v->key.at[*index], subscript))
			++*index;
		return !*unknown;
	}
	if (!p4d_shell__number(sh, subscript, index, unknown))
		return false;
	const bool from_end = *index < 0;
	*index += from_end ? v->value.count : 0;
	const int64_t before = from_end || *index > (int64_t)v->value.count ? v->value.count : *index;
	*unknown = p4d_shell__any_number(v->value.at, (size_t)before);
	return !*unknown;
}

void p4d_shell__assign_element(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value subscript,
			       p4d_value value, bool append, uint32_t line)
{
	int64_t index;
	uint16_t unknown;

	if (mode == P4D_SHELL_SKIP)
		return;
	name = meant(sh, name);
	p4d_shell_var *known = p4d_shell__lookup(sh, name);
	p4d_shell_var *v = p4d_shell__own(sh, name);
	if (!v)
		return;
	v->since = sh->unreads;
	v->assigned = true;
	if (!known)
		v->value = v->key = (p4d_shell_words){0};
	v->array = v->set = true;
	const bool found = p4d_shell__index(sh, v, subscript, &index, &unknown);
	if (!found || index < 0 || index > (int64_t)v->value.count) { /* p4d does not support an array
								       * with gaps */
		lose(sh, v, found ? p4d_shell__reason(sh, "an array with gaps (line %u)", line) : unknown);
		return;
	}
	const bool is_there = index < (int64_t)v->value.count;
	value = assigned(sh, v, mode, is_there ? v->value.at[index] : (p4d_value){0}, value, is_there, append,
			 line);
	p4d_shell_build one = {0}; /* a single element, whatever its value */
	p4d_shell__add_value(sh, &one, value, true);
	set_element(sh, &v->value, (uint32_t)index, (p4d_value){one.at, one.length});
	if (v->map && !is_there)
		set_element(sh, &v->key, (uint32_t)index, subscript);
}

/* Removes one element. p4d does not support gaps in an array. */
static void unset_element(p4d_shell *sh, p4d_shell_var *v, p4d_value subscript, uint32_t line)
{
	int64_t index;
	uint16_t unknown;

	if (!p4d_shell__index(sh, v, subscript, &index, &unknown)) {
		lose(sh, v, unknown);
	} else if (v->map || index == (int64_t)v->value.count - 1) {
		p4d_shell_words values = {0}, keys = {0};
		for (uint32_t i = 0; i < v->value.count; i++) {
			if (i == index)
				continue;
			p4d_shell__add_word(sh, &values, v->value.at[i]);
			if (v->map)
				p4d_shell__add_word(sh, &keys, v->key.at[i]);
		}
		v->value = values;
		v->key = keys;
	} else if (index >= 0 && index < (int64_t)v->value.count) {
		lose(sh, v, p4d_shell__reason(sh, "an array with gaps (line %u)", line));
	}
}

void p4d_shell__unset(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value subscript,
		      uint32_t line)
{
	name = meant(sh, name);
	const p4d_shell_var *known = mode == P4D_SHELL_SKIP ? NULL : p4d_shell__lookup(sh, name);
	p4d_shell_var *v =
	    known || (mode == P4D_SHELL_RUN && sh->in.unread.reason) ? p4d_shell__own(sh, name) : NULL;

	if (!v)
		return;
	v->since = sh->unreads;
	if (mode == P4D_SHELL_MAYBE && (v->array || subscript.length)) {
		lose(sh, v,
		     p4d_value_unknown(perhaps(sh, name, (p4d_value){0}, (p4d_value){0}, false, line)));
	} else if (mode == P4D_SHELL_MAYBE) {
		p4d_shell__assign(sh, mode, name, (p4d_value){0}, false, line);
	} else if (subscript.length) {
		unset_element(sh, v, subscript, line);
	} else {
		v->value = (p4d_shell_words){0};
		v->set = false;
		v->array = true; /* the variable of the environment is gone as well */
	}
}
