/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that words before a program set for it. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/exported.h"
#include "base/file.h"
#include "rehearsals/rehearsals_key.h"

/* What a word means for the next word. */
enum {
	NOTHING,
	AN_OPTION, /* the next word may be its value */
	OF_ENV,    /* the next word is a variable, an option of env, or the command */
	A_VARIABLE,
	A_NAME, /* the next word is the name of a variable, and its value follows */
	A_VALUE,
	A_LIST /* the next word is the list of srun's --export */
};

void p4d_rehearsals_key_launchers(p4d_rehearsals_key *key)
{
	key->launcher = NOTHING;
}

/* The length of the name in "NAME=VALUE"; 0: the word has another form. */
static size_t name_length(const char *word)
{
	size_t length = 0;

	while (isalnum((unsigned char)word[length]) || word[length] == '_')
		length++;
	return word[length] == '=' ? length : 0;
}

static void add(p4d_rehearsals_key *key, const char *name, size_t length, const char *value, bool known)
{
	char copy[sizeof(key->name)];

	snprintf(copy, sizeof(copy), "%.*s", (int)(length < sizeof(copy) ? length : sizeof(copy) - 1), name);
	if (known)
		p4d_rehearsals__key_launched(key, copy, value);
	else
		p4d_rehearsals_key_unknown_variable(key, copy);
}

/*
 * Adds an item of --export. A name without a value stands for the environment's value, which is not part of
 * the key.
 */
static void add_item(p4d_rehearsals_key *key, const p4d_exported *item, bool known)
{
	char value[512];

	known = known && item->value && item->value_length < sizeof(value);
	snprintf(value, sizeof(value), "%.*s", known ? (int)item->value_length : 0, known ? item->value : "");
	add(key, item->name, item->name_length, value, known);
}

void p4d_rehearsals_key_export(p4d_rehearsals_key *key, const char *list, bool known)
{
	bool all = false;
	p4d_exported item;

	while (p4d_exported_next(&list, &item)) {
		if (p4d_exported_is_all(&item))
			all = true;
		else if (item.name_length)
			add_item(key, &item, known);
	}
	/* without ALL, the program does not get variables that a rehearsal has */
	if (!all)
		p4d_rehearsals_key_unknown_variable(key, "");
}

/* Adds the list of srun's --export. */
static void add_list(p4d_rehearsals_key *key, const char *list, bool known)
{
	if (known)
		p4d_rehearsals_key_export(key, list, true);
	else
		p4d_rehearsals_key_unknown_variable(key, "");
}

/* What a word that sets no variable means for the next word. */
static int next_of(const char *word, int before)
{
	static const struct {
		const char *word;
		int next;
	} words[] = {{"-x", A_VARIABLE}, {"-genv", A_NAME}, {"-env", A_NAME}, {"--export", A_LIST}};

	if (!strcmp(p4d_file_name(word), "env"))
		return OF_ENV;
	if (word[0] != '-')
		return NOTHING;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i].word))
			return words[i].next;
	return before == OF_ENV ? OF_ENV : AN_OPTION;
}

void p4d_rehearsals_key_launcher(p4d_rehearsals_key *key, const char *word, bool known)
{
	static const char export[] = "--export=", file[] = "--export-file";
	const int before = key->launcher;
	const size_t length = name_length(word);

	key->launcher = NOTHING;
	if (before == A_NAME) {
		snprintf(key->name, sizeof(key->name), "%.*s", (int)sizeof(key->name) - 1, word);
		key->launcher = A_VALUE;
	} else if (before == A_VALUE) {
		add(key, key->name, strlen(key->name), word, known);
	} else if (before == A_LIST) {
		add_list(key, word, known);
	} else if (!strncmp(word, export, sizeof(export) - 1)) {
		add_list(key, word + sizeof(export) - 1, known);
	} else if (!strncmp(word, file, sizeof(file) - 1)) {
		p4d_rehearsals_key_unknown_variable(key, "");
	} else if (length && before != AN_OPTION) {
		add(key, word, length, word + length + 1, known);
		key->launcher = before == OF_ENV ? OF_ENV : NOTHING;
	} else if (!known && (before == OF_ENV || before == A_VARIABLE)) {
		p4d_rehearsals_key_unknown_variable(key, "");
		key->launcher = before;
	} else {
		if (before == OF_ENV &&
		    word[0] == '-') /* after -u, -i or -S, env passes other variables than the script's */
			p4d_rehearsals_key_unknown_variable(key, "");
		key->launcher = next_of(word, before);
	}
}
