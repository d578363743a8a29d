/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the values of a reading. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/text.h"
#include "reader/reader_internal.h"

const char *const p4d_reader__list[] = {NULL}, *const p4d_reader__first[] = {NULL},
		  *const p4d_reader__there[] = {NULL}, *const p4d_reader__beside[] = {NULL};

bool p4d_reader__set(const p4d_read_value *value)
{
	return value->file != NULL;
}

uint64_t p4d_reader__number(const p4d_read_value *value)
{
	uint64_t number;

	return value->file && p4d_number_whole(value->text, 1, UINT32_MAX, &number) ? number : 0;
}

const p4d_read_value *p4d_reading_argument(const p4d_reading *r, const char *argument)
{
	for (int i = 0; i < (int)P4D_OPTIONS + P4D_READ_EXTRAS; i++) {
		const p4d_read_value *v =
		    i < (int)P4D_OPTIONS ? &r->value[i] : &r->extra[i - (int)P4D_OPTIONS];
		if (v->argument && !strcmp(v->argument, argument))
			return v;
	}
	return NULL;
}

bool p4d_reader__is(const p4d_read_value *value, const char *text)
{
	return value->file && !strcmp(value->text, text);
}

bool p4d_reader__is_zero(const p4d_read_value *value)
{
	return p4d_reader__set(value) && strspn(value->text, "0.") == strlen(value->text);
}

p4d_read_value *p4d_reader__slot(p4d_reading *r, int what)
{
	return what >= (int)P4D_OPTIONS ? &r->extra[what - (int)P4D_OPTIONS] : &r->value[what];
}

p4d_read_unknown *p4d_reader__unknown(p4d_reading *r, const char *name, const char *format, ...)
{
	char why[sizeof(r->unknown[0].why)];
	va_list values;

	va_start(values, format);
	vsnprintf(why, sizeof(why), format, values);
	va_end(values);
	for (unsigned i = 0; i < r->unknowns; i++)
		if (!strcmp(r->unknown[i].name, name) && !strcmp(r->unknown[i].why, why))
			return &r->unknown[i];
	if (r->unknowns >= P4D_READ_UNKNOWNS - 1) { /* one entry is reserved for p4d_reader__end_unknowns */
		r->many_unknowns = true;
		return NULL;
	}
	p4d_read_unknown *u = &r->unknown[r->unknowns++];
	snprintf(u->name, sizeof(u->name), "%s", name);
	memcpy(u->why, why, sizeof(why));
	return u;
}

void p4d_reader__doubt(p4d_reading *r, const char *name, const char *why)
{
	p4d_read_unknown *u = p4d_reader__unknown(r, name, "%s", why);

	if (u)
		u->doubt = true;
}

void p4d_reader__ignore_unknown(p4d_reading *r, const char *name)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < r->unknowns; i++)
		if (strcmp(r->unknown[i].name, name) != 0)
			r->unknown[kept++] = r->unknown[i];
	r->unknowns = kept;
}

const char p4d_reader__evaluates[] = "the program only evaluates or predicts";

/* Removes the unknown values of an argument that has a new value, such as one of a file that the command line
 * overrides. */
static void supersede(p4d_reading *r, const p4d_read_argument *a)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < r->unknowns; i++)
		if (r->unknown[i].argument != a->name)
			r->unknown[kept++] = r->unknown[i];
	r->unknowns = kept;
}

void p4d_reader__trains_nothing(p4d_reading *r, const char *name, const char *why)
{
	r->trains_nothing = true;
	p4d_reader__unknown(r, name, "%s", why);
}

void p4d_reader__end_unknowns(p4d_reading *r)
{
	p4d_read_unknown *last = &r->unknown[r->unknowns];

	if (!r->many_unknowns)
		return;
	r->more_arguments = true;
	*last = (p4d_read_unknown){.name = "arguments"};
	snprintf(last->why, sizeof(last->why), "more than %d values are unknown", P4D_READ_UNKNOWNS - 1);
	r->unknowns++;
}

static void put(p4d_read_value *value, const p4d_read_value *place, const char *format, va_list values)
{
	char text[sizeof(value->text)];

	/* formatted into a copy, because an argument may be the text of this value */
	vsnprintf(text, sizeof(text), format, values);
	*value = *place;
	value->unknown = false;
	memcpy(value->text, text, sizeof(text));
}

void p4d_reader__put(p4d_reading *r, p4d_option option, const p4d_read_value *place, const char *format, ...)
{
	va_list values;

	if (place->unknown) {
		p4d_reader__forget(r, option);
		return;
	}
	va_start(values, format);
	put(&r->value[option], place, format, values);
	va_end(values);
	r->by_default[option] = false;
}

void p4d_reader__put_default(p4d_reading *r, p4d_option option, const char *format, ...)
{
	va_list values;

	/* p4d does not know the defaults of a program that it has not recognized */
	if (r->value[option].unknown || !r->named)
		return;
	va_start(values, format);
	put(&r->value[option], &(p4d_read_value){.file = r->reader->framework}, format, values);
	va_end(values);
	r->by_default[option] = true;
}

void p4d_reader__forget(p4d_reading *r, p4d_option option)
{
	r->value[option] = (p4d_read_value){.unknown = true};
	r->by_default[option] = false;
}

void p4d_reader__leave_out(p4d_reading *r, p4d_option option)
{
	r->value[option] = (p4d_read_value){.file = NULL};
	r->by_default[option] = false;
}

bool p4d_reader__same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
			return false;
	return *a == *b;
}

const p4d_read_argument *p4d_reader__find(const p4d_reader *reader, const char *name)
{
	/* the first letter after "--" decides quickly, because it differs for most names; '\0': there is
	 * none */
	const char first = name[0] && name[1] && name[2] != '-' && name[2] != '_' ? name[2] : '\0';

	for (int i = 0; i < P4D_READ_TABLES && reader->arguments[i]; i++)
		for (const p4d_read_argument *a = reader->arguments[i]; a->name; a++) {
			if (first && a->name[0] && a->name[1] && a->name[2] != first)
				continue;
			if (p4d_reader__same_name(name, a->name))
				return a;
		}
	return NULL;
}

bool p4d_reading_takes(const p4d_reading *r, const char *argument)
{
	return p4d_reader__find(r->reader, argument);
}

static const char *name_of(const p4d_read_argument *a)
{
	return a->what >= 0 && a->what < (int)P4D_OPTIONS ? p4d_request_option_info((p4d_option)a->what)->name
							  : a->name + strspn(a->name, "-");
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (!strcasecmp(text, *words))
			return true;
	return false;
}

/* p4d's word for the program's word; NULL: unknown. */
static const char *word_of(const p4d_read_argument *a, const char *text)
{
	if (!a->words || a->words == p4d_reader__list)
		return text;
	for (const char *const *pair = a->words; pair[0]; pair += 2)
		if (!strcmp(pair[0], text))
			return pair[1];
	return NULL;
}

bool p4d_reading_knows(const p4d_reading *r, const char *argument, const char *value)
{
	const p4d_read_argument *a = p4d_reader__find(r->reader, argument);
	const bool modelled = a && a->what != P4D_READ_NOT_MODELLED;

	if (!a || !a->words || (a->value && modelled))
		return !a || modelled;
	const char *word = word_of(a, value);
	return word && (modelled || !*word);
}

int p4d_reading_option(const p4d_reading *r, const char *argument)
{
	const p4d_read_argument *a = p4d_reader__find(r->reader, argument);

	return a && a->what >= 0 && a->what < (int)P4D_OPTIONS ? a->what : -1;
}

/* Whether this argument alone decides the option. */
static bool says(const p4d_reading *r, const p4d_read_argument *argument, p4d_option option)
{
	for (const p4d_read_alias *a = r->reader->aliases; a && a->option != P4D_OPTIONS; a++)
		if (a->option == option && argument->what == P4D_READ_EXTRA(a->extra))
			return true;
	return argument->what == (int)option;
}

/*
 * Whether the name fits the release. Some releases have dots in the names of arguments, others have none; the
 * script's argument for the model shows which one it uses.
 */
static bool has_style(const p4d_reading *r, const char *name)
{
	const char *model = r->value[P4D_MODEL].argument;

	return !model || !strchr(model, '.') == !strchr(name, '.');
}

const char *p4d_reading_release(const p4d_reading *r)
{
	return r->reader->release;
}

const char *p4d_reading_framework(const p4d_reading *r)
{
	return r->reader->framework;
}

const char *p4d_reading_name(const p4d_reading *r, p4d_option option)
{
	const char *first = NULL;

	for (int i = 0; i < P4D_READ_TABLES && r->reader->arguments[i]; i++)
		for (const p4d_read_argument *a = r->reader->arguments[i]; a->name; a++) {
			if (!says(r, a, option))
				continue;
			if (has_style(r, a->name))
				return a->name;
			first = first ? first : a->name;
		}
	return first;
}

const char *p4d_reading_processes(const p4d_reading *r)
{
	const p4d_read_variable *v = r->reader->variables;

	while (v && v->name && strcmp(v->argument, "--gpus-per-node") != 0)
		v++;
	return v ? v->name : NULL;
}

bool p4d_reading_assigns(const p4d_reading *r)
{
	return r->reader->assignments;
}

/* The program's word for a word of p4d; NULL: the program has none. */
static const char *program_word(const p4d_read_argument *a, const char *text)
{
	for (const char *const *pair = a->words; pair[0]; pair += 2)
		if (!strcmp(pair[1], text))
			return pair[0];
	return NULL;
}

bool p4d_reading_say(const p4d_reading *r, const char *argument, p4d_option option, const char *text,
		     char *buf, size_t size)
{
	const p4d_read_argument *a = p4d_reader__find(r->reader, argument);
	const bool number = p4d_request_option_info(option)->kind == P4D_INTEGER_KIND;
	const char *word = NULL;

	if (!a)
		return false;
	if (a->value && says(r, a, option))
		word = !strcmp(a->value, text)                  ? "true"
		       : a->words && !strcmp(a->words[0], text) ? "false"
								: NULL;
	else if (!a->value && a->words && a->words != p4d_reader__list)
		word = program_word(a, text);
	else if (!a->value &&
		 (says(r, a, option) || number)) /* the option is this extra value of the reader, a number */
		word = text;
	if (word)
		snprintf(buf, size, "%s", word);
	return word;
}

const char *p4d_reading_beside(const p4d_reading *r, const char *argument, const char *word,
			       const char **value)
{
	const p4d_read_beside *b = r->reader->beside;

	if (!b || strcmp(b->argument, argument) != 0 || strcmp(b->word, word) != 0)
		return NULL;
	const p4d_read_value *given = p4d_reading_argument(r, b->other);
	*value = b->value;
	return given && !strcmp(given->text, b->value) ? NULL : b->other;
}

/* Whether accelerate launch starts the program, with its own options on the command line. */
static bool is_accelerated(const p4d_reading *r)
{
	static const char prefix[] = "--accelerate.";

	for (int i = 0; i < P4D_READ_EXTRAS; i++)
		if (r->extra[i].argument && !strncmp(r->extra[i].argument, prefix, sizeof(prefix) - 1))
			return !strchr(r->extra[i].argument + sizeof(prefix) - 1, '.');
	return false;
}

const char *p4d_reading_shards(const p4d_reading *r, const char *framework, int64_t zero_stage,
			       bool *launcher)
{
	const bool accelerated = is_accelerated(r);

	for (const p4d_read_shards *s = r->reader->shards; s && s->framework; s++)
		if (!strcmp(s->framework, framework) && s->zero_stage == zero_stage &&
		    s->launcher == accelerated && !p4d_reading_argument(r, s->argument)) {
			*launcher = s->launcher;
			return s->words;
		}
	return NULL;
}

/* Stores a switch that the command line turns off. */
static void take_off(p4d_reading *r, const p4d_read_argument *a, p4d_read_value *place)
{
	p4d_read_value *slot = a->what >= 0 ? p4d_reader__slot(r, a->what) : NULL;

	if (slot && a->words) {
		snprintf(place->text, sizeof(place->text), "%s", a->words[0]);
		*slot = *place;
		if (a->what < (int)P4D_OPTIONS)
			r->by_default[a->what] = false;
	} else if (slot && p4d_reader__is(slot, a->value)) {
		*slot = (p4d_read_value){.file = NULL};
	}
}

void p4d_reader__lose(p4d_reading *r, const p4d_read_argument *a)
{
	*p4d_reader__slot(r, a->what) = (p4d_read_value){.unknown = true};
	if (a->what < (int)P4D_OPTIONS)
		r->by_default[a->what] = false;
	for (const p4d_read_alias *o = r->reader->aliases; o && o->option != P4D_OPTIONS; o++)
		if (r->by_default[o->option] && a->what == P4D_READ_EXTRA(o->extra))
			p4d_reader__forget(r, o->option);
}

void p4d_reader__take_perhaps(p4d_reading *r, const p4d_read_argument *a, const char *why)
{
	if (a->what >= 0)
		p4d_reader__lose(r, a);
	p4d_reader__unknown(r, name_of(a), "%s", why);
}

static void take(p4d_reading *r, const p4d_read_argument *a, const p4d_read_given *given)
{
	static const char *const off[] = {"false", "no", "off", "none", "null", "0", "0.0", "f", "n", NULL};
	const char *name = name_of(a);
	p4d_read_value found = {.file = given->file,
				.line = given->line,
				.named_file = given->named_file,
				.named_line = given->named_line,
				.argument = a->name};

	if (a->value && is_one_of(given->value, off)) {
		take_off(r, a, &found);
		return;
	}
	if (a->what == P4D_READ_SAVES) {
		p4d_read_unknown *u =
		    p4d_reader__unknown(r, name, "%s (%.60s:%u) takes less memory than p4d counts",
					given->name, found.file, found.line);
		if (u)
			u->doubt = true;
		return;
	}
	if (a->what == P4D_READ_TRAINS_NOTHING && !given->unknown) {
		p4d_reader__trains_nothing(r, name, p4d_reader__evaluates);
		return;
	}
	if (a->what == P4D_READ_NOT_MODELLED || a->what == P4D_READ_TRAINS_NOTHING) {
		const char *word = !a->value && a->words && given->value ? word_of(a, given->value) : NULL;
		if (word && !*word)
			return;
		p4d_reader__unknown(r, name, "%s%s (%.60s:%u) is not modelled",
				    given->name[0] == '-' && a->name[0] != '-' ? "--" : "", given->name,
				    found.file, found.line);
		return;
	}
	p4d_read_value *slot = p4d_reader__slot(r, a->what);
	*slot = (p4d_read_value){.unknown = true}; /* unknown until the value is read */
	if (a->words == p4d_reader__there) {
		/* programs treat an empty text like a missing value */
		snprintf(found.text, sizeof(found.text), "on");
		*slot = given->unknown || *given->value ? found : (p4d_read_value){.file = NULL};
		return;
	}
	if (given->unknown) { /* for example --switch=$X, or a switch in a file */
		p4d_reader__unknown(r, name, "%s", given->unknown);
		return;
	}
	if (!a->value && !*given->value) {
		p4d_reader__unknown(r, name, "%s (%.60s:%u) has no value", given->name, found.file,
				    found.line);
		return;
	}
	const char *word = a->value ? a->value : word_of(a, given->value);
	if (!word) {
		p4d_reader__unknown(r, name, "%s %.60s is not modelled", given->name, given->value);
		return;
	}
	if (!*word)
		return; /* the word sets nothing */
	snprintf(found.text, sizeof(found.text), "%s", word);
	/* Python's int() accepts underscores, as in "32_000" */
	if (strspn(found.text, "0123456789_") == strlen(found.text) &&
	    isdigit((unsigned char)found.text[0])) {
		size_t digits = 0;
		for (const char *c = found.text; *c; c++)
			if (*c != '_')
				found.text[digits++] = *c;
		found.text[digits] = '\0';
	}
	*slot = found;
	if (a->what < (int)P4D_OPTIONS)
		r->by_default[a->what] = false;
}

void p4d_reader__take(p4d_reading *r, const p4d_read_argument *a, const p4d_read_given *given)
{
	supersede(r, a);
	const unsigned before = r->unknowns;
	take(r, a, given);
	for (unsigned i = before; i < r->unknowns && !r->trains_nothing; i++)
		r->unknown[i].argument = a->name;
}

void p4d_reader__check(p4d_reading *r)
{
	int64_t number;

	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		const p4d_read_value v = r->value[i];
		if (!v.file || r->by_default[i] || info->kind == P4D_TEXT_KIND ||
		    p4d_request_parse((p4d_option)i, "", v.text, &number, NULL) == 0)
			continue;
		p4d_reader__forget(r, (p4d_option)i);
		p4d_reader__unknown(r, info->name, "p4d does not know the value %.60s (%.60s:%u)", v.text,
				    v.file, v.line);
	}
}

static bool applies(const p4d_reading *r, const p4d_read_filling *row)
{
	const char *blank = strrchr(r->program, ' ');

	if (row->what == P4D_READ_PROGRAM)
		return blank && !strcmp(blank + 1, row->text);
	return p4d_reader__is(p4d_reader__slot((p4d_reading *)r, row->what), row->text);
}

/* The first row of the table that applies; NULL: none. */
static const p4d_read_filling *filling_of(const p4d_reading *r)
{
	for (const p4d_read_filling *row = r->reader->filling; row && row->text; row++)
		if (applies(r, row))
			return row;
	return NULL;
}

static bool is_bound(const p4d_reading *r, const p4d_read_value *length)
{
	for (const char *const *name = r->reader->bounds; name && *name; name++)
		if (length->argument ? !strcmp(length->argument, *name)
				     : !**name && r->by_default[P4D_SEQ_LEN])
			return true;
	return false;
}

void p4d_reader__padding(p4d_reading *r)
{
	const p4d_read_value *length = &r->value[P4D_SEQ_LEN];
	const p4d_read_filling *row = filling_of(r);

	if (!r->named || !p4d_reader__set(length) || p4d_reader__set(&r->value[P4D_PADDING]) ||
	    !is_bound(r, length))
		return;
	const p4d_read_value *why =
	    row && row->what != P4D_READ_PROGRAM ? p4d_reader__slot(r, row->what) : length;
	const char *padding = row && row->fills ? "max-length" : "longest";
	if (why->line || why->argument)
		p4d_reader__put(r, P4D_PADDING, why, "%s", padding);
	else
		p4d_reader__put_default(r, P4D_PADDING, "%s", padding);
}

/* Sets CUDA graphs. Without a scope, they capture the whole layer (transformer_config.py). */
void p4d_reader__graphs(p4d_reading *r, const p4d_read_value *whose, const p4d_read_value *scope)
{
	static const struct {
		const char *scope, *captured;
	} scopes[] = {{"", "layers"}, {"full", "layers"},     {"attn", "attention"},
		      {"mlp", "mlp"}, {"attn,mlp", "layers"}, {"mlp,attn", "layers"}};
	const bool sparse =
	    p4d_reader__set(&r->value[P4D_EXPERTS]) || p4d_reader__set(&r->value[P4D_KV_LORA_RANK]);
	const char *captured = p4d_reader__set(scope) ? scope->text : "";

	if (!p4d_reader__set(whose) || !strcmp(whose->text, "none"))
		return;
	if (!strcmp(whose->text, "transformer_engine") && !scope->unknown && !sparse)
		for (size_t i = 0; i < sizeof(scopes) / sizeof(*scopes); i++)
			if (!strcmp(captured, scopes[i].scope)) {
				p4d_reader__put(r, P4D_CUDA_GRAPHS, whose, "%s", scopes[i].captured);
				return;
			}
	p4d_reader__unknown(r, "cuda-graphs", "CUDA graphs (%.40s%s%.60s)%s are not modelled", whose->text,
			    *captured ? ", " : "", captured,
			    sparse ? " with experts or latent attention" : "");
}

/* Replaces control characters of a script by escapes such as "\x1b", because p4d prints these texts. */
static void make_printable(char *text, size_t size)
{
	char escaped[sizeof(((p4d_read_value *)0)->text)];
	p4d_text to = p4d_text_in(escaped, size < sizeof(escaped) ? size : sizeof(escaped));

	p4d_text_escaped(&to, text);
	memcpy(text, escaped, strlen(escaped) + 1);
}

void p4d_reader__make_printable(p4d_reading *r)
{
	make_printable(r->program, sizeof(r->program));
	make_printable(r->comment, sizeof(r->comment));
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (r->value[i].file)
			make_printable(r->value[i].text, sizeof(r->value[i].text));
	for (unsigned i = 0; i < r->unknowns; i++) {
		make_printable(r->unknown[i].name, sizeof(r->unknown[i].name));
		make_printable(r->unknown[i].why, sizeof(r->unknown[i].why));
	}
}
