/* SPDX-License-Identifier: Apache-2.0 */
/* Runs lists of commands and compound commands. */
#include <stdio.h>
#include <string.h>

#include "shell/shell_internal.h"

bool p4d_shell__at_end(const p4d_shell *sh, const p4d_shell_source *s)
{
	return s->at >= s->length || sh->stopped;
}

p4d_shell_mode p4d_shell__branch(p4d_shell_mode mode, p4d_shell_status status, bool wanted)
{
	if (mode == P4D_SHELL_SKIP || status == (wanted ? P4D_SHELL_FALSE : P4D_SHELL_TRUE))
		return P4D_SHELL_SKIP;
	return status == P4D_SHELL_OPEN || status == P4D_SHELL_TAKEN ? P4D_SHELL_MAYBE : mode;
}

/* Whether a reserved word is here; moves past it if so. */
static bool looking_at(const p4d_shell_source *s, const char *word)
{
	if (p4d_shell__peek(s, 0) != *word)
		return false; /* fast exit: most words are not reserved */
	const size_t length = strlen(word);
	return s->at <= s->length && s->length - s->at >= length && !memcmp(s->text + s->at, word, length) &&
	       (p4d_shell__ends_word(p4d_shell__peek(s, length)) || word[0] == '(' || word[0] == ';');
}

bool p4d_shell__take_word(p4d_shell *sh, p4d_shell_source *s, const char *word)
{
	if (!looking_at(s, word))
		return false;
	for (size_t i = strlen(word); i; i--)
		p4d_shell__advance(sh, s);
	return true;
}

/* Skips blanks, comments and empty lines. */
void p4d_shell__lines(p4d_shell *sh, p4d_shell_source *s)
{
	for (p4d_shell__blanks(sh, s); p4d_shell__peek(s, 0) == '\n'; p4d_shell__blanks(sh, s))
		p4d_shell__advance(sh, s);
}

static bool list_ends(const p4d_shell_source *s)
{
	static const char *const ends[] = {"fi",   "done", "then", "else", "elif", "do",
					   "esac", "}",    ")",    ";;",   ";&"};
	const char c = p4d_shell__peek(s, 0);

	if (!c || !strchr("fdte});", c))
		return false; /* fast exit: most commands begin with another letter */
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (looking_at(s, ends[i]))
			return true;
	return c == ')' || (c == ';' && p4d_shell__peek(s, 1) && strchr(";&", p4d_shell__peek(s, 1)));
}

static p4d_shell_status if_command(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_mode left = mode; /* how the following branches are read */

	for (;;) {
		p4d_shell_status status = p4d_shell__run(sh, s, left);
		p4d_shell__take_word(sh, s, "then");
		p4d_shell__run(sh, s, p4d_shell__branch(left, status, true));
		left = p4d_shell__branch(left, status, false);
		if (!p4d_shell__take_word(sh, s, "elif"))
			break;
	}
	if (p4d_shell__take_word(sh, s, "else"))
		p4d_shell__run(sh, s, left);
	p4d_shell__take_word(sh, s, "fi");
	return P4D_SHELL_TAKEN;
}

/* Reads a pattern of case, with groups of bash's extglob such as +([0-9]). */
static void case_pattern(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b)
{
	p4d_shell__word(sh, s, b);
	while (!sh->stopped && s->at && p4d_shell__peek(s, 0) == '(' &&
	       memchr("?*+@!", s->text[s->at - 1], 5)) {
		int depth = 0;
		do {
			const char c = p4d_shell__peek(s, 0);
			depth += c == '(' ? 1 : c == ')' ? -1 : 0;
			if (b)
				p4d_shell__add(sh, b, p4d_shell__cell(s, false));
			p4d_shell__advance(sh, s);
		} while (depth && p4d_shell__peek(s, 0) && !sh->stopped);
		p4d_shell__word(sh, s, b);
	}
}

static p4d_shell_status case_command(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_build subject = {0};
	p4d_shell_mode left = mode, through = P4D_SHELL_SKIP; /* how the following branches are read; whether
								 the branch before falls through */

	p4d_shell__blanks(sh, s);
	p4d_shell__word(sh, s, mode == P4D_SHELL_SKIP ? NULL : &subject);
	p4d_value value = p4d_shell__joined(sh, &subject);
	const bool known = !p4d_value_unknown(value);
	p4d_shell__lines(sh, s);
	p4d_shell__take_word(sh, s, "in");
	for (p4d_shell__lines(sh, s); !p4d_shell__at_end(sh, s) && !p4d_shell__take_word(sh, s, "esac");
	     p4d_shell__lines(sh, s)) {
		p4d_shell_status status = P4D_SHELL_FALSE;
		const size_t before = s->at;
		if (p4d_shell__peek(s, 0) == '(')
			p4d_shell__advance(sh, s);
		for (;;) { /* reads patterns, separated by | and ended by ) */
			p4d_shell_build pattern = {0};
			p4d_shell__blanks(sh, s);
			case_pattern(sh, s, left == P4D_SHELL_SKIP ? NULL : &pattern);
			if (left != P4D_SHELL_SKIP) {
				p4d_value p = {pattern.at, pattern.length};
				p4d_shell_build kept = {0};
				for (uint32_t i = 0; i < p.length; i++)
					if (p.at[i].c)
						p4d_shell__add(sh, &kept, p.at[i]);
				p = (p4d_value){kept.at, kept.length};
				if (p4d_value_is(p, "*"))
					status = P4D_SHELL_TRUE;
				else if (!known || p4d_value_unknown(p))
					status = status == P4D_SHELL_TRUE ? status : P4D_SHELL_OPEN;
				else if (p4d_shell__fits(sh, p, value))
					status = P4D_SHELL_TRUE;
			}
			p4d_shell__blanks(sh, s);
			if (p4d_shell__peek(s, 0) != '|')
				break;
			p4d_shell__advance(sh, s);
		}
		if (p4d_shell__peek(s, 0) == ')')
			p4d_shell__advance(sh, s);
		const p4d_shell_mode taken = p4d_shell__branch(left, status, true),
				     body = taken > through ? taken : through;
		p4d_shell__run(sh, s, body);
		through = P4D_SHELL_SKIP;
		if (p4d_shell__take_word(sh, s, ";;&")) {
			/* the patterns after this branch are tried as well */
		} else if (p4d_shell__take_word(sh, s, ";&")) {
			through = body;
			left = p4d_shell__branch(left, status, false);
		} else {
			left = p4d_shell__branch(left, status, false);
		}
		while (p4d_shell__peek(s, 0) == ';' || p4d_shell__peek(s, 0) == '&')
			p4d_shell__advance(sh, s);
		if (s->at == before) /* there is no pattern at all */
			p4d_shell__advance(sh, s);
	}
	return P4D_SHELL_TAKEN;
}

/* Reads the pattern after =~, in which brackets and bars are not the shell's operators. */
static void pattern_word(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *word)
{
	for (int depth = 0; !p4d_shell__at_end(sh, s);) {
		p4d_shell__word(sh, s, word);
		const char c = p4d_shell__peek(s, 0);
		if ((c != '(' && c != '|' && c != ')') || (c == ')' && !depth) || p4d_shell__at_end(sh, s))
			break;
		depth += (c == '(') - (c == ')');
		if (word)
			p4d_shell__add(sh, word, p4d_shell__cell(s, false));
		p4d_shell__advance(sh, s);
	}
}

/* Runs [[ ... ]], in which words are not split, and && and || are part of the expression. */
static p4d_shell_status test_command(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_words words = {0};
	bool matches = false; /* true after =~, when a pattern follows */

	for (p4d_shell__lines(sh, s); !p4d_shell__at_end(sh, s); p4d_shell__lines(sh, s)) {
		p4d_shell_build word = {0};
		const p4d_cell where = p4d_shell__cell(s, false);
		char c = p4d_shell__peek(s, 0), text[3] = {c, 0, 0};
		if (looking_at(s, "]]")) {
			p4d_shell__take_word(sh, s, "]]");
			break;
		}
		if (strchr("&|()<>;", c) && !(matches && c == '(')) {
			if (p4d_shell__peek(s, 1) == c && c != '(' && c != ')')
				text[1] = c;
			for (size_t i = strlen(text); i; i--)
				p4d_shell__advance(sh, s);
			if (mode != P4D_SHELL_SKIP)
				p4d_shell__add_word(sh, &words, p4d_shell__value_of(sh, text, where));
			continue;
		}
		const bool follows = looking_at(s, "=~");
		(matches ? pattern_word : p4d_shell__word)(sh, s, mode == P4D_SHELL_SKIP ? NULL : &word);
		matches = follows && !matches;
		if (mode == P4D_SHELL_SKIP)
			continue;
		p4d_shell_build kept = {0};
		for (uint32_t i = 0; i < word.length; i++)
			if (word.at[i].c || word.at[i].unknown)
				p4d_shell__add(sh, &kept, word.at[i]);
		p4d_shell__add_word(sh, &words, (p4d_value){kept.at, kept.length});
	}
	if (mode == P4D_SHELL_SKIP)
		return P4D_SHELL_OPEN;
	sh->mode = mode;
	return p4d_shell__test(sh, words.at, words.count, true);
}

static p4d_shell_status arithmetic_command(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_source inside = *s;
	p4d_shell_build b = {0};
	int64_t number;
	uint16_t unknown;

	p4d_shell__skip_nested(sh, s, '(', ')');
	inside.length = s->at > inside.at ? s->at - 1 : s->at;
	if (p4d_shell__peek(s, 0) == ')')
		p4d_shell__advance(sh, s);
	if (mode == P4D_SHELL_SKIP)
		return P4D_SHELL_OPEN;
	p4d_shell__quoted_until(sh, &inside, &b, '\0', false);
	sh->mode = mode;
	if (p4d_shell__number(sh, p4d_shell__joined(sh, &b), &number, &unknown))
		return number ? P4D_SHELL_TRUE : P4D_SHELL_FALSE;
	return P4D_SHELL_OPEN;
}

static p4d_shell_status group(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode, char close)
{
	const p4d_shell_source start = *s;
	p4d_shell_scope scope;
	const bool subshell = close == ')' && mode != P4D_SHELL_SKIP;

	if (subshell)
		p4d_shell__enter(sh, &scope, false);
	p4d_shell_status status = p4d_shell__run(sh, s, mode);
	if (subshell) {
		const bool left = p4d_shell__over(sh);
		p4d_shell__leave(sh, &scope);
		if (left) { /* p4d stopped before the end of the body */
			*s = start;
			p4d_shell__run(sh, s, P4D_SHELL_SKIP);
		}
	}
	if (p4d_shell__peek(s, 0) == close)
		p4d_shell__advance(sh, s);
	return status;
}

/*
 * Defines NAME() or function NAME. Skips the body, which is read when the function is called. False: this is
 * no function.
 */
static bool function_definition(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_source look = *s;
	const bool keyword = p4d_shell__take_word(sh, &look, "function");

	if (keyword)
		p4d_shell__blanks(sh, &look);
	const size_t start = look.at;
	while (!p4d_shell__ends_word(p4d_shell__peek(&look, 0)) &&
	       !strchr("=$\"'`", p4d_shell__peek(&look, 0)))
		look.at++;
	p4d_shell_name name = {look.text + start, look.at - start};
	while (strchr(" \t", p4d_shell__peek(&look, 0)) && look.at < look.length)
		look.at++;
	bool brackets = p4d_shell__peek(&look, 0) == '(';
	if (brackets)
		for (look.at++; strchr(" \t", p4d_shell__peek(&look, 0)) && look.at < look.length;)
			look.at++;
	if (!name.length || !p4d_shell__work(sh, look.at - s->at) || (!keyword && !brackets) ||
	    (brackets && p4d_shell__peek(&look, 0) != ')'))
		return false;
	look.at += brackets;
	*s = look;
	p4d_shell__lines(sh, s);
	if (mode != P4D_SHELL_SKIP) {
		p4d_shell_function *f = p4d_shell__take(sh, sizeof(*f));
		if (f) {
			*f = (p4d_shell_function){sh->in.function, name, *s, sh->in.frame->source};
			sh->in.function = f;
		}
	}
	if (p4d_shell__take_word(sh, s, "{"))
		group(sh, s, P4D_SHELL_SKIP, '}');
	else if (p4d_shell__take_word(sh, s, "("))
		group(sh, s, P4D_SHELL_SKIP, ')');
	return true;
}

/*
 * Runs while, until or { }, whose input may be redirected at their end: `done <FILE`. s: the position after
 * the reserved word.
 */
static p4d_shell_status fed(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode, const char *word)
{
	const p4d_value pipe = sh->pipe;
	const bool was_piped = sh->piped;
	p4d_shell_source look = *s;
	p4d_shell_status status = P4D_SHELL_TAKEN;
	p4d_value text;

	for (int pass = mode == P4D_SHELL_SKIP; pass < 2; pass++) {
		p4d_shell_source *at = pass ? s : &look;
		const p4d_shell_mode now = pass ? mode : P4D_SHELL_SKIP;
		status = *word == '{' ? group(sh, at, now, '}') : p4d_shell__while(sh, at, now, *word == 'u');
		if (pass || !p4d_shell__redirected_input(sh, at, &text))
			continue;
		sh->pipe = text;
		sh->piped = true;
	}
	sh->pipe = pipe;
	sh->piped = was_piped;
	return status;
}

static p4d_shell_status command(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	const uint32_t from = sh->out ? sh->out->length : 0;
	p4d_shell_status status;

	if (mode != P4D_SHELL_SKIP)
		sh->mode = mode;
	if (p4d_shell__take_word(sh, s, "if"))
		status = if_command(sh, s, mode);
	else if (p4d_shell__take_word(sh, s, "while"))
		status = fed(sh, s, mode, "while");
	else if (p4d_shell__take_word(sh, s, "until"))
		status = fed(sh, s, mode, "until");
	else if (p4d_shell__take_word(sh, s, "for") || p4d_shell__take_word(sh, s, "select"))
		status = p4d_shell__for(sh, s, mode);
	else if (p4d_shell__take_word(sh, s, "case"))
		status = case_command(sh, s, mode);
	else if (p4d_shell__take_word(sh, s, "[["))
		status = test_command(sh, s, mode);
	else if (p4d_shell__take_word(sh, s, "(("))
		status = arithmetic_command(sh, s, mode);
	else if (p4d_shell__take_word(sh, s, "{"))
		status = fed(sh, s, mode, "{");
	else if (p4d_shell__peek(s, 0) == '(')
		p4d_shell__advance(sh, s), status = group(sh, s, mode, ')');
	else if (function_definition(sh, s, mode))
		status = P4D_SHELL_TAKEN;
	else
		return p4d_shell__simple(sh, s, mode);
	p4d_shell__redirections(sh, s, from, mode);
	return status;
}

/*
 * Runs the commands of a pipeline, and keeps the output of a command while something may read it: the next
 * command of the pipeline, a file, $(...). Commands after a pipe run in subshells.
 */
static p4d_shell_status piped(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode, bool *several)
{
	const p4d_value pipe = sh->pipe;
	const bool was_piped = sh->piped, unread = !sh->out;
	const uint32_t from = unread ? 0 : sh->out->length;
	p4d_shell_status status;
	p4d_shell_scope scope;

	if (unread) {
		sh->scratch.length = 0;
		sh->out = &sh->scratch;
	}
	for (*several = false;; *several = true) {
		const bool subshell =
		    *several && mode != P4D_SHELL_SKIP && p4d_shell__work(sh, P4D_SHELL_BUCKETS);
		if (subshell)
			p4d_shell__enter(sh, &scope, false);
		const p4d_shell_source start = *s;
		status = command(sh, s, mode);
		const bool over = p4d_shell__over(sh);
		if (subshell) {
			p4d_shell__leave(sh, &scope);
			if (over && !sh->stopped) { /* p4d stopped before the end of the command */
				*s = start;
				command(sh, s, P4D_SHELL_SKIP);
			}
		}
		p4d_shell__blanks(sh, s);
		if (p4d_shell__peek(s, 0) != '|' || p4d_shell__peek(s, 1) == '|' || p4d_shell__over(sh))
			break;
		p4d_shell__advance(sh, s);
		if (p4d_shell__peek(s, 0) == '&')
			p4d_shell__advance(sh, s);
		p4d_shell__lines(sh, s);
		const p4d_value printed = {sh->out->at, sh->out->length};
		sh->pipe = p4d_shell__copied(
		    sh, p4d_shell__part(printed, from, printed.length > from ? printed.length - from : 0));
		sh->piped = true;
		sh->out->length = sh->out->length > from ? from : sh->out->length;
	}
	if (unread)
		sh->out = NULL;
	if (*several) { /* otherwise the command has consumed its input */
		sh->pipe = pipe;
		sh->piped = was_piped;
	}
	return status;
}

static p4d_shell_status pipeline(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	bool not = false, several;

	for (p4d_shell__blanks(sh, s);; p4d_shell__blanks(sh, s)) {
		if (p4d_shell__take_word(sh, s, "!"))
			not = !not ;
		else if (!p4d_shell__take_word(sh, s, "time"))
			break;
	}
	const p4d_shell_status status = piped(sh, s, mode, &several);
	if (several)
		return not ? P4D_SHELL_OPEN : P4D_SHELL_TAKEN;
	if (not &&status == P4D_SHELL_TAKEN)
		return P4D_SHELL_OPEN;
	return !not                        ? status
	       : status == P4D_SHELL_TRUE  ? P4D_SHELL_FALSE
	       : status == P4D_SHELL_FALSE ? P4D_SHELL_TRUE
					   : status;
}

/* Whether the command after || or && runs although the one before may fail. */
static bool may_fail(const p4d_shell *sh, const p4d_shell_source *s, bool either, uint32_t since)
{
	const bool handled = either ? !looking_at(s, "exit") : looking_at(s, "break");

	return handled && sh->host->otherwise && sh->host->otherwise(sh->host->context, since);
}

/* Commands joined by && and ||. After a command that p4d assumes to succeed, && continues and || does not. */
static p4d_shell_status and_or(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	const uint32_t since = sh->commands;
	p4d_shell_status status = pipeline(sh, s, mode);

	for (;;) {
		p4d_shell__blanks(sh, s);
		char c = p4d_shell__peek(s, 0);
		if ((c != '&' && c != '|') || p4d_shell__peek(s, 1) != c || p4d_shell__at_end(sh, s))
			return status;
		p4d_shell__advance(sh, s);
		p4d_shell__advance(sh, s);
		p4d_shell__lines(sh, s);
		if (may_fail(sh, s, c == '|', since) && status == P4D_SHELL_TAKEN)
			status = P4D_SHELL_OPEN;
		p4d_shell_status known = status == P4D_SHELL_TAKEN ? P4D_SHELL_TRUE : status;
		p4d_shell_mode next = p4d_shell__branch(mode, known, c == '&');
		p4d_shell_status result = pipeline(sh, s, next);
		if (next == P4D_SHELL_RUN)
			status = result;
		else if (next == P4D_SHELL_MAYBE) /* false && x is false, whatever preceded it */
			status =
			    result == (c == '&' ? P4D_SHELL_FALSE : P4D_SHELL_TRUE) ? result : P4D_SHELL_OPEN;
	}
}

/*
 * Called after a branch that may not run. If the branch returned to the directory `before`, the current
 * directory is known; otherwise it becomes unknown.
 */
static void leave_branch(p4d_shell *sh, p4d_value before)
{
	const p4d_shell_name here = {"PWD", 3};
	p4d_value after;

	sh->branches--;
	if (!p4d_shell_variable(sh, here.text, &after) || after.at == before.at ||
	    !p4d_shell__work(sh, after.length) || p4d_shell__equal(before, after))
		return;
	p4d_shell__assign(sh, P4D_SHELL_RUN, here, before, false, 0);
	p4d_shell__assign(sh, P4D_SHELL_MAYBE, here, after, false, 0);
}

p4d_shell_status p4d_shell__run(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_status status = P4D_SHELL_TAKEN;
	p4d_value directory;
	const bool branch = mode == P4D_SHELL_MAYBE && p4d_shell_variable(sh, "PWD", &directory);

	if (branch)
		sh->branches++;
	if (++sh->depth > P4D_SHELL_DEPTH)
		p4d_shell__stop(sh, "the script is nested too deep to read");
	for (p4d_shell__lines(sh, s); !p4d_shell__at_end(sh, s) && !list_ends(s); p4d_shell__lines(sh, s)) {
		const size_t before = s->at;
		if (p4d_shell__over(sh))
			break;
		status = and_or(sh, s, mode);
		p4d_shell__blanks(sh, s);
		char c = p4d_shell__peek(s, 0);
		if ((c == ';' && !list_ends(s)) || c == '&')
			p4d_shell__advance(sh, s);
		if (s->at == before && !list_ends(s)) /* a character with which no command can start */
			p4d_shell__advance(sh, s);
	}
	sh->depth--;
	if (branch)
		leave_branch(sh, directory);
	return status;
}
