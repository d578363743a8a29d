/* SPDX-License-Identifier: Apache-2.0 */
/* Simple commands: assignments, redirections, built-in commands. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "shell/shell_internal.h"

/* A copy of the lines of a here-document without the tabs at their beginnings, as after <<-. */
static p4d_shell_source without_tabs(p4d_shell *sh, p4d_shell_source body)
{
	const size_t length = body.length - body.at;
	char *const text = p4d_shell__take(sh, length + 1);
	p4d_cell *const origin = body.origin ? p4d_shell__take(sh, (length + 1) * sizeof(*origin)) : NULL;
	p4d_shell_source copy = body;
	bool begins = true;

	if (!text || (body.origin && !origin) || !p4d_shell__work(sh, length))
		return body;
	copy.at = copy.length = 0;
	for (size_t i = body.at; i < body.length; i++) {
		if (begins && body.text[i] == '\t')
			continue;
		begins = body.text[i] == '\n';
		if (origin)
			origin[copy.length] = body.origin[i];
		text[copy.length++] = body.text[i];
	}
	copy.text = text;
	copy.origin = origin;
	return copy;
}

/*
 * Reads the here-document that begins after this line or, if there are several, after the previous
 * here-document.
 */
static void here_document(p4d_shell *sh, p4d_shell_source *s, p4d_shell_redirection *r, bool strips,
			  bool live)
{
	p4d_shell_build word = {0};

	p4d_shell__blanks(sh, s);
	const bool literal = memchr("'\"\\", p4d_shell__peek(s, 0), 3) != NULL;
	p4d_shell__word(sh, s, &word);
	p4d_value end = p4d_shell__joined(sh, &word);
	size_t line_end = s->at, from;
	if (s->body_end) {
		from = s->body_end;
		line_end = s->body_at;
	} else {
		while (line_end < s->length && s->text[line_end] != '\n')
			line_end++;
		from = line_end < s->length ? line_end + 1 : s->length;
	}
	if (!p4d_shell__work(sh, from - s->at))
		return;
	p4d_shell_source body = *s;
	uint32_t count = s->body_end ? s->body_lines : 0;
	body.at = from;
	body.line = s->line + 1 + count;
	body.body_end = 0;
	size_t at = from, stop = s->length;
	while (at < s->length) {
		const size_t line = at;
		size_t start = at, length;
		while (at < s->length && s->text[at] != '\n')
			at++;
		length = at - start;
		if (!p4d_shell__work(sh, length + 1))
			return;
		at += at < s->length;
		count++;
		while (strips && length && s->text[start] == '\t')
			start++, length--;
		if (length && s->text[start + length - 1] == '\r')
			length--;
		bool same = length == end.length;
		for (size_t i = 0; same && i < length; i++)
			same = s->text[start + i] == end.at[i].c;
		if (same) {
			stop = line;
			break;
		}
	}
	s->body_at = line_end;
	s->body_end = at;
	s->body_lines = count;
	if (!live)
		return;
	p4d_shell_build text = {0};
	body.length = stop;
	body = strips ? without_tabs(sh, body) : body;
	if (literal)
		for (; body.at < body.length && !sh->stopped; p4d_shell__advance(sh, &body))
			p4d_shell__add(sh, &text, p4d_shell__cell(&body, false));
	else
		p4d_shell__quoted_until(sh, &body, &text, '\0', false);
	r->input = (p4d_value){text.at, text.length};
	r->has_input = true;
}

/* Parses a redirection, if one begins here. */
static bool redirect(p4d_shell *sh, p4d_shell_source *s, p4d_shell_redirection *r, bool live)
{
	p4d_shell_source look = *s;

	while (isdigit((unsigned char)p4d_shell__peek(&look, 0)))
		look.at++;
	if (p4d_shell__peek(&look, 0) == '&' && p4d_shell__peek(&look, 1) == '>')
		look.at++;
	char c = p4d_shell__peek(&look, 0), next = p4d_shell__peek(&look, 1);
	if ((c != '<' && c != '>') || next == '(')
		return false;
	const bool first = look.at == s->at || s->text[s->at] == '1' || s->text[s->at] == '&',
		   first_input = look.at == s->at || s->text[s->at] == '0';
	*s = look;
	p4d_shell__advance(sh, s);
	if (c == '<' && next == '<' && p4d_shell__peek(s, 1) != '<') {
		p4d_shell__advance(sh, s);
		bool strips = p4d_shell__peek(s, 0) == '-';
		if (strips)
			p4d_shell__advance(sh, s);
		here_document(sh, s, r, strips, live);
		return true;
	}
	const bool here_string = c == '<' && next == '<', duplicate = next == '&',
		   appends = c == '>' && next == '>', input = c == '<' && !here_string && first_input;
	while (p4d_shell__peek(s, 0) && strchr("<>&|", p4d_shell__peek(s, 0)))
		p4d_shell__advance(sh, s);
	p4d_shell__blanks(sh, s);
	p4d_shell_build word = {0};
	p4d_shell__word(sh, s, live ? &word : NULL);
	if (!live)
		return true;
	if (duplicate) {
		p4d_value to = p4d_shell__joined(sh, &word);
		r->dropped = r->dropped || (c == '>' && first && p4d_value_is(to, "2"));
	} else if (c == '>' && first) {
		r->output = p4d_shell__joined(sh, &word);
		r->has_output = true;
		r->appends = appends;
	} else if (here_string) {
		p4d_shell__add(sh, &word, (p4d_cell){.c = '\n'});
		r->input = p4d_shell__joined(sh, &word);
		r->has_input = true;
	} else if (input) {
		r->input_path = p4d_shell__joined(sh, &word);
		r->has_input_path = true;
	}
	return true;
}

bool p4d_shell__redirected_input(p4d_shell *sh, p4d_shell_source *s, p4d_value *text)
{
	p4d_shell_redirection r = {0};

	do
		p4d_shell__blanks(sh, s);
	while (redirect(sh, s, &r, true));
	return (r.has_input || r.has_input_path) && p4d_shell__input(sh, &r, text);
}

void p4d_shell__redirections(p4d_shell *sh, p4d_shell_source *s, uint32_t from, p4d_shell_mode mode)
{
	p4d_shell_redirection r = {0};

	do
		p4d_shell__blanks(sh, s);
	while (redirect(sh, s, &r, mode != P4D_SHELL_SKIP));
	p4d_shell__redirected(sh, &r, from, mode);
}

/* Returns the text in the brackets that begin here, and moves past them. */
static p4d_shell_source bracketed(p4d_shell *sh, p4d_shell_source *s)
{
	p4d_shell__advance(sh, s);
	p4d_shell_source inside = *s;
	p4d_shell__skip_nested(sh, s, '[', ']');
	inside.length = s->at > inside.at ? s->at - 1 : s->at;
	inside.body_end = 0;
	return inside;
}

bool p4d_shell__assignment(p4d_shell *sh, p4d_shell_source *s, p4d_shell_assignment *a)
{
	p4d_shell_source look = *s;
	size_t n = p4d_shell__name_length(s, 0);

	if (!n)
		return false;
	*a = (p4d_shell_assignment){.name = {s->text + s->at, n}};
	look.at += n;
	if (p4d_shell__peek(&look, 0) == '[') {
		a->subscript = bracketed(sh, &look);
		a->element = true;
	}
	if (p4d_shell__peek(&look, 0) == '+') {
		look.at++;
		a->append = true;
	}
	if (!p4d_shell__work(sh, look.at - s->at) || p4d_shell__peek(&look, 0) != '=')
		return false;
	look.at++;
	*s = look;
	return true;
}

/* Assigns (a b) or ([k]=a [l]=b) to an array; *s is after the opening bracket. */
static void assign_words(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode,
			 const p4d_shell_assignment *a, uint32_t line)
{
	const bool live = mode != P4D_SHELL_SKIP;
	p4d_shell_words words = {0};
	bool keyed = false;

	for (;;) {
		p4d_shell_build word = {.braces = true};
		p4d_shell__blanks(sh, s);
		const char c = p4d_shell__peek(s, 0);
		if (s->at >= s->length || c == ')' || sh->stopped)
			break;
		p4d_shell_source look = *s, subscript = *s;
		if (c == '[')
			subscript = bracketed(sh, &look);
		if (c == '[' && p4d_shell__peek(&look, 0) == '=') {
			*s = look;
			p4d_shell__advance(sh, s);
			p4d_shell__word(sh, s, live ? &word : NULL);
			if (!keyed) /* without keys, the assignment first empties the array */
				p4d_shell__assign_array(sh, mode, a->name, (p4d_shell_words){0}, a->append,
							line);
			keyed = true;
			if (live)
				p4d_shell__assign_element(sh, mode, a->name,
							  p4d_shell__subscript(sh, subscript),
							  p4d_shell__joined(sh, &word), false, line);
			continue;
		}
		if (p4d_shell__ends_word(c)) {
			p4d_shell__advance(sh, s);
			continue;
		}
		p4d_shell__word(sh, s, live ? &word : NULL);
		p4d_shell__split(sh, &word, &words);
	}
	p4d_shell__expand_names(sh, &words, 0, P4D_SHELL_NAMES_OF_ARRAY);
	p4d_shell__advance(sh, s);
	if (!keyed)
		p4d_shell__assign_array(sh, mode, a->name, words, a->append, line);
}

/* Reads the value of an assignment, after its name, and assigns it. */
static void assign(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode, const p4d_shell_assignment *a)
{
	const uint32_t line = s->line;
	const bool live = mode != P4D_SHELL_SKIP;
	p4d_shell_build word = {0};

	if (p4d_shell__peek(s, 0) == '(') {
		p4d_shell__advance(sh, s);
		assign_words(sh, s, mode, a, line);
		return;
	}
	p4d_shell__word(sh, s, live ? &word : NULL);
	if (!live)
		return;
	p4d_value value = p4d_shell__joined(sh, &word);
	if (a->element)
		p4d_shell__assign_element(sh, mode, a->name, p4d_shell__subscript(sh, a->subscript), value,
					  a->append, line);
	else
		p4d_shell__assign(sh, mode, a->name, value, a->append, line);
}

static bool call_function(const p4d_shell_call *w, p4d_value name)
{
	p4d_shell *sh = w->sh;
	const p4d_shell_name wanted = p4d_shell__name_of(sh, name);

	for (p4d_shell_function *f = sh->in.function; f && p4d_shell__work(sh, 4); f = f->next) {
		if (f->name.length != wanted.length || memcmp(f->name.text, wanted.text, wanted.length))
			continue;
		const p4d_shell_words before = sh->in.parameters;
		p4d_shell_local *locals = sh->in.local;
		p4d_shell_source body = f->body;
		const p4d_shell_frame frame = {sh->in.frame, name, f->source};
		sh->in.frame = &frame;
		sh->in.parameters = (p4d_shell_words){0};
		p4d_shell__add_word(sh, &sh->in.parameters, before.count ? before.at[0] : name);
		for (size_t i = 0; i < w->count; i++)
			p4d_shell__add_word(sh, &sh->in.parameters, w->at[i]);
		if (++sh->depth > P4D_SHELL_DEPTH)
			p4d_shell__stop(sh, "the functions of the script call each other too often to read");
		const char bracket = p4d_shell__peek(&body, 0);
		p4d_shell_scope scope;
		if (bracket == '{' || bracket == '(')
			p4d_shell__advance(sh, &body);
		if (bracket == '(')
			p4d_shell__enter(sh, &scope, false);
		sh->in_function++;
		p4d_shell__run(sh, &body, w->mode);
		sh->in_function--;
		if (bracket == '(')
			p4d_shell__leave(sh, &scope);
		sh->depth--;
		for (; sh->in.local != locals; sh->in.local = sh->in.local->next) {
			p4d_shell_var *next = sh->in.local->variable->next;
			*sh->in.local->variable = sh->in.local->before;
			sh->in.local->variable->next = next;
		}
		sh->in.parameters = before;
		sh->in.frame = frame.outer;
		sh->in.returned = false;
		return true;
	}
	return false;
}

/*
 * Number of words before the command that only exclude functions, such as `command` and `builtin`. 0 for
 * `command -v`, which runs nothing.
 */
static size_t before_command(const p4d_shell_words *all)
{
	size_t first = 0;

	while (first + 1 < all->count && all->at[first + 1].length && all->at[first + 1].at[0].c != '-' &&
	       (p4d_value_is(all->at[first], "builtin") || p4d_value_is(all->at[first], "command")))
		first++;
	return first;
}

p4d_shell_status p4d_shell__execute(p4d_shell *sh, const p4d_shell_source *s, p4d_shell_mode mode,
				    const p4d_shell_words *all, const p4d_shell_redirection *r)
{
	const size_t first = before_command(all);
	p4d_shell_call w = {sh, all->at + first + 1, all->count - first - 1, mode, r, s};

	if (!first && !p4d_value_unknown(all->at[0]) && call_function(&w, all->at[0]))
		return P4D_SHELL_TAKEN;
	const p4d_shell_builtin *b = p4d_shell__builtin(all->at[first]);
	if (b)
		return b->run(&w);
	/* work units for finding out that the host does not need a command */
	if (sh->host->command && p4d_shell__work(sh, 48)) {
		const p4d_shell_redirection *before = sh->redirection;
		sh->redirection = r;
		sh->commands++;
		sh->host->command(sh->host->context, sh, all->at + first, all->count - first,
				  mode == P4D_SHELL_RUN && !sh->perhaps);
		sh->redirection = before;
	}
	p4d_shell__lose_names(sh, all->at[first]);
	p4d_shell__environment(sh, all->at[first]);
	p4d_shell__edit(&w, all->at[first]);
	return p4d_shell__print_python(&w, all->at[first]) ? P4D_SHELL_TAKEN : p4d_shell__print_unknown(&w);
}

/* Maximum number of variables assigned for one command, which get their old values back afterwards. */
enum { PREFIXES = 16 };
typedef struct prefix {
	p4d_shell_var *variable;
	p4d_shell_var before;
} prefix;

p4d_shell_status p4d_shell__simple(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	const bool live = mode != P4D_SHELL_SKIP;
	p4d_shell_words all = {0};
	p4d_shell_redirection r = {0};
	prefix before[PREFIXES];
	int prefixes = 0;
	bool named = false, declares = false;

	sh->mode = mode;
	p4d_shell__work(sh, 8); /* work units of any command, however short */
	for (p4d_shell__blanks(sh, s); s->at < s->length && !sh->stopped; p4d_shell__blanks(sh, s)) {
		p4d_shell_assignment a;
		p4d_shell_build word = {.braces = true};
		if (redirect(sh, s, &r, live))
			continue;
		if ((!named || declares) && p4d_shell__assignment(sh, s, &a)) {
			p4d_shell_var *v =
			    live && !named && prefixes < PREFIXES ? p4d_shell__own(sh, a.name) : NULL;
			if (v)
				before[prefixes++] = (prefix){v, *v};
			if (declares && live)
				p4d_shell__declare(sh, all.at, all.count, a.name);
			assign(sh, s, mode, &a);
			continue;
		}
		const char c = p4d_shell__peek(s, 0);
		if (p4d_shell__ends_word(c) && !((c == '<' || c == '>') && p4d_shell__peek(s, 1) == '('))
			break;
		const uint32_t count = all.count;
		p4d_shell__word(sh, s, live ? &word : NULL);
		named = true;
		p4d_shell__split(sh, &word, &all);
		if (live && !count && all.count) {
			const p4d_shell_builtin *b = p4d_shell__builtin(all.at[0]);
			declares = b && b->declares;
		}
	}
	const uint32_t from = sh->out ? sh->out->length : 0;
	if (live && !sh->stopped && !all.count && r.has_input_path &&
	    !prefixes) { /* $(<FILE): the output is the content of a file */
		p4d_value text;
		if (p4d_shell__input(sh, &r, &text) && sh->out)
			p4d_shell__add_value(sh, sh->out, text, false);
		else if (sh->out)
			p4d_shell__add_value(
			    sh, sh->out, p4d_shell__not_known(sh, p4d_shell__reason(sh, "a file")), false);
	}
	if (!live || sh->stopped || !all.count)
		return P4D_SHELL_TAKEN;
	p4d_shell__expand_names(sh, &all, 1, P4D_SHELL_NAMES_OF_COMMAND);
	for (int i = 0; i < prefixes; i++)
		before[i].variable->exported = true;
	sh->mode = mode;
	p4d_shell_status status = p4d_shell__execute(sh, s, mode, &all, &r);
	p4d_shell__redirected(sh, &r, from, mode);
	while (prefixes--) {
		p4d_shell_var *next = before[prefixes].variable->next;
		*before[prefixes].variable = before[prefixes].before;
		before[prefixes].variable->next = next;
	}
	return status;
}

const char *p4d_shell_read(const p4d_shell_host *host, const p4d_shell_limits *limits, const char *name,
			   const char *text, size_t length, const char *const *arguments,
			   const char *directory)
{
	p4d_shell *sh = limits->memory;

	if (limits->size < sizeof(*sh))
		return "the script takes too much memory to read";
	*sh = (p4d_shell){.host = host,
			  .memory = (char *)limits->memory,
			  .size = limits->size,
			  .used = (sizeof(*sh) + 7) & ~(size_t)7,
			  .work = limits->work,
			  .files = 1,
			  .file = {name}};
	const p4d_shell_frame script = {.source = p4d_shell__value_of(sh, name, (p4d_cell){0})};
	sh->in.frame = &script;
	p4d_shell__add_word(sh, &sh->in.parameters, script.source);
	for (int i = 1; arguments && *arguments; arguments++, i++) {
		p4d_cell where = {.file = p4d_shell__place(sh, "$%d", i) & 127u};
		p4d_shell__add_word(sh, &sh->in.parameters, p4d_shell__value_of(sh, *arguments, where));
	}
	if (directory) {
		const p4d_shell_name here = {"PWD", 3};
		p4d_shell__assign(sh, P4D_SHELL_RUN, here, p4d_shell__value_of(sh, directory, (p4d_cell){0}),
				  false, 0);
		p4d_shell_var *v = p4d_shell__own(sh, here);
		if (v)
			v->exported =
			    true; /* bash exports the variable even if its value is from elsewhere */
	}
	p4d_shell__all(sh, (p4d_shell_source){.text = text, .length = length, .line = 1}, P4D_SHELL_RUN);
	if (sh->in.exited && host->left)
		host->left(host->context, sh, sh->exit);
	return sh->stopped;
}

uint32_t p4d_shell_commands(const p4d_shell *sh)
{
	return sh->commands;
}

uint64_t p4d_shell_work_left(const p4d_shell_limits *limits)
{
	const p4d_shell *sh = limits->memory;

	return limits->size < sizeof(*sh) ? limits->work : sh->work;
}
