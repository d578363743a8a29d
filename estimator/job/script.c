/* SPDX-License-Identifier: Apache-2.0 */
#include "job/script.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "job/job.h"
#include "request/framework.h"

typedef enum word_kind {
	VARIABLE,
	STEP,
	LAUNCHER,
	TASKS,
	ALLOCATOR,
	UNSET,
	FRAMEWORK,
	OTHER,
	FLAG
} word_kind;

/* What may begin at a character. */
typedef enum character { ORDINARY, WORD, COMMENT, NEWLINE } character;

/* HEAD: the search for words hashes their first HEAD characters; no word is shorter. */
enum { HEAD = 4, BUCKETS = 256, WORDS = 128 };

typedef struct word {
	const char *text;
	size_t length;
	word_kind kind;
	uint64_t value; /* if the word is FRAMEWORK or OTHER: index of the framework or program; if FLAG: the
			   layout's value */
	uint8_t next;   /* next word in the same bucket, 1 + index; 0 at the end */
} word;

typedef struct vocabulary {
	uint8_t character[UCHAR_MAX + 1];
	bool alphanumeric[UCHAR_MAX + 1];
	uint8_t first[BUCKETS]; /* first word of each bucket, 1 + index; 0: none */
	uint8_t count;
	word words[WORDS];
} vocabulary;

static unsigned bucket(const char *text)
{
	uint32_t head;

	memcpy(&head, text, HEAD);
	return head * 2654435761u >> 24;
}

static void add(vocabulary *v, const char *text, word_kind kind, uint64_t value)
{
	uint8_t *first = &v->first[bucket(text)];

	if (v->count == WORDS)
		return;
	v->words[v->count] = (word){text, strlen(text), kind, value, *first};
	*first = ++v->count;
	v->character[(unsigned char)*text] = WORD;
}

static void fill(vocabulary *v, const p4d_layout *layout)
{
	static const char *const allocator[] = {P4D_ALLOCATOR_VARIABLES};
	const p4d_framework_arguments *arguments = layout ? p4d_framework_arguments_of(layout) : NULL;
	p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS];
	const size_t count = arguments ? arguments->flags(layout, flags) : 0;

	v->count = 0;
	memset(v->first, 0, sizeof(v->first));
	memset(v->character, ORDINARY, sizeof(v->character));
	for (int c = 0; c <= UCHAR_MAX; c++)
		v->alphanumeric[c] = isalnum(c);
	v->character['#'] = COMMENT;
	v->character['\n'] = NEWLINE;
	add(v, "$P4D_", VARIABLE, 0);
	add(v, "${P4D_", VARIABLE, 0);
	add(v, "srun ", STEP, 0);
	add(v, "torchrun", LAUNCHER, 0);
	add(v, "torch.distributed", LAUNCHER, 0);
	add(v, "--ntasks", TASKS, 0);
	add(v, "--local-ranks", TASKS, 0); /* p4d-train itself starts the ranks */
	for (size_t i = 0; i < sizeof(allocator) / sizeof(*allocator); i++)
		add(v, allocator[i], ALLOCATOR, 0);
	add(v, "unset ", UNSET, 0);
	for (int i = 0; i < P4D_FRAMEWORKS; i++)
		for (const char *const *text = p4d_framework_of(i)->script_words; *text; text++)
			add(v, *text, FRAMEWORK, (uint64_t)i);
	for (uint64_t i = 0; p4d_framework_others[i].name; i++)
		for (size_t j = 0; j < 4 && p4d_framework_others[i].words[j]; j++)
			add(v, p4d_framework_others[i].words[j], OTHER, i);
	for (size_t i = 0; i < count; i++)
		add(v, flags[i].flag, FLAG, flags[i].value);
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Reads the number after a flag: ` 4`, `=4` or ` "4"`. False if it is not literal. */
static bool literal(const char *at, const char *end, uint64_t *number)
{
	if (at == end || (*at != '=' && !blank(*at)))
		return false;
	at++;
	while (at < end && (blank(*at) || *at == '"' || *at == '\''))
		at++;
	const char *digit = at;
	for (*number = 0; digit < end && isdigit((unsigned char)*digit); digit++)
		*number = *number < UINT64_MAX / 16 ? *number * 10 + (uint64_t)(*digit - '0') : UINT64_MAX;
	return digit > at && (digit == end || !isalnum((unsigned char)*digit));
}

/* One command: a line with its continuation lines. */
typedef struct command {
	bool sets_tasks;
	bool reads_plan; /* it starts a program that reads the plan */
	bool step, launcher, framework;
} command;

/* number of characters that is_assignment looks back, and read_allocator looks forward */
enum { NEAR = 96 };

static bool is_word(const char *at, size_t length, const char *name)
{
	return length == strlen(name) && !memcmp(at, name, length);
}

/* True if a command may start after this character. */
static bool starts_command(char c)
{
	return c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == '{';
}

/*
 * Whether a shell, or env, treats a word as an assignment: only assignments, options, export and similar
 * words precede it. False in an argument of echo.
 */
static bool is_assignment(const char *at, const char *text)
{
	static const char *const transparent[] = {"export", "declare", "typeset", "then", "do", "else"};
	const char *const from = at - text > NEAR ? at - NEAR : text;

	for (;;) {
		while (at > from && (blank(at[-1]) || (at[-1] == '\n' && at - from > 1 && at[-2] == '\\')))
			at -= at[-1] == '\n' ? 2 : 1;
		if (at == from)
			return from == text;
		if (starts_command(at[-1]))
			return true;
		const char *behind = at;
		while (at > from && !blank(at[-1]) && !starts_command(at[-1]))
			at--;
		const size_t length = (size_t)(behind - at);
		if (is_word(at, length, "env") || is_word(at, length, "--env"))
			return true;
		bool passes = *at == '-' || memchr(at, '=', length);
		for (size_t i = 0; i < sizeof(transparent) / sizeof(*transparent); i++)
			passes = passes || is_word(at, length, transparent[i]);
		if (!passes)
			return false;
	}
}

/* Interprets the value that is assigned to PyTorch's allocator variable. */
static void read_allocator(const char *at, const char *end, p4d_script *script)
{
	const bool quoted = at < end && (*at == '"' || *at == '\'');
	const char stop[] = {quoted ? *at++ : ' ', '\n', quoted ? '\n' : ';'};
	size_t length = 0;

	while (length < NEAR && at + length < end && !memchr(stop, at[length], sizeof(stop)))
		length++;
	const bool expandable = memmem(at, length, P4D_EXPANDABLE_SEGMENTS, strlen(P4D_EXPANDABLE_SEGMENTS));
	if (!expandable && memchr(at, '$', length))
		return; /* the assignment may keep the old value and extend it */
	script->sets_allocator = true;
	script->expandable = expandable;
}

/* Reads the names after `unset`. If PyTorch's allocator variable is among them, PyTorch's default applies. */
static void read_unset(const char *at, const char *end, p4d_script *script)
{
	static const char *const names[] = {P4D_ALLOCATOR_VARIABLES};
	size_t length = 0;

	while (length < NEAR && at + length < end && !starts_command(at[length]))
		length++;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (memmem(at, length, names[i], strlen(names[i]) - 1)) {
			script->sets_allocator = true;
			script->expandable = false;
		}
}

static void found(p4d_script *script, command *now, const word *w, const char *text, const char *behind,
		  const char *end)
{
	uint64_t number;

	switch (w->kind) {
	case VARIABLE:
		script->uses_plan = true;
		break;
	case STEP:
		now->step = true;
		break;
	case LAUNCHER:
		now->launcher = true;
		break;
	case TASKS:
		now->sets_tasks = true;
		break;
	case FRAMEWORK:
		script->frameworks |= 1u << w->value;
		now->framework = true;
		if (!p4d_framework_of((int)w->value)->arguments)
			script->uses_plan = now->reads_plan = true;
		else if (!strcmp(w->text, p4d_framework_of((int)w->value)->arguments->variable))
			script->arguments |= 1u << w->value;
		break;
	case ALLOCATOR:
		if (is_assignment(behind - w->length, text))
			read_allocator(behind, end, script);
		break;
	case UNSET:
		if (is_assignment(behind - w->length, text))
			read_unset(behind, end, script);
		break;
	case OTHER:
		if (!script->other || script->other > &p4d_framework_others[w->value])
			script->other = &p4d_framework_others[w->value];
		break;
	case FLAG:
		if (script->contradiction[0] || !literal(behind, end, &number) || number == w->value)
			break;
		snprintf(script->contradiction, sizeof(script->contradiction), "%s %" PRIu64, w->text,
			 number);
		script->planned = w->value;
		break;
	}
}

static void look_up(const vocabulary *v, const char *text, const char *at, const char *end,
		    p4d_script *script, command *now)
{
	const size_t left = (size_t)(end - at);

	if (left < HEAD)
		return;
	for (unsigned i = v->first[bucket(at)]; i; i = v->words[i - 1].next) {
		const word *w = &v->words[i - 1];
		/* compares the last character first, since words of a bucket have the same first
		 * characters */
		if (w->length <= left && at[w->length - 1] == w->text[w->length - 1] &&
		    !memcmp(at, w->text, w->length))
			found(script, now, w, text, at + w->length, end);
	}
}

static void finish(p4d_script *script, command *now)
{
	const bool tasks_of_job = now->step && !now->sets_tasks;

	script->sets_tasks |= now->sets_tasks && now->reads_plan;
	script->starts_launcher |= tasks_of_job && now->launcher;
	script->starts_ranks |= tasks_of_job && now->framework && !now->launcher;
	*now = (command){.sets_tasks = false};
}

/* The character before `at`, skipping the carriage return of a line end; a newline at the start of the
 * text. */
static char before(const char *at, const char *text)
{
	if (at - text > 1 && at[-1] == '\r')
		at--;
	return at == text ? '\n' : at[-1];
}

p4d_script p4d_script_scan(const char *text, size_t length, const p4d_layout *layout)
{
	p4d_script script = {.frameworks = 0};
	command now = {.sets_tasks = false};
	const char *end = text + (length < P4D_SCRIPT_BYTES ? length : P4D_SCRIPT_BYTES);
	vocabulary v;

	fill(&v, layout);
	for (const char *at = text; at < end; at++) {
		switch (v.character[(unsigned char)*at]) {
		case WORD:
			/* a word may begin inside a longer word only if it does not start with a letter */
			if (at > text && v.alphanumeric[(unsigned char)*at] &&
			    v.alphanumeric[(unsigned char)at[-1]])
				break;
			if (*at == '-' && end - at > 1 && at[1] == 'n' && blank(before(at, text)))
				now.sets_tasks = true;
			look_up(&v, text, at, end, &script, &now);
			break;
		case COMMENT: /* a word may begin here */
			if (!memchr(" \t\n;&|()", before(at, text), 8))
				break;
			at = memchr(at, '\n', (size_t)(end - at));
			finish(&script, &now);
			if (!at)
				return script;
			break;
		case NEWLINE:
			if (before(at, text) != '\\')
				finish(&script, &now);
			break;
		}
	}
	finish(&script, &now);
	return script;
}
