/* SPDX-License-Identifier: Apache-2.0 */
/* while, until and for. */
#include <string.h>

#include "shell/shell_internal.h"

static void loop_body(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell__take_word(sh, s, "do");
	p4d_shell__run(sh, s, mode);
	sh->in.left_loop = false;
}

/* Moves s from the start of a body to its end, whether or not p4d read all of it. */
static void pass_body(p4d_shell *sh, p4d_shell_source *s, const p4d_shell_source *body)
{
	const bool exited = sh->in.exited, returned = sh->in.returned;
	const uint32_t outer = sh->in.outer;

	sh->in.exited = sh->in.returned = sh->in.broke_loop = false;
	sh->in.outer = 0; /* loops in the body do not run */
	*s = *body;
	loop_body(sh, s, P4D_SHELL_SKIP);
	sh->in.exited = exited;
	sh->in.returned = returned;
	sh->in.outer = outer;
}

/* Moves past the end of a loop. After `break 2` the loop around it ends as well. */
static p4d_shell_status done(p4d_shell *sh, p4d_shell_source *s)
{
	p4d_shell__take_word(sh, s, "done");
	sh->in.broke_loop = false;
	if (sh->in.outer) {
		sh->in.outer--;
		sh->in.left_loop = true;
		sh->in.broke_loop = sh->in.outer || !sh->in.continues;
	}
	return P4D_SHELL_TAKEN;
}

p4d_shell_status p4d_shell__while(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode, bool until)
{
	const p4d_shell_source start = *s;

	for (int i = 0;; i++) {
		p4d_shell_status status = p4d_shell__run(sh, s, mode);
		p4d_shell_mode body = p4d_shell__branch(mode, status, !until);
		p4d_shell_source here = *s;
		if (body == P4D_SHELL_RUN && i >= P4D_SHELL_ITERATIONS)
			body = P4D_SHELL_MAYBE;
		loop_body(sh, s, body);
		if (body != P4D_SHELL_RUN || sh->in.broke_loop || p4d_shell__over(sh)) {
			pass_body(sh, s, &here);
			break;
		}
		*s = start;
	}
	return done(sh, s);
}

/* Evaluates one part of for ((a; b; c)). *number is 1 if the part is empty. False: unknown. */
static bool evaluate(p4d_shell *sh, p4d_shell_source part, p4d_shell_mode mode, int64_t *number)
{
	p4d_shell_build b = {0};
	uint16_t unknown;

	*number = 1;
	p4d_shell__blanks(sh, &part);
	if (p4d_shell__at_end(sh, &part))
		return true;
	p4d_shell__quoted_until(sh, &part, &b, '\0', false);
	sh->mode = mode;
	return p4d_shell__number(sh, p4d_shell__joined(sh, &b), number, &unknown);
}

/* Runs for ((a; b; c)); *s is after the brackets. */
static p4d_shell_status counting_loop(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_source inside = *s, part[3];
	int64_t number, unused;
	bool known = mode == P4D_SHELL_RUN;

	p4d_shell__skip_nested(sh, s, '(', ')');
	inside.length = s->at > inside.at ? s->at - 1 : s->at;
	p4d_shell__skip_nested(sh, s, '(', ')');
	for (int i = 0; i < 3; i++) {
		part[i] = inside;
		while (!p4d_shell__at_end(sh, &inside) && p4d_shell__peek(&inside, 0) != ';')
			p4d_shell__advance(sh, &inside);
		part[i].length = inside.at;
		p4d_shell__advance(sh, &inside);
	}
	p4d_shell__blanks(sh, s);
	if (p4d_shell__peek(s, 0) == ';')
		p4d_shell__advance(sh, s);
	p4d_shell__lines(sh, s);
	const p4d_shell_source body = *s;
	if (mode != P4D_SHELL_SKIP)
		known = evaluate(sh, part[0], mode, &number) && known;
	for (int i = 0; known && evaluate(sh, part[1], mode, &number); i++) {
		if (!number || sh->in.broke_loop || p4d_shell__over(sh)) {
			pass_body(sh, s, &body);
			return done(sh, s);
		}
		if (i >= P4D_SHELL_ITERATIONS)
			break;
		*s = body;
		loop_body(sh, s, mode);
		if (!p4d_shell__over(sh) && !sh->in.broke_loop)
			known = evaluate(sh, part[2], mode, &unused);
	}
	*s = body;
	if (mode !=
	    P4D_SHELL_SKIP) { /* the number of passes is unknown, and so is the counter after the loop */
		evaluate(sh, part[2], P4D_SHELL_MAYBE, &unused);
		loop_body(sh, s, P4D_SHELL_MAYBE);
	} else {
		pass_body(sh, s, &body);
	}
	return done(sh, s);
}

/* Whether each of these texts is exactly one word: known, or unknown but a host name or a number. */
static bool are_words(const p4d_shell_words *words)
{
	for (uint32_t i = 0; i < words->count; i++)
		for (uint32_t j = 0; j < words->at[i].length; j++)
			if (words->at[i].at[j].unknown && words->at[i].at[j].c != P4D_CELL_WORD)
				return false;
	return true;
}

p4d_shell_status p4d_shell__for(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode)
{
	p4d_shell_words words = {0};
	p4d_shell_name name;
	const uint32_t line = s->line;

	p4d_shell__blanks(sh, s);
	if (p4d_shell__take_word(sh, s, "(("))
		return counting_loop(sh, s, mode);
	name = (p4d_shell_name){s->text + s->at, p4d_shell__name_length(s, 0)};
	for (size_t i = 0; i < name.length; i++)
		p4d_shell__advance(sh, s);
	p4d_shell__lines(sh, s);
	if (p4d_shell__take_word(sh, s, "in")) {
		for (p4d_shell__blanks(sh, s);
		     !p4d_shell__at_end(sh, s) && !p4d_shell__ends_word(p4d_shell__peek(s, 0));
		     p4d_shell__blanks(sh, s)) {
			p4d_shell_build word = {.braces = true};
			p4d_shell__word(sh, s, mode == P4D_SHELL_SKIP ? NULL : &word);
			p4d_shell__split(sh, &word, &words);
		}
		p4d_shell__expand_names(sh, &words, 0, P4D_SHELL_NAMES_OF_LOOP);
	} else {
		for (uint32_t i = 1; i < sh->in.parameters.count; i++)
			p4d_shell__add_word(sh, &words, sh->in.parameters.at[i]);
	}
	if (p4d_shell__peek(s, 0) == ';')
		p4d_shell__advance(sh, s);
	p4d_shell__lines(sh, s);
	const p4d_shell_source body = *s;
	const bool known =
	    mode == P4D_SHELL_RUN && words.count <= P4D_SHELL_ITERATIONS && name.length && are_words(&words);
	for (uint32_t i = 0; known && i < words.count && !p4d_shell__over(sh) && !sh->in.broke_loop; i++) {
		*s = body;
		p4d_shell__assign(sh, mode, name, words.at[i], false, line);
		loop_body(sh, s, mode);
	}
	if (!known && name.length) {
		if (mode != P4D_SHELL_SKIP)
			p4d_shell__assign(
			    sh, P4D_SHELL_RUN, name,
			    p4d_shell__not_known(sh,
						 p4d_shell__reason(sh, "$%.*s changes in a loop (line %u)",
								   (int)(name.length < 64 ? name.length : 64),
								   name.text, line)),
			    false, line);
		loop_body(sh, s, mode == P4D_SHELL_RUN ? P4D_SHELL_MAYBE : mode);
	} else {
		pass_body(sh, s, &body);
	}
	return done(sh, s);
}
