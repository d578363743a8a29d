/* SPDX-License-Identifier: Apache-2.0 */
/* Commands whose words determine their output, for $(...) and for files that the script writes. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell_internal.h"

p4d_value p4d_shell__output(p4d_shell *sh, p4d_shell_source inside)
{
	p4d_shell_build text = {0}, *out = sh->out;
	const p4d_shell_mode mode = sh->mode;
	const bool perhaps = sh->perhaps;
	p4d_shell_scope scope;

	if (!p4d_shell__work(sh, P4D_SHELL_BUCKETS))
		return (p4d_value){0};
	p4d_shell__enter(sh, &scope, false);
	sh->out = &text;
	sh->perhaps = perhaps || mode == P4D_SHELL_MAYBE;
	p4d_shell__all(sh, inside, P4D_SHELL_RUN);
	sh->perhaps = perhaps;
	sh->out = out;
	sh->mode = mode;
	p4d_shell__leave(sh, &scope);
	while (text.length && !text.at[text.length - 1].unknown && text.at[text.length - 1].c == '\n')
		text.length--;
	return (p4d_value){text.at, text.length};
}

p4d_value p4d_shell__output_file(p4d_shell *sh, p4d_shell_source inside)
{
	char path[32];
	p4d_value text = p4d_shell__output(sh, inside);
	p4d_shell_redirection r = {.has_output = true};

	snprintf(path, sizeof(path), "/dev/fd/%u", ++sh->scopes);
	r.output = p4d_shell__value_of(sh, path, p4d_shell__cell(&inside, true));
	p4d_shell__write(sh, &r, text);
	return r.output;
}

bool p4d_shell__input(p4d_shell *sh, const p4d_shell_redirection *r, p4d_value *text)
{
	const char *file;
	size_t length;

	if (r->has_input) {
		*text = r->input;
		return true;
	}
	if (r->has_input_path) {
		if (!p4d_shell_file(sh, r->input_path, text, &file, &length))
			return false;
		if (file) {
			p4d_shell_build b = {0};
			const char *path = p4d_shell__text_of(sh, r->input_path);
			p4d_shell_source s = {.text = file,
					      .length = length,
					      .line = 1,
					      .file = p4d_shell__place(sh, "%s", path)};
			for (; s.at < s.length && !sh->stopped; p4d_shell__advance(sh, &s))
				p4d_shell__add(sh, &b, p4d_shell__cell(&s, false));
			*text = (p4d_value){b.at, b.length};
		}
		return true;
	}
	*text = sh->pipe;
	return sh->piped;
}

bool p4d_shell_input(p4d_shell *sh, p4d_value *text)
{
	return sh->redirection && p4d_shell__input(sh, sh->redirection, text);
}

void p4d_shell__print(const p4d_shell_call *w, p4d_value text)
{
	p4d_shell *sh = w->sh;
	const uint32_t line = w->source ? w->source->line : 0;

	if (!sh->out)
		return;
	if (w->mode == P4D_SHELL_RUN)
		p4d_shell__add_value(sh, sh->out, text, false);
	else
		p4d_shell__add_value(
		    sh, sh->out,
		    p4d_shell__not_known(
			sh, p4d_shell__reason(sh, "output that depends on a condition (line %u)", line)),
		    false);
}

p4d_shell_status p4d_shell__print_unknown(const p4d_shell_call *w)
{
	char name[64];

	p4d_value_text(w->at[-1], name, sizeof(name));
	p4d_shell__print(w, p4d_shell__not_known(w->sh, p4d_shell__reason(w->sh, "output of %s", name)));
	return P4D_SHELL_TAKEN;
}

void p4d_shell__redirected(p4d_shell *sh, const p4d_shell_redirection *r, uint32_t from, p4d_shell_mode mode)
{
	if (!sh->out || sh->out->length < from || (!r->has_output && !r->dropped))
		return;
	const p4d_value text =
	    p4d_shell__part((p4d_value){sh->out->at, sh->out->length}, from, sh->out->length - from);
	sh->out->length = from;
	if (!r->has_output)
		return;
	if (mode == P4D_SHELL_RUN)
		p4d_shell__write(sh, r, text);
	else
		p4d_shell__write(
		    sh, r,
		    p4d_shell__not_known(sh, p4d_shell__reason(sh, "a file that depends on a condition")));
}

static void print_text(const p4d_shell_call *w, const char *text)
{
	p4d_cell like = w->at[-1].length ? w->at[-1].at[0] : (p4d_cell){0};

	like.unknown = 0;
	p4d_shell__print(w, p4d_shell__value_of(w->sh, text, like));
}

static p4d_shell_status run_echo(const p4d_shell_call *w)
{
	p4d_shell_build b = {0};
	size_t i = 0;
	bool escapes = false, line = true;

	for (; i < w->count && w->at[i].length > 1 && w->at[i].at[0].c == '-'; i++) {
		char flags[8];
		p4d_value_text(w->at[i], flags, sizeof(flags));
		if (strspn(flags + 1, "neE") != w->at[i].length - 1)
			break;
		escapes = escapes || strchr(flags, 'e');
		line = line && !strchr(flags, 'n');
	}
	for (size_t first = i; i < w->count; i++) {
		if (i > first)
			p4d_shell__add(w->sh, &b, (p4d_cell){.c = ' '});
		for (uint32_t j = 0; escapes && j < w->at[i].length; j++)
			if (w->at[i].at[j].c == '\\' && !w->at[i].at[j].unknown)
				return p4d_shell__print_unknown(w);
		p4d_shell__add_value(w->sh, &b, w->at[i], false);
	}
	if (line)
		p4d_shell__add(w->sh, &b, (p4d_cell){.c = '\n'});
	p4d_shell__print(w, (p4d_value){b.at, b.length});
	return P4D_SHELL_TAKEN;
}

/*
 * Formats one conversion of printf, at the character after %: %s, %d, %4d, %04d. False: p4d does not support
 * it.
 */
static bool convert(p4d_shell *sh, p4d_shell_build *b, p4d_value format, uint32_t *at, p4d_value value)
{
	char number[32];
	int width = 0;
	int64_t integer = 0;
	uint16_t unknown;
	const uint32_t start = *at;
	const bool zeros = start < format.length && format.at[start].c == '0';

	while (*at < format.length && isdigit((unsigned char)format.at[*at].c) && width < 100)
		width = width * 10 + (format.at[(*at)++].c - '0');
	const char kind = *at < format.length ? format.at[*at].c : '\0';
	if (kind == 's' && *at == start) {
		++*at;
		p4d_shell__add_value(sh, b, value, false);
		return true;
	}
	if (kind == '.' && *at + 2 < format.length && format.at[*at + 1].c == '0' &&
	    format.at[*at + 2].c == 'f')
		*at += 2; /* %.0f, which leaves whole numbers as they are */
	else if ((kind != 'd' && kind != 'i') || width > 24)
		return false;
	if (width > 24 || (value.length && !p4d_shell__number(sh, value, &integer, &unknown)))
		return false;
	++*at;
	snprintf(number, sizeof(number), zeros ? "%0*" PRId64 : "%*" PRId64, width, integer);
	p4d_shell__add_text(sh, b, number, value.length ? value.at[0] : (p4d_cell){0});
	return true;
}

/* Formats the arguments of printf. False: the result is unknown. */
static bool formatted(p4d_shell *sh, const p4d_value *words, size_t count, p4d_shell_build *b)
{
	const p4d_value format = words[0];
	size_t next = 1;

	if (p4d_value_unknown(format))
		return false;
	do {
		const size_t before = next;
		for (uint32_t i = 0; i < format.length && p4d_shell__work(sh, 1);) {
			p4d_cell cell = format.at[i++];
			const char c = cell.c, after = i < format.length ? format.at[i].c : '\0';
			if (c == '\\' && after && strchr("nt\\", after)) {
				cell.c = after == 'n' ? '\n' : after == 't' ? '\t' : after;
				i++;
			} else if (c == '\\') {
				return false;
			} else if (c == '%' && after == '%') {
				i++;
			} else if (c == '%') {
				if (!convert(sh, b, format, &i, next < count ? words[next] : (p4d_value){0}))
					return false;
				next++;
				continue;
			}
			p4d_shell__add(sh, b, cell);
		}
		if (next == before)
			break;
	} while (next < count && !sh->stopped);
	return true;
}

static p4d_shell_status run_printf(const p4d_shell_call *w)
{
	p4d_shell_build b = {0};
	const bool assigns = w->count > 2 && p4d_value_is(w->at[0], "-v");
	const size_t options = assigns ? 2 : 0;
	const size_t first = options + (w->count > options && p4d_value_is(w->at[options], "--"));
	const bool known = w->count > first && formatted(w->sh, w->at + first, w->count - first, &b);

	if (assigns)
		p4d_shell__assign(
		    w->sh, w->mode, p4d_shell__name_of(w->sh, w->at[1]),
		    known ? (p4d_value){b.at, b.length}
			  : p4d_shell__not_known(w->sh, p4d_shell__reason(w->sh, "output of printf")),
		    false, w->source ? w->source->line : 0);
	else if (known)
		p4d_shell__print(w, (p4d_value){b.at, b.length});
	else
		p4d_shell__print_unknown(w);
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_pwd(const p4d_shell_call *w)
{
	p4d_value here;

	if (!p4d_shell_variable(w->sh, "PWD", &here))
		return p4d_shell__print_unknown(w);
	p4d_shell__print(w, here);
	return P4D_SHELL_TAKEN;
}

static bool begins_option(p4d_value word)
{
	return word.length > 1 && word.at[0].c == '-' && !word.at[0].unknown;
}

/* dirname and basename: the directory of a path, or its last part. */
static p4d_shell_status part_of_path(const p4d_shell_call *w, bool last)
{
	const size_t first = w->count && p4d_value_is(w->at[0], "--");
	const size_t count = w->count - first;

	if (!count || count > (last ? 2 : 1) || begins_option(w->at[first]))
		return p4d_shell__print_unknown(w);
	p4d_value path = w->at[first], suffix = count > 1 ? w->at[first + 1] : (p4d_value){0};
	while (path.length > 1 && path.at[path.length - 1].c == '/' && !path.at[path.length - 1].unknown)
		path.length--;
	uint32_t cut = path.length;
	while (cut && (path.at[cut - 1].c != '/' || path.at[cut - 1].unknown))
		cut--;
	if (last) {
		path = p4d_shell__part(path, cut, path.length - cut);
		if (path.length > suffix.length &&
		    p4d_shell__equal(p4d_shell__part(path, path.length - suffix.length, suffix.length),
				     suffix))
			path.length -= suffix.length;
		p4d_shell__print(w, path);
	} else if (!cut && p4d_value_unknown(path)) {
		p4d_shell__print(w, path);
	} else if (!cut) {
		print_text(w, ".");
	} else {
		p4d_shell__print(w, (p4d_value){path.at, cut > 1 ? cut - 1 : 1});
	}
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_dirname(const p4d_shell_call *w)
{
	return part_of_path(w, false);
}

static p4d_shell_status run_basename(const p4d_shell_call *w)
{
	return part_of_path(w, true);
}

/* realpath and readlink -f. Symbolic links are not followed. */
static p4d_shell_status run_realpath(const p4d_shell_call *w)
{
	const char *path = w->count ? p4d_shell__absolute(w->sh, w->at[w->count - 1]) : "";
	bool relative = false;

	for (size_t i = 0; i < w->count; i++)
		relative = relative ||
			   (w->at[i].length > 10 && p4d_value_is((p4d_value){w->at[i].at, 10}, "--relative"));
	if (!*path || relative)
		return p4d_shell__print_unknown(w);
	print_text(w, path);
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status print_number(const p4d_shell_call *w, p4d_value expression)
{
	int64_t number;
	uint16_t unknown;
	p4d_cell like = expression.length ? expression.at[0] : (p4d_cell){0};

	like.unknown = 0;
	p4d_shell__print(w, p4d_shell__number(w->sh, expression, &number, &unknown)
				? p4d_shell__digits(w->sh, number, like)
				: p4d_shell__not_known(w->sh, unknown));
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_expr(const p4d_shell_call *w)
{
	p4d_shell_build expression = {0};

	for (size_t i = 0; i < w->count; i++)
		p4d_shell__add_value(w->sh, &expression, w->at[i], false);
	return print_number(w, (p4d_value){expression.at, expression.length});
}

/* bc, only for integers. With "scale" and fractions, the output is unknown. */
static p4d_shell_status run_bc(const p4d_shell_call *w)
{
	p4d_value text;

	if (w->count || !p4d_shell__input(w->sh, w->redirection, &text))
		return p4d_shell__print_unknown(w);
	for (uint32_t i = 0; i < text.length; i++)
		if (!text.at[i].unknown && !isspace((unsigned char)text.at[i].c) &&
		    !strchr("0123456789+-*/()", text.at[i].c))
			return p4d_shell__print_unknown(w);
	return print_number(w, text);
}

static p4d_shell_status run_seq(const p4d_shell_call *w)
{
	int64_t n[3] = {1, 1, 0};
	uint16_t unknown;
	char line[24];

	for (size_t i = 0; i < w->count; i++)
		if (w->count > 3 || !p4d_shell__number(w->sh, w->at[i],
						       &n[w->count == 2 && i ? 2
							  : w->count == 1    ? 2
									     : i],
						       &unknown))
			return p4d_shell__print_unknown(w);
	if (!w->count || n[1] < 1 || n[2] - n[0] > 4096)
		return p4d_shell__print_unknown(w);
	for (int64_t i = n[0]; i <= n[2] && !w->sh->stopped; i += n[1]) {
		snprintf(line, sizeof(line), "%lld\n", (long long)i);
		print_text(w, line);
	}
	return P4D_SHELL_TAKEN;
}

/*
 * Prints an unknown text that only the job will know, but that is no option. kind: P4D_CELL_WORD or
 * P4D_CELL_WORDS.
 */
static p4d_shell_status print_kind(const p4d_shell_call *w, char kind)
{
	char name[64];
	p4d_cell cell = {.c = kind};

	p4d_value_text(w->at[-1], name, sizeof(name));
	cell.unknown = p4d_shell__reason(w->sh, "output of %s", name);
	p4d_shell__print(w, (p4d_value){&cell, 1});
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status print_word(const p4d_shell_call *w)
{
	return print_kind(w, P4D_CELL_WORD);
}

static p4d_shell_status print_words(const p4d_shell_call *w)
{
	return print_kind(w, P4D_CELL_WORDS);
}

/* Prints unknown words, one per line, as many as a variable's value. False: the variable is no such
 * number. */
static bool print_lines(const p4d_shell_call *w, const char *variable)
{
	enum { MOST = 1024 };
	char text[8], name[64];
	p4d_value number;

	if (!p4d_shell_variable(w->sh, variable, &number) || !number.length || p4d_value_unknown(number))
		return false;
	const unsigned long lines = strtoul(p4d_value_text(number, text, sizeof(text)), NULL, 10);
	if (!lines || lines > MOST || number.length >= sizeof(text))
		return false;
	p4d_value_text(w->at[-1], name, sizeof(name));
	p4d_cell line[2] = {number.at[0], number.at[0]};
	line[0].c = P4D_CELL_WORD;
	line[0].unknown = p4d_shell__reason(w->sh, "output of %s", name);
	line[1].c = '\n';
	for (unsigned long i = 0; i < lines && !w->sh->stopped; i++)
		p4d_shell__print(w, (p4d_value){line, 2});
	return true;
}

/* Whether the next command in the pipe selects lines by this word. */
static bool is_asked_for(const p4d_shell_call *w, const char *word)
{
	enum { FAR = 160 };
	const p4d_shell_source *s = w->source;
	const size_t left = s && s->at < s->length ? s->length - s->at : 0, most = left < FAR ? left : FAR;
	const char *end = most ? memchr(s->text + s->at, '\n', most) : NULL;
	const size_t length = end ? (size_t)(end - s->text) - s->at : most;

	return length && p4d_shell__peek(s, 0) == '|' && memmem(s->text + s->at, length, word, strlen(word));
}

/*
 * `scontrol show job $SLURM_JOB_ID | awk -F= '/Command=/{print $2}'` prints the path of the script, although
 * Slurm runs a copy of it.
 */
static bool print_own_path(const p4d_shell_call *w)
{
	p4d_value id = w->count > 2 ? w->at[2] : (p4d_value){0};
	const p4d_shell_frame *script = w->sh->in.frame;
	const char *why = id.length == 1 ? p4d_shell_unknown(w->sh, id.at[0].unknown) : "";

	if (w->count < 3 || !p4d_value_is(w->at[0], "show") ||
	    (!p4d_value_is(w->at[1], "job") && !p4d_value_is(w->at[1], "jobid")) ||
	    strncmp(why, "$SLURM_JOB", strlen("$SLURM_JOB")) != 0 || !is_asked_for(w, "Command"))
		return false;
	while (script->outer)
		script = script->outer;
	const char *path = p4d_shell__absolute(w->sh, script->source);
	if (!*path)
		return false;
	print_text(w, "   Command=");
	print_text(w, path);
	print_text(w, "\n");
	return true;
}

/* scontrol show hostnames $SLURM_JOB_NODELIST: one line per node. */
static p4d_shell_status run_scontrol(const p4d_shell_call *w)
{
	const p4d_value list = w->count == 3 ? w->at[2] : (p4d_value){0};
	const char *why =
	    list.length == 1 && list.at[0].unknown ? p4d_shell_unknown(w->sh, list.at[0].unknown) : "";
	const bool all =
	    w->count == 2 || (!strncmp(why, "$SLURM_", strlen("$SLURM_")) && strstr(why, "NODELIST"));

	if (all && w->count >= 2 && p4d_value_is(w->at[0], "show") &&
	    (p4d_value_is(w->at[1], "hostnames") || p4d_value_is(w->at[1], "hostname")) &&
	    print_lines(w, "SLURM_NNODES"))
		return P4D_SHELL_TAKEN;
	if (print_own_path(w))
		return P4D_SHELL_TAKEN;
	return print_words(w);
}

/* nvidia-smi with options that print one line per GPU. */
static p4d_shell_status run_nvidia_smi(const p4d_shell_call *w)
{
	static const char query[] = "--query-gpu=";
	bool lists = false, heads = true;

	for (size_t i = 0; i < w->count; i++) {
		const p4d_value word = w->at[i];
		char format[32];
		if (p4d_value_is(word, "-L") || p4d_value_is(word, "--list-gpus"))
			lists = true, heads = false;
		else if (word.length >= sizeof(query) &&
			 p4d_value_is((p4d_value){word.at, sizeof(query) - 1}, query))
			lists = true;
		else if (strstr(p4d_value_text(word, format, sizeof(format)), "noheader"))
			heads = false;
		else
			return p4d_shell__print_unknown(w);
	}
	return lists && !heads && print_lines(w, "SLURM_GPUS_ON_NODE") ? P4D_SHELL_TAKEN
								       : p4d_shell__print_unknown(w);
}

static p4d_shell_status print_nothing(const p4d_shell_call *w)
{
	(void)w;
	return P4D_SHELL_TAKEN;
}

/* Commands that make or remove files, and print nothing. */
static p4d_shell_status run_on_names(const p4d_shell_call *w)
{
	p4d_shell__change_names(w);
	return P4D_SHELL_TAKEN;
}

const p4d_shell_builtin p4d_shell__printers[] = {
    {"basename", run_basename, false},
    {"bc", run_bc, false},
    {"dirname", run_dirname, false},
    {"echo", run_echo, false},
    {"expr", run_expr, false},
    {"ls", p4d_shell__run_ls, false},
    {"printf", run_printf, false},
    {"pwd", run_pwd, false},
    {"readlink", run_realpath, false},
    {"realpath", run_realpath, false},
    {"seq", run_seq, false},
    /* commands that print words that are no options */
    {"hostname", print_word, false},
    {"id", print_word, false},
    {"mktemp", print_word, false},
    {"nproc", print_word, false},
    {"uname", print_word, false},
    {"whoami", print_word, false},
    {"date", print_words, false},
    {"scontrol", run_scontrol, false},
    {"nvidia-smi", run_nvidia_smi, false},
    /* commands that print nothing */
    {"chmod", print_nothing, false},
    {"mkdir", run_on_names, false},
    {"rm", run_on_names, false},
    {"sleep", print_nothing, false},
    {"touch", run_on_names, false},
    {"trap", print_nothing, false},
    {"ulimit", print_nothing, false},
    {"wait", print_nothing, false},
    {NULL, NULL, false},
};
