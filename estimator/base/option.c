/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/choice.h"
#include "base/number.h"
#include "base/suggest.h"
#include "base/text.h"

/* Longest list of choices (in characters) that help prints as an option's argument. */
enum { LONG_LIST = 72 };

int64_t p4d_option_bits(double real)
{
	int64_t bits;

	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

double p4d_option_real(int64_t value)
{
	double real;

	memcpy(&real, &value, sizeof(real));
	return real;
}

int p4d_option_find(const p4d_option_info *table, int count, const char *name)
{
	const int first = tolower((unsigned char)*name);

	for (int i = 0; i < count; i++) {
		const char *a = table[i].name, *b = name;
		if (*a != first)
			continue; /* first compares one character, because slurmctld looks up whole
				     environments */
		while (*a && (*a == tolower((unsigned char)*b) || (*a == '-' && *b == '_'))) {
			a++;
			b++;
		}
		if (!*a && !*b)
			return i;
	}
	return -1;
}

static int check_text(const p4d_option_info *info, const char *prefix, const char *text, p4d_error *err)
{
	if (!*text)
		return p4d_fail(err, P4D_E_VALUE, "%s%s: empty value", prefix, info->name);
	if (strlen(text) >= info->size)
		return p4d_fail(err, P4D_E_VALUE, "%s%s: %zu characters, at most %zu are accepted", prefix,
				info->name, strlen(text), info->size - 1);
	for (const char *at = text; *at; at++)
		if (iscntrl((unsigned char)*at))
			return p4d_fail(err, P4D_E_VALUE, "%s%s: control character 0x%02x at position %zu",
					prefix, info->name, (unsigned char)*at, (size_t)(at - text) + 1);
	return 0;
}

/* Parses a whole number. Lengths in tokens may be written as 128k, in units of 1,024. */
static bool whole_of(const p4d_option_info *info, const char *text, uint64_t *value)
{
	const uint64_t least = (uint64_t)info->min, most = (uint64_t)info->max;
	const size_t length = strlen(text);
	char number[16];

	if (strcmp(info->argument, P4D_TOKENS) != 0 || !length || length >= sizeof(number) ||
	    !strchr("kK", text[length - 1]))
		return p4d_number_whole(text, least, most, value);
	memcpy(number, text, length - 1);
	number[length - 1] = '\0';
	if (!p4d_number_whole(number, 1, most / 1024, value))
		return false;
	*value *= 1024;
	return *value >= least;
}

/* Parses a release: "5", "4.57", "4.57.1", "5.0.0rc1". */
static bool release_of(const p4d_option_info *info, const char *text, uint64_t *value)
{
	uint64_t major, minor = P4D_RELEASE_LAST;
	const char *rest = p4d_number_digits(text, &major);

	if (rest && *rest == '.')
		rest = p4d_number_digits(rest + 1, &minor);
	if (rest && *rest == '.')
		rest += strspn(rest, ".0123456789abcdefghijklmnopqrstuvwxyz");
	if (!rest || *rest || minor > P4D_RELEASE_LAST || major > (uint64_t)info->max / P4D_RELEASE_UNIT)
		return false;
	*value = major * P4D_RELEASE_UNIT + minor;
	return *value >= (uint64_t)info->min;
}

static bool is_release(const p4d_option_info *info)
{
	return !strcmp(info->argument, P4D_RELEASE);
}

static int parse_release(const p4d_option_info *info, const char *prefix, const char *text, int64_t *value,
			 p4d_error *err)
{
	uint64_t release;

	if (!release_of(info, text, &release))
		return p4d_fail(err, P4D_E_VALUE,
				"%s%s=%.64s: not a release from %" PRId64 " to %" PRId64 ", such as 4.57",
				prefix, info->name, text, info->min / P4D_RELEASE_UNIT,
				info->max / P4D_RELEASE_UNIT);
	*value = (int64_t)release;
	return 0;
}

static void add_release(p4d_text *text, int64_t release)
{
	char number[P4D_NUMBER_TEXT];

	p4d_text_add(text, p4d_number_integer(release / P4D_RELEASE_UNIT, number));
	if (release % P4D_RELEASE_UNIT == P4D_RELEASE_LAST)
		return;
	p4d_text_add(text, ".");
	p4d_text_add(text, p4d_number_integer(release % P4D_RELEASE_UNIT, number));
}

/* Fails with the list of choices; if the list is long, only with those nearest to the typed word. */
static int no_choice(const p4d_option_info *info, const char *prefix, const char *text, p4d_error *err)
{
	enum { NAMES = 64, NAME = 24 };
	const char *list = p4d_option_choices(info);
	char name[NAMES][NAME];
	p4d_suggest alike = {.wanted = text};

	const char *at = strlen(list) > LONG_LIST ? list : "";
	for (int i = 0; i < NAMES && *at; i++) {
		const size_t length = strcspn(at, "|");
		snprintf(name[i], NAME, "%.*s", (int)length, at);
		p4d_suggest_offer(&alike, name[i]);
		at += length + (at[length] == '|');
	}
	if (alike.count)
		return p4d_fail(err, P4D_E_VALUE, "%s%s=%.64s: p4d does not know this name%s", prefix,
				info->name, text, p4d_suggest_text(&alike));
	return p4d_fail(err, P4D_E_VALUE, "%s%s=%.64s: not one of %s", prefix, info->name, text, list);
}

/* The unit of a real number, for messages; empty: the number has none. */
static const char *unit_of(const p4d_option_info *info)
{
	return !strcmp(info->argument, "MS") ? " milliseconds" : !strcmp(info->argument, "GIB") ? " GiB" : "";
}

int p4d_option_parse(const p4d_option_info *info, const char *prefix, const char *text, int64_t *value,
		     p4d_error *err)
{
	uint64_t whole;
	double real;
	int index;

	switch (info->kind) {
	case P4D_INTEGER_KIND:
		if (is_release(info))
			return parse_release(info, prefix, text, value, err);
		if (!whole_of(info, text, &whole))
			return p4d_fail(err, P4D_E_VALUE,
					"%s%s=%.64s: not a whole number from %" PRId64 " to %" PRId64, prefix,
					info->name, text, info->min, info->max);
		*value = (int64_t)whole;
		return 0;
	case P4D_DECIMAL_KIND:
		if (!p4d_number_real(text, info->least, info->most, &real))
			return p4d_fail(err, P4D_E_VALUE, "%s%s=%.64s: not a number from %g to %g%s", prefix,
					info->name, text, info->least, info->most, unit_of(info));
		*value = p4d_option_bits(real);
		return 0;
	case P4D_CHOICE_KIND:
		index = p4d_choice_find(p4d_option_choices(info), text);
		if (index < 0)
			return no_choice(info, prefix, text, err);
		*value = index;
		return 0;
	case P4D_TEXT_KIND:
		if (check_text(info, prefix, text, err) < 0)
			return -1;
		break;
	case P4D_SWITCH_KIND:
		break;
	}
	*value = 1;
	return 0;
}

int p4d_option_twice(const char *name, const char *first, const char *second, p4d_error *err)
{
	if (!strcmp(first, second))
		return 0;
	return p4d_fail(err, P4D_E_USAGE, "--%s has two values, %.64s and %.64s: leave one out", name, first,
			second);
}

int p4d_option_once(const char **to, const char *name, const char *text, p4d_error *err)
{
	if (*to && p4d_option_twice(name, *to, text, err) < 0)
		return -1;
	*to = text;
	return 0;
}

const char *p4d_option_text(const p4d_option_info *info, int64_t value, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);
	char number[P4D_NUMBER_TEXT];

	if (info->kind == P4D_INTEGER_KIND && is_release(info))
		add_release(&text, value);
	else if (info->kind == P4D_INTEGER_KIND)
		p4d_text_add(&text, p4d_number_integer(value, number));
	else if (info->kind == P4D_DECIMAL_KIND)
		p4d_text_add(&text, p4d_number_exact(p4d_option_real(value), number));
	else if (info->kind == P4D_CHOICE_KIND)
		p4d_choice_name(p4d_option_choices(info), (int)value, buf, size);
	else
		p4d_text_add(&text, value ? "on" : "off");
	return buf;
}

const char *p4d_option_argument(const p4d_option_info *info)
{
	if (info->kind == P4D_SWITCH_KIND)
		return NULL;
	return strlen(p4d_option_choices(info)) > LONG_LIST ? "NAME" : p4d_option_choices(info);
}
