/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: $name, $1, "$@", ${name:-word} and similar forms. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

/* A parameter, and which of its values an expansion uses: one, or all of an array. */
typedef struct reference {
	p4d_shell_name name;
	const p4d_value *at; /* NULL: unset */
	size_t count;
	uint16_t unknown; /* reason why p4d does not know which element is meant; 0: it knows */
	bool elsewhere;   /* the script does not set the variable, but input that p4d cannot read may */
	bool all, joined; /* subscript [@] or [*]; the second: [*] */
	bool parameters;  /* the parameter is one of $0, $1 ..., $@ or $* */
} reference;

static void add_unknown(p4d_shell *sh, p4d_shell_build *b, p4d_cell where, uint16_t reason, bool quoted)
{
	where.unknown = reason;
	where.quoted = quoted;
	where.c = '?';
	p4d_shell__add(sh, b, where);
}

static void add_unknown_reference(p4d_shell *sh, p4d_shell_build *b, p4d_cell where, const reference *r)
{
	where.unknown = r->unknown;
	where.c = r->elsewhere ? P4D_CELL_UNSET_HERE : '?';
	p4d_shell__add(sh, b, where);
}

static void add_number(p4d_shell *sh, p4d_shell_build *b, p4d_cell where, size_t number)
{
	p4d_shell__add_value(sh, b, p4d_shell__digits(sh, (int64_t)number, where), where.quoted);
}

/* Adds the number of words. The number is unknown if an unknown text may be several words. */
static void add_count(p4d_shell *sh, p4d_shell_build *b, p4d_cell where, const p4d_value *at, size_t count)
{
	const uint16_t unknown = p4d_shell__any_number(at, count);

	if (unknown)
		add_unknown(sh, b, where, unknown, where.quoted);
	else
		add_number(sh, b, where, count);
}

/* Whether bash itself sets the variable. */
static bool is_own(p4d_shell_name name)
{
	static const char *const names[] = {"RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "BASHPID",
					    "PPID",   "UID",     "EUID",    "HOSTNAME",     "LINENO"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == name.length && !memcmp(names[i], name.text, name.length))
			return true;
	return false;
}

static reference look_up(p4d_shell *sh, p4d_shell_name name)
{
	reference r = {.name = name};
	const char c = name.length ? name.text[0] : '\0';

	if (name.length == 1 && (c == '@' || c == '*')) {
		r.all = r.parameters = true;
		r.joined = c == '*';
		r.count = sh->in.parameters.count ? sh->in.parameters.count - 1 : 0;
		r.at = r.count ? sh->in.parameters.at + 1 : NULL;
	} else if (isdigit((unsigned char)c)) {
		size_t index = 0;
		for (size_t i = 0; i < name.length && index < 1000; i++)
			index = index * 10 + (size_t)(name.text[i] - '0');
		r.unknown = sh->in.parameters.count > 1 && index > 1
				? p4d_shell__any_number(
				      sh->in.parameters.at + 1,
				      (index < sh->in.parameters.count ? index : sh->in.parameters.count) - 1)
				: 0;
		if (index < sh->in.parameters.count) {
			r.at = sh->in.parameters.at + index;
			r.count = 1;
		}
	} else {
		p4d_shell_var *v = p4d_shell__lookup(sh, name);
		if (v && v->value.count) {
			r.at = v->value.at;
			r.count = 1;
		}
		r.unknown = name.length && !is_own(name) ? p4d_shell__may_be_set(sh, name) : 0;
		r.elsewhere = r.unknown;
	}
	return r;
}

/* Adds all values. In quotes, "$*" joins them with the first character of $IFS. */
static void add_values(p4d_shell *sh, p4d_shell_build *b, const reference *r, bool quoted)
{
	char buf[16];
	const char *separators = p4d_shell__separators(sh, buf, sizeof(buf));

	for (size_t i = 0; i < r->count; i++) {
		if (i && !(r->joined && quoted))
			p4d_shell__add(sh, b, P4D_CELL_BOUNDARY);
		else if (i && *separators)
			p4d_shell__add(sh, b, (p4d_cell){.c = *separators, .quoted = true});
		p4d_shell__add_value(sh, b, r->at[i], quoted);
		if (quoted && r->all && !r->at[i].length)
			p4d_shell__add(sh, b, P4D_CELL_HOLDER);
	}
}

/*
 * Adds an unset variable. The script does not set it, but the job's environment, or a file that p4d has not
 * read, may set it.
 */
static void add_unset(p4d_shell *sh, p4d_shell_build *b, p4d_cell where, p4d_shell_name name, bool quoted)
{
	where.unknown =
	    p4d_shell__reason(sh, "$%.*s is not set", (int)(name.length < 64 ? name.length : 64), name.text);
	where.quoted = quoted;
	where.c = p4d_shell__of_modules(sh, name) ? P4D_CELL_UNSET_HERE : P4D_CELL_UNSET;
	p4d_shell__add(sh, b, where);
}

void p4d_shell__emit(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, p4d_shell_name name, bool quoted)
{
	p4d_cell where = p4d_shell__cell(s, quoted);
	reference r;

	where.unknown = 0;
	if (name.length == 1 && name.text[0] == '#') {
		const bool any = sh->in.parameters.count > 1;
		add_count(sh, b, where, any ? sh->in.parameters.at + 1 : NULL,
			  any ? sh->in.parameters.count - 1 : 0);
		return;
	}
	r = look_up(sh, name);
	if ((name.length == 1 && strchr("?$!-", name.text[0])) ||
	    (!r.unknown && !r.at && !r.all && is_own(name))) {
		where.unknown = p4d_shell__reason(sh, "$%.*s is known only to the running job",
						  (int)name.length, name.text);
		where.c = P4D_CELL_WORD;
		p4d_shell__add(sh, b, where);
		return;
	}
	if (r.unknown)
		add_unknown_reference(sh, b, where, &r);
	else if (!r.at && !r.all)
		add_unset(sh, b, where, name, quoted);
	else
		add_values(sh, b, &r, quoted);
}

/* Reads the text of ${...} up to a character or the closing brace, as a value. */
static p4d_shell_build operand(p4d_shell *sh, p4d_shell_source *s, p4d_shell_source end, bool quoted,
			       bool pattern)
{
	p4d_shell_build b = {0};
	p4d_shell_source inside = *s;

	inside.length = end.at;
	inside.body_end = 0;
	/* quotes inside the text are special, except single quotes if the whole expansion is in quotes */
	if (pattern || !quoted) {
		while (inside.at < inside.length && !sh->stopped) {
			size_t before = inside.at;
			p4d_shell__word(sh, &inside, &b);
			if (inside.at == before || inside.at < inside.length) {
				p4d_shell__add(sh, &b, p4d_shell__cell(&inside, false));
				p4d_shell__advance(sh, &inside);
			}
		}
	} else {
		while (inside.at < inside.length && !sh->stopped) {
			p4d_shell__quoted_until(sh, &inside, &b, '"', quoted);
			p4d_shell__advance(sh, &inside);
		}
	}
	if (!pattern) /* the text may become several words */
		return b;
	p4d_shell_build kept = {0};
	for (uint32_t i = 0; i < b.length; i++)
		if (b.at[i].c || b.at[i].unknown)
			p4d_shell__add(sh, &kept, b.at[i]);
	return kept;
}

static p4d_value pattern_of(p4d_shell *sh, p4d_shell_source *s, p4d_shell_source end, bool quoted)
{
	const p4d_shell_build b = operand(sh, s, end, quoted, true);

	return (p4d_value){b.at, b.length};
}

/* Adds a default value. It keeps its own quotes, unless it is inside quotes. */
static void add_operand(p4d_shell *sh, p4d_shell_build *b, p4d_shell_build value, bool quoted)
{
	for (uint32_t i = 0; i < value.length; i++) {
		p4d_cell cell = value.at[i];
		cell.quoted = cell.quoted || (quoted && (cell.c || cell.unknown));
		cell.expanded = true;
		p4d_shell__add(sh, b, cell);
	}
}

/* Removes the text that a pattern matches from the front or the end. */
static p4d_value cut(p4d_shell *sh, p4d_value value, p4d_value pattern, bool front, bool longest)
{
	for (uint32_t i = 0; i <= value.length && !sh->stopped; i++) {
		uint32_t n = longest ? value.length - i : i;
		p4d_value part =
		    front ? (p4d_value){value.at, n} : p4d_shell__part(value, value.length - n, n);
		if (p4d_shell__matches(sh, pattern, part))
			return front ? p4d_shell__part(value, n, value.length - n)
				     : (p4d_value){value.at, value.length - n};
	}
	return value;
}

/* Length of the longest prefix that a pattern matches; 0: none. */
static uint32_t matched(p4d_shell *sh, p4d_value pattern, p4d_value text)
{
	/* a pattern without special characters matches only a text of its own length */
	bool plain = true;
	for (uint32_t i = 0; i < pattern.length; i++)
		plain = plain && (pattern.at[i].quoted || !strchr("*?[(", pattern.at[i].c));
	const uint32_t least = plain && pattern.length ? pattern.length : 1;
	for (uint32_t n = plain && least < text.length ? least : text.length; n >= least && !sh->stopped; n--)
		if (p4d_shell__matches(sh, pattern, (p4d_value){text.at, n}))
			return n;
	return 0;
}

/* ${name/pattern/replacement}; # and % anchor a pattern at the front or at the end. */
static void replace(p4d_shell *sh, p4d_shell_build *b, p4d_value value, p4d_value pattern, p4d_value by,
		    bool all, bool quoted)
{
	const char bound = pattern.length && !pattern.at[0].quoted && !all ? pattern.at[0].c : '\0';

	if (bound == '#' || bound == '%')
		pattern = (p4d_value){pattern.at + 1, pattern.length - 1};
	if ((bound == '#' || bound == '%') &&
	    !pattern.length) { /* ${name/#/x} puts x in front of the value */
		p4d_shell__add_value(sh, b, bound == '#' ? by : value, quoted);
		p4d_shell__add_value(sh, b, bound == '#' ? value : by, quoted);
		return;
	}
	for (uint32_t i = 0; i < value.length && !sh->stopped;) {
		const p4d_value rest = {value.at + i, value.length - i};
		const uint32_t n = bound == '%' ? (p4d_shell__matches(sh, pattern, rest) ? rest.length : 0)
						: matched(sh, pattern, rest);
		p4d_shell__add_value(sh, b, n ? by : (p4d_value){rest.at, 1}, quoted);
		i += n ? n : 1;
		if (bound == '#' || (n && !all)) {
			p4d_shell__add_value(sh, b, p4d_shell__part(value, i, value.length - i), quoted);
			return;
		}
	}
}

p4d_value p4d_shell__subscript(p4d_shell *sh, p4d_shell_source inside)
{
	p4d_shell_build b = {0}, kept = {0};

	while (inside.at < inside.length && !sh->stopped) { /* a single word, which may contain blanks */
		const size_t before = inside.at;
		p4d_shell__word(sh, &inside, &b);
		if (inside.at == before) {
			p4d_shell__add(sh, &b, p4d_shell__cell(&inside, true));
			p4d_shell__advance(sh, &inside);
		}
	}
	for (uint32_t i = 0; i < b.length; i++)
		if (b.at[i].c || b.at[i].unknown)
			p4d_shell__add(sh, &kept, b.at[i]);
	return (p4d_value){kept.at, kept.length};
}

/* Reads the subscript: [@], [*], or the number or key of an element. */
static void subscript(p4d_shell *sh, p4d_shell_source *s, reference *r)
{
	p4d_shell__advance(sh, s);
	p4d_shell_source inside = *s;
	p4d_shell__skip_nested(sh, s, '[', ']');
	inside.length = s->at > inside.at ? s->at - 1 : s->at;
	const char c = p4d_shell__peek(&inside, 0);
	const bool whole = (c == '@' || c == '*') && inside.length - inside.at == 1;
	p4d_shell_var *v = p4d_shell__lookup(sh, r->name);
	const p4d_shell_words values = v ? v->value : (p4d_shell_words){0};

	if (whole) {
		r->all = true;
		r->joined = c == '*';
		r->at = values.count ? values.at : NULL;
		r->count = values.count;
		return;
	}
	int64_t index = 0;
	const p4d_value text = p4d_shell__subscript(sh, inside);
	r->at = NULL;
	r->count = 0;
	if (r->unknown) /* input that p4d could not read may set the element */
		return;
	if (v && !p4d_shell__index(sh, v, text, &index, &r->unknown))
		return;
	r->unknown = 0;
	if (v && index >= 0 && index < (int64_t)values.count) {
		r->at = values.at + index;
		r->count = 1;
	}
}

/* Adds ${name:OFFSET:LENGTH}: a part of the characters, or of the words. */
static void slice(p4d_shell *sh, p4d_shell_source *s, p4d_shell_source end, p4d_shell_build *b, reference *r,
		  p4d_cell where)
{
	int64_t from, length, most = INT64_MAX;
	uint16_t unknown = 0;
	p4d_shell_source middle = *s;

	while (middle.at < end.at && p4d_shell__peek(&middle, 0) != ':')
		middle.at++;
	p4d_shell_source first = *s;
	first.length = middle.at;
	middle.at += middle.at < end.at;
	middle.length = end.at;
	if (!p4d_shell__number(sh, p4d_shell__subscript(sh, first), &from, &unknown) ||
	    (middle.at < end.at &&
	     !p4d_shell__number(sh, p4d_shell__subscript(sh, middle), &most, &unknown))) {
		add_unknown(sh, b, where, unknown, where.quoted);
		return;
	}
	unknown = r->all     ? p4d_shell__any_number(r->at, r->count)
		  : r->count ? p4d_value_unknown(r->at[0])
			     : 0;
	if (unknown) {
		add_unknown(sh, b, where, unknown, where.quoted);
		return;
	}
	if (r->parameters && from == 0 &&
	    sh->in.parameters.count) { /* for parameters, offset 0 begins with $0 */
		r->at = sh->in.parameters.at;
		r->count = sh->in.parameters.count;
	} else if (r->parameters && from > 0) {
		from--;
	}
	length = r->all ? (int64_t)r->count : r->count ? (int64_t)r->at[0].length : 0;
	from = from < 0 ? from + length : from;
	if (from < 0 || from > length)
		from = length;
	most = most < 0 ? length - from + most : most;
	length = most < 0 ? 0 : most < length - from ? most : length - from;
	if (r->all) {
		r->at = length ? r->at + from : NULL;
		r->count = (size_t)length;
		add_values(sh, b, r, where.quoted);
	} else if (r->count) {
		p4d_shell__add_value(sh, b, p4d_shell__part(r->at[0], (uint32_t)from, (uint32_t)length),
				     where.quoted);
	}
}

static void operate(p4d_shell *sh, p4d_shell_source *s, p4d_shell_source end, p4d_shell_build *b,
		    reference *r, bool quoted);

/* Evaluates ${name[@] OPERATOR word} for each element: ${ARGS[@]/#/--}. */
static void operate_each(p4d_shell *sh, p4d_shell_source *s, p4d_shell_source end, p4d_shell_build *b,
			 const reference *r, bool quoted)
{
	const p4d_shell_source start = *s;
	p4d_shell_words results = {0};
	reference one = *r, all = *r;

	one.count = 1;
	one.all = false;
	for (size_t i = 0; i < r->count && !sh->stopped; i++) {
		p4d_shell_build part = {0}, whole = {0};
		*s = start;
		one.at = &r->at[i];
		operate(sh, s, end, &part, &one, true);
		p4d_shell__add_value(sh, &whole, p4d_shell__joined(sh, &part), false);
		p4d_shell__add_word(sh, &results, (p4d_value){whole.at, whole.length});
	}
	all.at = results.at;
	all.count = results.count;
	add_values(sh, b, &all, quoted);
}

/* Evaluates ${name OPERATOR word}, from the current position to `end`, the closing brace. */
static void operate(p4d_shell *sh, p4d_shell_source *s, p4d_shell_source end, p4d_shell_build *b,
		    reference *r, bool quoted)
{
	p4d_cell where = p4d_shell__cell(s, quoted);
	const bool slices = p4d_shell__peek(s, 0) == ':',
		   colon = slices && p4d_shell__peek(s, 1) && strchr("-=+?", p4d_shell__peek(s, 1));
	if (slices)
		p4d_shell__advance(sh, s);
	where.unknown = 0;
	if (slices && !colon && (r->at || r->all)) {
		slice(sh, s, end, b, r, where);
		return;
	}
	char c = p4d_shell__peek(s, 0);
	if (c && r->all && r->count > 1 && strchr("#%/^,", c)) {
		operate_each(sh, s, end, b, r, quoted);
		return;
	}
	const bool empty = !r->at || (colon && r->count == 1 && !r->at[0].length);
	p4d_shell__advance(sh, s);
	bool twice = c && p4d_shell__peek(s, 0) == c && strchr("#%/^,", c);
	if (twice)
		p4d_shell__advance(sh, s);

	if (strchr("-=?", c) && empty) {
		p4d_shell_build word = operand(sh, s, end, quoted, false);
		if (c == '?') {
			add_unset(sh, b, where, r->name, quoted);
			return;
		}
		if (c == '=')
			p4d_shell__assign(sh, sh->mode, r->name, p4d_shell__joined(sh, &word), false,
					  s->line);
		add_operand(sh, b, word, quoted);
	} else if (strchr("-=?", c)) {
		add_values(sh, b, r, quoted);
	} else if (c == '+') {
		if (!empty)
			add_operand(sh, b, operand(sh, s, end, quoted, false), quoted);
	} else if (!r->at && !r->all) {
		add_unset(sh, b, where, r->name, quoted);
	} else if (r->count != 1 || p4d_value_unknown(r->at[0])) {
		add_unknown(sh, b, where,
			    r->count == 1
				? p4d_value_unknown(r->at[0])
				: p4d_shell__reason(sh, "${%.*s...} of an array",
						    (int)(r->name.length < 64 ? r->name.length : 64),
						    r->name.text),
			    quoted);
	} else if (c == '#' || c == '%') {
		p4d_shell__add_value(
		    sh, b, cut(sh, r->at[0], pattern_of(sh, s, end, quoted), c == '#', twice), quoted);
	} else if (c == '/') {
		p4d_shell_source middle = *s;
		while (middle.at < end.at && p4d_shell__peek(&middle, 0) != '/')
			middle.at += p4d_shell__peek(&middle, 0) == '\\' ? 2 : 1;
		if (middle.at > end.at)
			middle.at = end.at;
		p4d_value pattern = pattern_of(sh, s, middle, quoted);
		if (middle.at < end.at)
			middle.at++;
		const p4d_value by = pattern_of(sh, &middle, end, quoted);
		if (p4d_value_unknown(pattern))
			add_unknown(sh, b, where, p4d_value_unknown(pattern), quoted);
		else
			replace(sh, b, r->at[0], pattern, by, twice, quoted);
	} else if (c == '^' || c == ',') {
		for (uint32_t i = 0; i < r->at[0].length; i++) {
			p4d_cell cell = r->at[0].at[i];
			cell.quoted = quoted;
			if (!i || twice)
				cell.c = (char)(c == '^' ? toupper((unsigned char)cell.c)
							 : tolower((unsigned char)cell.c));
			p4d_shell__add(sh, b, cell);
		}
	} else {
		add_unknown(sh, b, where, p4d_shell__reason(sh, "an expansion (line %u)", where.line),
			    quoted);
	}
}

/*
 * Evaluates ${name OPERATOR word} for an unknown parameter. With := it stays unknown; with :+ the result may
 * be the word, or empty.
 */
static void operate_unknown(p4d_shell *sh, p4d_shell_source *s, p4d_shell_source end, p4d_shell_build *b,
			    const reference *r, p4d_cell where)
{
	uint16_t reason = r->unknown;

	if (p4d_shell__peek(s, 0) == ':')
		p4d_shell__advance(sh, s);
	const char c = p4d_shell__peek(s, 0);
	if (c == '=')
		p4d_shell__assign(sh, sh->mode, r->name, p4d_shell__not_known(sh, reason), false, s->line);
	if (c != '+') {
		add_unknown_reference(sh, b, where, r);
		return;
	}
	p4d_shell__advance(sh, s);
	p4d_shell_build word = operand(sh, s, end, where.quoted, false);
	reason = p4d_shell__reason(sh, "line %u: %s", where.line, p4d_shell_unknown(sh, reason));
	p4d_shell__may_be(sh, reason, p4d_shell__joined(sh, &word));
	add_unknown(sh, b, where, reason, where.quoted);
}

/* Reads ${!NAME[@]}: the keys of a map, or the indices of an array. */
static bool keys(p4d_shell *sh, p4d_shell_source *s, reference *r)
{
	p4d_shell_var *v = p4d_shell__lookup(sh, r->name);
	p4d_shell_words numbers = {0};

	subscript(sh, s, r);
	if (!r->all || (v && (v->lost || p4d_shell__any_number(v->value.at, v->value.count))))
		return false;
	if (!v || v->map) {
		r->count = v ? v->key.count : 0;
		r->at = r->count ? v->key.at : NULL;
		return true;
	}
	for (uint32_t i = 0; i < v->value.count; i++)
		p4d_shell__add_word(sh, &numbers, p4d_shell__digits(sh, i, (p4d_cell){0}));
	r->at = numbers.at;
	r->count = numbers.count;
	return true;
}

/* Expands a parameter. The depth of nesting is limited, because a hostile text may nest without bounds. */
void p4d_shell__parameter(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted)
{
	p4d_shell_source inside = *s, end;
	p4d_cell where = p4d_shell__cell(s, quoted);
	bool length = false;

	p4d_shell__skip_nested(sh, s, '{', '}');
	end = *s;
	end.at -= end.at > inside.at;
	inside.length = end.at;
	inside.body_end = 0;
	if (++sh->depth > P4D_SHELL_DEPTH)
		p4d_shell__stop(sh, "the script is nested too deep to read");
	if (p4d_shell__peek(&inside, 0) == '#' && inside.length - inside.at > 1) {
		length = true;
		p4d_shell__advance(sh, &inside);
	}
	const bool indirect = p4d_shell__peek(&inside, 0) == '!';
	if (indirect)
		p4d_shell__advance(sh, &inside);
	size_t n = p4d_shell__name_length(&inside, 0);
	const bool named = n > 0;
	while (!named && isdigit((unsigned char)p4d_shell__peek(
			     &inside, n))) /* a parameter with several digits, such as ${10} */
		n++;
	if (!n && p4d_shell__peek(&inside, 0))
		n = 1;
	p4d_shell_name name = {inside.text + inside.at, n};
	for (size_t i = 0; i < n; i++)
		p4d_shell__advance(sh, &inside);
	if (!n || sh->stopped) {
		sh->depth--;
		return;
	}
	reference r = look_up(sh, name);
	bool known = true;
	if (indirect && p4d_shell__peek(&inside, 0) == '[')
		known = keys(sh, &inside, &r);
	else if (indirect && r.count == 1 && !p4d_value_unknown(r.at[0]) && r.at[0].length)
		r = look_up(sh, p4d_shell__name_of(sh, r.at[0]));
	else if (indirect)
		known = false;
	if (!indirect && p4d_shell__peek(&inside, 0) == '[')
		subscript(sh, &inside, &r);
	if (r.unknown) {
		operate_unknown(sh, &inside, end, b, &r, where);
	} else if (!known) {
		add_unknown(sh, b, where,
			    p4d_shell__reason(sh, "an element of $%.*s", (int)(n < 64 ? n : 64), name.text),
			    quoted);
	} else if (length) {
		if (r.all)
			add_count(sh, b, where, r.at, r.count);
		else if (r.count == 1 && !p4d_value_unknown(r.at[0]))
			add_number(sh, b, where, r.at[0].length);
		else
			add_unset(sh, b, where, name, quoted);
	} else if (inside.at < inside.length) {
		operate(sh, &inside, end, b, &r, quoted);
	} else if (!r.at && !r.all) {
		add_unset(sh, b, where, name, quoted);
	} else {
		add_values(sh, b, &r, quoted);
	}
	sh->depth--;
}
