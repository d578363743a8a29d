/* SPDX-License-Identifier: Apache-2.0 */
/* Commands built into the shell, as far as they affect later commands. */
#include <stdio.h>
#include <string.h>

#include "shell/shell_internal.h"

/* Whether the words of declare or a similar command have this option letter. */
static bool has_flag(const p4d_value *words, size_t count, char letter)
{
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 1; j < words[i].length && words[i].at[0].c == '-'; j++)
			if (words[i].at[j].c == letter && !words[i].at[j].unknown)
				return true;
	return false;
}

void p4d_shell__declare(p4d_shell *sh, const p4d_value *words, size_t count, p4d_shell_name name)
{
	const bool exports = p4d_value_is(words[0], "export") || has_flag(words, count, 'x');
	const bool local = (p4d_value_is(words[0], "local") || p4d_value_is(words[0], "declare") ||
			    p4d_value_is(words[0], "typeset")) &&
			   !has_flag(words, count, 'g');

	if (exports) /* the environment may already have the variable */
		p4d_shell__lookup(sh, name);
	p4d_shell_var *v = p4d_shell__own(sh, name);
	if (!v)
		return;
	p4d_shell_local *l = local && sh->in_function ? p4d_shell__take(sh, sizeof(*l)) : NULL;
	if (l) {
		*l = (p4d_shell_local){sh->in.local, v, *v};
		sh->in.local = l;
	}
	v->exported = v->exported || exports;
	v->assigned = v->assigned || exports;
	v->integer = v->integer || has_flag(words, count, 'i');
	if (has_flag(words, count, 'n')) {
		v->reference = sh->references = true;
		v->target = (p4d_shell_name){0};
	} else if (local) {
		v->reference = false;
	}
	if (has_flag(words, count, 'A') && !v->map) {
		v->value = v->key = (p4d_shell_words){0};
		v->map = v->array = v->set = true;
	}
}

/* Notes that any variable may be set, if the first word of export $(...) or eval "$(...)" is unknown. */
static void say_unknown_names(const p4d_shell_call *w, p4d_value word)
{
	const char c = word.length && word.at[0].unknown ? word.at[0].c : '\0';
	size_t texts;

	if (c && p4d_shell_may_be(w->sh, word.at[0].unknown, &texts))
		return; /* the value is one of several known texts in the script */
	if (c != '?' && (c != P4D_CELL_UNSET_HERE || !w->sh->in.unread.reason))
		return;
	const char *what = p4d_shell_unknown(w->sh, word.at[0].unknown);
	char name[32], command[64];
	if (*what == '$') { /* "$key depends on a test" names no input, so the command is named */
		snprintf(command, sizeof(command), "the %s of line %u",
			 p4d_value_text(w->at[-1], name, sizeof(name)), (unsigned)w->at[-1].at[0].line);
		what = command;
	}
	p4d_shell__unread(w->sh, what);
}

static p4d_shell_status run_export(const p4d_shell_call *w)
{
	for (size_t i = 0; i < w->count; i++) {
		p4d_shell_assignment a;
		p4d_shell_source s = p4d_shell__source_of(w->sh, w->at[i], w->source);
		const uint32_t line = w->at[i].length ? w->at[i].at[0].line : 0;
		if (!p4d_shell__assignment(w->sh, &s, &a)) { /* the word is a name without a value */
			p4d_shell_name name = p4d_shell__name_of(w->sh, w->at[i]);
			if (name.length && name.text[0] != '-')
				p4d_shell__declare(w->sh, w->at - 1, w->count + 1, name);
			say_unknown_names(w, w->at[i]);
			continue;
		}
		p4d_value value = p4d_shell__part(w->at[i], (uint32_t)s.at, w->at[i].length - (uint32_t)s.at);
		a.name = p4d_shell__name(w->sh, a.name.text, a.name.length);
		p4d_shell__declare(w->sh, w->at - 1, w->count + 1, a.name);
		p4d_shell__assign(w->sh, w->mode, a.name, value, a.append, line);
	}
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_unset(const p4d_shell_call *w)
{
	for (size_t i = 0; i < w->count && !p4d_value_is(w->at[i], "-f"); i++) {
		p4d_value name = w->at[i], subscript = {0};
		uint32_t end = 0;
		while (end < name.length && (name.at[end].unknown || name.at[end].c != '['))
			end++;
		if (end + 2 < name.length &&
		    name.at[name.length - 1].c == ']') { /* the name has a subscript: NAME[1], NAME[@] */
			subscript = p4d_shell__part(name, end + 1, name.length - end - 2);
			name.length = end;
			if (p4d_value_is(subscript, "@") || p4d_value_is(subscript, "*"))
				subscript.length = 0;
		}
		if (name.length && name.at[0].c != '-')
			p4d_shell__unset(w->sh, w->mode, p4d_shell__name_of(w->sh, name), subscript,
					 name.at[0].line);
	}
	return P4D_SHELL_TAKEN;
}

static bool is_sign(p4d_value word)
{
	return word.length && !word.at[0].unknown && (word.at[0].c == '-' || word.at[0].c == '+');
}

/* An option of set or shopt. letter: its short name for set; 0: it is an option of shopt. */
static const struct shell_option {
	const char *name;
	char letter;
	unsigned bit;
} shell_options[] = {
    {"allexport", 'a', P4D_SHELL_ALLEXPORT},   {"noglob", 'f', P4D_SHELL_NOGLOB},
    {"nocasematch", 0, P4D_SHELL_NOCASEMATCH}, {"nullglob", 0, P4D_SHELL_NULLGLOB},
    {"failglob", 0, P4D_SHELL_FAILGLOB},       {"dotglob", 0, P4D_SHELL_DOTGLOB},
    {"nocaseglob", 0, P4D_SHELL_NOCASEGLOB},   {"globstar", 0, P4D_SHELL_GLOBSTAR},
};
enum { SHELL_OPTIONS = sizeof(shell_options) / sizeof(shell_options[0]) };

static void switch_option(const p4d_shell_call *w, const struct shell_option *option, bool on)
{
	unsigned *options = &w->sh->in.options;

	if (w->mode == P4D_SHELL_RUN)
		*options = on ? *options | option->bit : *options & ~option->bit;
}

/*
 * Reads a word of options of `set`, such as -eux. Each o in it takes the next word that is no option. Returns
 * the number of words.
 */
static size_t set_options(const p4d_shell_call *w, size_t at)
{
	const p4d_value word = w->at[at];
	size_t words = 1;

	for (uint32_t i = 1; i < word.length; i++) {
		const bool named = !word.at[i].unknown && word.at[i].c == 'o' && at + words < w->count &&
				   w->at[at + words].length && !is_sign(w->at[at + words]);
		for (size_t j = 0; j < SHELL_OPTIONS && shell_options[j].letter; j++)
			if ((named && p4d_value_is(w->at[at + words], shell_options[j].name)) ||
			    (!word.at[i].unknown && word.at[i].c == shell_options[j].letter))
				switch_option(w, &shell_options[j], word.at[0].c == '-');
		words += named;
	}
	return words;
}

static p4d_shell_status run_set(const p4d_shell_call *w)
{
	size_t i = 0;

	while (i < w->count && is_sign(w->at[i]) && !p4d_value_is(w->at[i], "--") &&
	       !p4d_value_is(w->at[i], "-"))
		i += set_options(w, i);
	if (i >= w->count || w->mode != P4D_SHELL_RUN)
		return P4D_SHELL_TAKEN;
	i -= !p4d_value_is(w->at[i], "--");
	p4d_shell_words parameters = {0};
	p4d_shell__add_word(w->sh, &parameters,
			    w->sh->in.parameters.count ? w->sh->in.parameters.at[0] : (p4d_value){0});
	while (++i < w->count)
		p4d_shell__add_word(w->sh, &parameters, w->at[i]);
	w->sh->in.parameters = parameters;
	return P4D_SHELL_TAKEN;
}

/*
 * Called if p4d does not know by how many parameters to shift, or whether `shift` runs. $1 and the following
 * parameters then become unknown.
 */
static p4d_shell_status shift_perhaps(const p4d_shell_call *w, uint16_t why)
{
	p4d_shell_words *p = &w->sh->in.parameters, unknown = {0};

	p4d_shell__add_word(w->sh, &unknown, p->at[0]);
	for (uint32_t i = 1; i < p->count; i++)
		p4d_shell__add_word(w->sh, &unknown, p4d_shell__not_known(w->sh, why));
	*p = unknown;
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_shift(const p4d_shell_call *w)
{
	int64_t by = 1;
	uint16_t unknown;
	p4d_shell_words *p = &w->sh->in.parameters;

	if (w->mode == P4D_SHELL_SKIP)
		return P4D_SHELL_TAKEN;
	if (w->count && !p4d_shell__number(w->sh, w->at[0], &by, &unknown))
		return shift_perhaps(w, unknown);
	if (w->mode == P4D_SHELL_MAYBE)
		return shift_perhaps(w, p4d_shell__reason(w->sh, "a shift that depends on a condition"));
	if (by < 0 || by >= (int64_t)p->count)
		return P4D_SHELL_FALSE;
	p4d_shell_words rest = {0};
	p4d_shell__add_word(w->sh, &rest, p->at[0]);
	for (uint32_t i = 1 + (uint32_t)by; i < p->count; i++)
		p4d_shell__add_word(w->sh, &rest, p->at[i]);
	*p = rest;
	return P4D_SHELL_TRUE;
}

static p4d_shell_status run_dot(const p4d_shell_call *w)
{
	char path[256];

	if (!w->count || p4d_shell__run_file(w->sh, w->at, w->count, w->mode, false))
		return P4D_SHELL_TAKEN;
	p4d_value_text(w->at[0], path, sizeof(path));
	if (path[0] == '?' && !path[1]) /* nothing of the path is known */
		snprintf(path, sizeof(path), "the file that line %u sources", (unsigned)w->at[-1].at[0].line);
	p4d_shell__unread(w->sh, path);
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_eval(const p4d_shell_call *w)
{
	p4d_shell_build text = {0};

	for (size_t i = 0; i < w->count; i++) {
		if (i)
			p4d_shell__add(w->sh, &text, (p4d_cell){.c = ' '});
		p4d_shell__add_value(w->sh, &text, w->at[i], false);
	}
	say_unknown_names(w, (p4d_value){text.at, text.length});
	p4d_shell__all(w->sh, p4d_shell__source_of(w->sh, (p4d_value){text.at, text.length}, w->source),
		       w->mode);
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_exit(const p4d_shell_call *w)
{
	if (!w->sh->in.exited && w->mode == P4D_SHELL_RUN)
		w->sh->exit = w->at[-1];
	w->sh->in.exited = w->sh->in.exited || w->mode == P4D_SHELL_RUN;
	return P4D_SHELL_TAKEN;
}

/*
 * Runs `return`, from a function or a sourced file. Elsewhere it fails; scripts use that to find out whether
 * they are sourced.
 */
static p4d_shell_status run_return(const p4d_shell_call *w)
{
	if (!w->sh->in.frame->outer)
		return P4D_SHELL_FALSE;
	w->sh->in.returned = w->sh->in.returned || w->mode == P4D_SHELL_RUN;
	return w->count && p4d_value_is(w->at[0], "0") ? P4D_SHELL_TRUE : P4D_SHELL_TAKEN;
}

/* break and continue, with the number of loops that end. */
static p4d_shell_status leave_loops(const p4d_shell_call *w, bool continues)
{
	enum { MOST = 64 };
	int64_t loops = 1;
	uint16_t unknown;

	if (w->mode != P4D_SHELL_RUN)
		return P4D_SHELL_TAKEN;
	if (w->count && (!p4d_shell__number(w->sh, w->at[0], &loops, &unknown) || loops < 1 || loops > MOST))
		loops = 1;
	w->sh->in.left_loop = true;
	w->sh->in.broke_loop = !continues || loops > 1;
	w->sh->in.continues = continues;
	w->sh->in.outer = (uint32_t)loops - 1;
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_continue(const p4d_shell_call *w)
{
	return leave_loops(w, true);
}

static p4d_shell_status run_break(const p4d_shell_call *w)
{
	return leave_loops(w, false);
}

static p4d_shell_status run_test(const p4d_shell_call *w)
{
	size_t count = w->count;

	if (count && p4d_value_is(w->at[count - 1], "]"))
		count--;
	return p4d_shell__test(w->sh, w->at, count, false);
}

static p4d_shell_status run_true(const p4d_shell_call *w)
{
	(void)w;
	return P4D_SHELL_TRUE;
}

static p4d_shell_status run_false(const p4d_shell_call *w)
{
	(void)w;
	return P4D_SHELL_FALSE;
}

static const p4d_shell_name here = {"PWD", 3}, before = {"OLDPWD", 6}, stack = {"DIRSTACK", 8};

/*
 * Changes to a directory. In a branch that may not run, the directory becomes unknown only after the branch
 * (leave_branch in shell_run.c).
 */
static void enter(const p4d_shell_call *w, p4d_value directory)
{
	const p4d_shell_mode mode = w->mode == P4D_SHELL_MAYBE && w->sh->branches ? P4D_SHELL_RUN : w->mode;
	p4d_value left = {0};

	p4d_shell_variable(w->sh, here.text, &left);
	p4d_shell__assign(w->sh, mode, before, left, false, 0);
	p4d_shell__assign(w->sh, mode, here, directory, false, 0);
}

static p4d_shell_status run_cd(const p4d_shell_call *w)
{
	const char *path = w->count ? p4d_shell__absolute(w->sh, w->at[w->count - 1]) : "";
	p4d_value directory;

	if (w->count && p4d_value_is(w->at[w->count - 1], "-") &&
	    p4d_shell_variable(w->sh, before.text, &directory))
		enter(w, directory);
	else if (!w->count && p4d_shell_variable(w->sh, "HOME", &directory))
		enter(w, directory);
	else if (*path)
		enter(w, p4d_shell__value_of(w->sh, path, (p4d_cell){0}));
	else
		enter(w, p4d_shell__not_known(w->sh, p4d_shell__reason(w->sh, "the directory after cd")));
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_pushd(const p4d_shell_call *w)
{
	p4d_value left;
	p4d_shell_words more = {0};

	if (p4d_shell_variable(w->sh, here.text, &left))
		p4d_shell__add_word(w->sh, &more, left);
	p4d_shell__assign_array(w->sh, P4D_SHELL_RUN, stack, more, true, 0);
	return run_cd(w);
}

static p4d_shell_status run_popd(const p4d_shell_call *w)
{
	p4d_shell_var *v = p4d_shell__lookup(w->sh, stack) ? p4d_shell__own(w->sh, stack) : NULL;

	if (!v || !v->value.count) /* without a value bash prints an error and stays in its directory */
		return P4D_SHELL_FALSE;
	enter(w, v->value.at[--v->value.count]);
	return P4D_SHELL_TAKEN;
}

/* shopt -s and -u, for the options that change what p4d reads. */
static p4d_shell_status run_shopt(const p4d_shell_call *w)
{
	const bool sets = w->count && p4d_value_is(w->at[0], "-s");

	if (!sets && !(w->count && p4d_value_is(w->at[0], "-u")))
		return P4D_SHELL_OPEN; /* tells whether an option is set */
	for (size_t i = 1; i < w->count; i++)
		for (size_t j = 0; j < SHELL_OPTIONS; j++)
			if (!shell_options[j].letter && p4d_value_is(w->at[i], shell_options[j].name))
				switch_option(w, &shell_options[j], sets);
	return P4D_SHELL_TAKEN;
}

static const p4d_shell_builtin builtins[] = {
    {".", run_dot, false},         {":", run_true, false},        {"[", run_test, false},
    {"break", run_break, false},   {"cd", run_cd, false},         {"continue", run_continue, false},
    {"declare", run_export, true}, {"eval", run_eval, false},     {"exit", run_exit, false},
    {"export", run_export, true},  {"false", run_false, false},   {"local", run_export, true},
    {"popd", run_popd, false},     {"pushd", run_pushd, false},   {"readonly", run_export, true},
    {"return", run_return, false}, {"set", run_set, false},       {"shift", run_shift, false},
    {"shopt", run_shopt, false},   {"source", run_dot, false},    {"test", run_test, false},
    {"true", run_true, false},     {"typeset", run_export, true}, {"unset", run_unset, false},
    {NULL, NULL, false},
};

const p4d_shell_builtin *p4d_shell__builtin(p4d_value name)
{
	const p4d_shell_builtin *const tables[] = {builtins, p4d_shell__printers, p4d_shell__filters,
						   p4d_shell__searches, p4d_shell__readers};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const p4d_shell_builtin *b = tables[i]; b->name; b++)
			if (p4d_value_is(name, b->name))
				return b;
	return NULL;
}
