/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arguments.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"

static const struct option *find_exact(const struct option *table, const char *name, size_t length)
{
	for (; table->name; table++)
		if (!strncmp(table->name, name, length) && !table->name[length])
			return table;
	return NULL;
}

/* Fills `list` with the options whose names start with `name`; returns their number. */
static unsigned find_prefixed(const struct option *table, const char *name, size_t length, p4d_text *list)
{
	unsigned count = 0;

	for (; table->name; table++) {
		if (strncmp(table->name, name, length) != 0)
			continue;
		count++;
		p4d_text_entry(list, ", ", "--%s", table->name);
	}
	return count;
}

/*
 * Fails because of an unknown option. Options have the prefix "p4d-" in sbatch and none in p4d; the message
 * helps users who confuse the two.
 */
static int unknown_option(const struct option *table, const char *name, size_t length, p4d_error *err)
{
	char other[128], typed[72];
	p4d_suggest alike = {.wanted = typed};

	snprintf(typed, sizeof(typed), "%.*s", (int)length, name);
	for (const struct option *at = table; at->name; at++)
		p4d_suggest_offer(&alike, at->name);
	p4d_fail(err, P4D_E_USAGE, "unknown option --%s%s", typed, p4d_suggest_text(&alike));
	if (length > 4 && !strncmp(name, "p4d-", 4))
		snprintf(other, sizeof(other), "%.*s", (int)(length - 4), name + 4);
	else
		snprintf(other, sizeof(other), "p4d-%.*s", (int)length, name);
	if (find_exact(table, other, strlen(other)))
		p4d_fix(err, "--%s%s", other, name + length);
	return -1;
}

static int bad_long_option(const struct option *table, const char *name, p4d_error *err)
{
	size_t length = strcspn(name, "=");
	char list[320];

	if (length > 64)
		return p4d_fail(err, P4D_E_USAGE, "unknown option --%.64s...", name);
	if (!find_exact(table, name, length)) {
		p4d_text text = p4d_text_in(list, sizeof(list));
		unsigned count = find_prefixed(table, name, length, &text);
		if (!count)
			return unknown_option(table, name, length, err);
		if (count > 1)
			return p4d_fail(err, P4D_E_USAGE, "--%.*s is ambiguous: it could be %s", (int)length,
					name, list);
	}
	return p4d_fail(err, P4D_E_USAGE, "--%.*s takes no value", (int)length, name);
}

bool p4d_arguments_unknown(const char *word, const struct option *table)
{
	const size_t length = strncmp(word, "--", 2) != 0 ? 0 : strcspn(word + 2, "=");

	if (!length)
		return false;
	for (; table->name; table++)
		if (!strncmp(table->name, word + 2, length))
			return false;
	return true;
}

int p4d_arguments_next(int argc, char *const argv[], const char *letters, const struct option *table,
		       int *which, p4d_error *err)
{
	opterr = 0;
	int option = getopt_long(argc, argv, letters, table, NULL);
	const bool is_long = optopt == 0 || optopt > 255;

	switch (option) {
	case -1:
		return 0;
	case ':':
		if (is_long)
			return p4d_fail(err, P4D_E_USAGE, "%.64s needs a value", argv[optind - 1]);
		return p4d_fail(err, P4D_E_USAGE, "-%c needs a value", optopt);
	case '?':
		if (is_long)
			return bad_long_option(table, argv[optind - 1] + 2, err);
		return p4d_fail(err, P4D_E_USAGE, "unknown option -%c", optopt);
	default:
		*which = option;
		return 1;
	}
}
