/* SPDX-License-Identifier: Apache-2.0 */
#include "data/splitter.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "data/pattern.h"

/* GPT-2's pattern for words, which is built into the step type ByteLevel. */
static const char WORDS[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* What a step does with matches, and with the text between them. */
typedef enum behavior { ISOLATED, REMOVED, CONTIGUOUS, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT } behavior;

static const char *const behaviors[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
					"MergedWithNext"};

/*
 * A step. SPLIT splits by a pattern. REWRITE replaces blanks by another text, and may add that text at the
 * beginning.
 */
typedef struct p4d_splitter_step {
	enum { SPLIT, REWRITE } kind;
	p4d_pattern pattern;
	behavior behavior;
	bool invert;
	enum { NEVER, FIRST, ALWAYS } prefixed;
	char *blank;  /* text that replaces a blank */
	char *buffer; /* the text after rewriting */
	size_t room;
} split_step;

/* State of a text that passes through the steps. */
typedef struct split_walk {
	const p4d_splitter *splitter;
	p4d_word_sink sink;
	void *context;
	p4d_error *err;
} split_walk;

static split_step *add_step(p4d_splitter *splitter, p4d_error *err)
{
	split_step *more = reallocarray(splitter->steps, splitter->count + 1, sizeof(*more));

	if (!more) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a tokenizer");
		return NULL;
	}
	splitter->steps = more;
	more[splitter->count] = (split_step){.kind = SPLIT};
	return &more[splitter->count++];
}

static int add_split(p4d_splitter *splitter, const char *pattern, bool literal, behavior what, bool invert,
		     p4d_error *err)
{
	split_step *added = add_step(splitter, err);

	if (!added)
		return -1;
	added->behavior = what;
	added->invert = invert;
	return p4d_pattern__open(&added->pattern, pattern, literal, err);
}

static int add_rewrite(p4d_splitter *splitter, const char *blank, int prefixed, p4d_error *err)
{
	split_step *added = add_step(splitter, err);

	if (!added)
		return -1;
	added->kind = REWRITE;
	added->prefixed = prefixed;
	added->blank = strdup(blank);
	return added->blank ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a tokenizer");
}

static bool flag(struct json_object *description, const char *name, bool otherwise)
{
	struct json_object *member = json_object_object_get(description, name);

	return member ? json_object_get_boolean(member) : otherwise;
}

static const char *text_of(struct json_object *description, const char *name)
{
	struct json_object *member = json_object_object_get(description, name);

	return json_object_is_type(member, json_type_string) ? json_object_get_string(member) : "";
}

static int unknown(struct json_object *description, p4d_error *err)
{
	return p4d_fail(err, P4D_E_VALUE, "the tokenizer's pre-tokenizer %.160s is not supported",
			json_object_to_json_string(description));
}

static int open_sequence(p4d_splitter *splitter, struct json_object *description, p4d_error *err)
{
	struct json_object *list = json_object_object_get(description, "pretokenizers");
	int rc = json_object_is_type(list, json_type_array) ? 0 : unknown(description, err);

	for (size_t i = 0; rc == 0 && i < json_object_array_length(list); i++)
		rc = p4d_splitter__open(splitter, json_object_array_get_idx(list, i), err);
	return rc;
}

static int open_byte_level(p4d_splitter *splitter, struct json_object *description, p4d_error *err)
{
	splitter->byte_level = true;
	if (flag(description, "add_prefix_space", true) && add_rewrite(splitter, " ", ALWAYS, err) < 0)
		return -1;
	return flag(description, "use_regex", true) ? add_split(splitter, WORDS, false, ISOLATED, false, err)
						    : 0;
}

static int open_split(p4d_splitter *splitter, struct json_object *description, p4d_error *err)
{
	struct json_object *pattern = json_object_object_get(description, "pattern");
	const char *name = text_of(description, "behavior");
	const char *regex = text_of(pattern, "Regex"), *literal = text_of(pattern, "String");
	size_t which = 0;

	while (which < sizeof(behaviors) / sizeof(*behaviors) && strcmp(name, behaviors[which]) != 0)
		which++;
	if (which == sizeof(behaviors) / sizeof(*behaviors) || (!*regex && !*literal))
		return unknown(description, err);
	return add_split(splitter, *regex ? regex : literal, !*regex, (behavior)which,
			 flag(description, "invert", false), err);
}

static int open_metaspace(p4d_splitter *splitter, struct json_object *description, p4d_error *err)
{
	const char *blank = text_of(description, "replacement"),
		   *scheme = text_of(description, "prepend_scheme");
	int prefixed = flag(description, "add_prefix_space", true) ? ALWAYS : NEVER;

	if (*scheme)
		prefixed = !strcmp(scheme, "always") ? ALWAYS : !strcmp(scheme, "first") ? FIRST : NEVER;
	if (!*blank)
		return unknown(description, err);
	if (add_rewrite(splitter, blank, prefixed, err) < 0)
		return -1;
	return flag(description, "split", true)
		   ? add_split(splitter, blank, true, MERGED_WITH_NEXT, false, err)
		   : 0;
}

static int open_digits(p4d_splitter *splitter, struct json_object *description, p4d_error *err)
{
	return add_split(splitter, "\\p{N}", false,
			 flag(description, "individual_digits", false) ? ISOLATED : CONTIGUOUS, false, err);
}

int p4d_splitter__open(p4d_splitter *splitter, struct json_object *description, p4d_error *err)
{
	static const struct {
		const char *type;
		int (*open)(p4d_splitter *, struct json_object *, p4d_error *);
	} types[] = {
	    {"Sequence", open_sequence},   {"ByteLevel", open_byte_level}, {"Split", open_split},
	    {"Metaspace", open_metaspace}, {"Digits", open_digits},
	};
	const char *type = text_of(description, "type");

	if (!description)
		return 0;
	if (splitter->byte_level)
		return p4d_fail(err, P4D_E_VALUE,
				"the tokenizer's pre-tokenizer %.60s comes after ByteLevel, which is "
				"not supported",
				type);
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(type, types[i].type))
			return types[i].open(splitter, description, err);
	return unknown(description, err);
}

void p4d_splitter__close(p4d_splitter *splitter)
{
	for (size_t i = 0; i < splitter->count; i++) {
		p4d_pattern__close(&splitter->steps[i].pattern);
		free(splitter->steps[i].blank);
		free(splitter->steps[i].buffer);
	}
	free(splitter->steps);
	*splitter = (p4d_splitter){.count = 0};
}

static int go(const split_walk *w, size_t number, const char *text, size_t length, bool first);

/* Pieces that a step has found. The last piece waits, because the behavior may merge it with the next one. */
typedef struct pieces {
	const split_walk *walk;
	size_t next; /* index of the next step */
	const char *text;
	bool first;
	behavior behavior;
	size_t begin, end; /* the piece that waits; empty: none */
	bool matched;      /* whether the last piece was a match */
} pieces;

static int let_go(pieces *p)
{
	const size_t begin = p->begin, end = p->end;

	p->begin = p->end;
	return begin == end ? 0 : go(p->walk, p->next, p->text + begin, end - begin, p->first && begin == 0);
}

static bool joins(const pieces *p, bool match)
{
	switch (p->behavior) {
	case CONTIGUOUS:
		return match == p->matched;
	case MERGED_WITH_PREVIOUS:
		return match && !p->matched;
	case MERGED_WITH_NEXT:
		return !match && p->matched;
	case ISOLATED:
	case REMOVED:
		break;
	}
	return false;
}

static int add_piece(pieces *p, size_t begin, size_t end, bool match)
{
	if (begin == end)
		return 0;
	if ((p->begin == p->end || !joins(p, match)) && let_go(p) < 0)
		return -1;
	if (p->behavior != REMOVED || !match) {
		if (p->begin == p->end)
			p->begin = begin;
		p->end = end;
	}
	p->matched = match;
	return 0;
}

static int split(const split_walk *w, size_t number, const char *text, size_t length, bool first)
{
	const split_step *s = &w->splitter->steps[number];
	pieces p = {.walk = w, .next = number + 1, .text = text, .first = first, .behavior = s->behavior};
	size_t done = 0, from = 0, begin, end;
	int found;

	while (from <= length &&
	       (found = p4d_pattern__next(&s->pattern, text, length, from, &begin, &end, w->err)) != 0) {
		if (found < 0 || add_piece(&p, done, begin, s->invert) < 0 ||
		    add_piece(&p, begin, end, !s->invert) < 0)
			return -1;
		done = from = end;
		if (begin == end) /* an empty match: continue after the next character */
			do
				from++;
			while (from < length && ((unsigned char)text[from] & 0xc0) == 0x80);
	}
	return add_piece(&p, done, length, s->invert) < 0 ? -1 : let_go(&p);
}

static int reserve(split_step *s, size_t size, p4d_error *err)
{
	return p4d_grow(&s->buffer, &s->room, size, sizeof(*s->buffer))
		   ? 0
		   : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a text of %zu bytes", size);
}

static int rewrite(const split_walk *w, size_t number, const char *text, size_t length, bool first)
{
	split_step *s = &w->splitter->steps[number];
	const size_t blank = strlen(s->blank);
	const bool prefixed = (s->prefixed == ALWAYS || (s->prefixed == FIRST && first)) && length &&
			      text[0] != ' ' && (length < blank || memcmp(text, s->blank, blank) != 0);
	size_t used = 0;

	if (reserve(s, (length + 1) * blank, w->err) < 0)
		return -1;
	for (size_t i = 0; i < length + prefixed; i++) {
		const char c = prefixed && !i ? ' ' : text[i - prefixed];
		if (c == ' ') {
			memcpy(s->buffer + used, s->blank, blank);
			used += blank;
		} else {
			s->buffer[used++] = c;
		}
	}
	return go(w, number + 1, s->buffer, used, first);
}

static int go(const split_walk *w, size_t number, const char *text, size_t length, bool first)
{
	if (number == w->splitter->count)
		return length ? w->sink(w->context, text, length, w->err) : 0;
	return w->splitter->steps[number].kind == SPLIT ? split(w, number, text, length, first)
							: rewrite(w, number, text, length, first);
}

int p4d_splitter__apply(const p4d_splitter *splitter, const char *text, size_t length, bool first,
			p4d_word_sink sink, void *context, p4d_error *err)
{
	const split_walk w = {splitter, sink, context, err};

	return go(&w, 0, text, length, first);
}
