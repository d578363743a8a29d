/* SPDX-License-Identifier: Apache-2.0 */
#include "request/request.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define S P4D_WHERE_SLURM
#define C P4D_WHERE_COMMAND
#define P P4D_WHERE_PLAN
#define M P4D_WHERE_MODEL
static const p4d_option_info table[P4D_OPTIONS] = {
#define INTEGER(id, option, arg, low, high, scope, text) \
	[P4D_##id] = {.name = option, \
		      .argument = arg, \
		      .kind = P4D_INTEGER_KIND, \
		      .min = low, \
		      .max = high, \
		      .where = scope, \
		      .help = text},
#define DECIMAL(id, option, arg, low, high, scope, text) \
	[P4D_##id] = {.name = option, \
		      .argument = arg, \
		      .kind = P4D_DECIMAL_KIND, \
		      .least = low, \
		      .most = high, \
		      .where = scope, \
		      .help = text},
#define CHOICE(id, option, choices, scope, text) \
	[P4D_##id] = {.name = option, \
		      .argument = choices, \
		      .kind = P4D_CHOICE_KIND, \
		      .list = choices, \
		      .where = scope, \
		      .help = text},
#define TEXT(id, option, arg, member, scope, text) \
	[P4D_##id] = {.name = option, \
		      .argument = arg, \
		      .kind = P4D_TEXT_KIND, \
		      .field = offsetof(p4d_request, member), \
		      .size = sizeof(((p4d_request *)0)->member), \
		      .where = scope, \
		      .help = text},
#define SWITCH(id, option, scope, text) \
	[P4D_##id] = {.name = option, .kind = P4D_SWITCH_KIND, .where = scope, .help = text},
#include "request/options.def"
#undef INTEGER
#undef DECIMAL
#undef CHOICE
#undef TEXT
#undef SWITCH
};
#undef S
#undef C
#undef P
#undef M

const p4d_option_info *p4d_request_option_info(p4d_option option)
{
	return &table[option];
}

int p4d_request_option_find(const char *name)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const char *a = table[i].name, *b = name;
		while (*a && (*a == tolower((unsigned char)*b) || (*a == '-' && *b == '_'))) {
			a++;
			b++;
		}
		if (!*a && !*b)
			return i;
	}
	return -1;
}

/* Length of the choice that starts at `at`. */
static size_t choice_length(const char *at)
{
	return strcspn(at, "|");
}

static int choice_find(const char *list, const char *text)
{
	int index = 0;

	for (const char *at = list;; index++) {
		size_t length = choice_length(at);
		if (strlen(text) == length && !strncasecmp(at, text, length))
			return index;
		if (!at[length])
			return -1;
		at += length + 1;
	}
}

const char *p4d_request_choice_name(p4d_option option, int64_t value, char *buf, size_t size)
{
	const char *at = table[option].list;

	for (int64_t i = 0; i < value && at[choice_length(at)]; i++)
		at += choice_length(at) + 1;
	snprintf(buf, size, "%.*s", (int)choice_length(at), at);
	return buf;
}

static const char *text_of(const p4d_request *request, p4d_option option)
{
	return (const char *)request + table[option].field;
}

/* With no more digits than it takes to read the same number again. */
static void print_real(double value, char *buf, size_t size)
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, size, "%.*g", digits, value);
		if (strtod(buf, NULL) == value)
			return;
	}
}

const char *p4d_request_value_text(const p4d_request *request, p4d_option option, char *buf, size_t size)
{
	switch (table[option].kind) {
	case P4D_INTEGER_KIND:
		snprintf(buf, size, "%" PRId64, request->value[option]);
		break;
	case P4D_DECIMAL_KIND:
		print_real(p4d_request_real(request, option), buf, size);
		break;
	case P4D_CHOICE_KIND:
		p4d_request_choice_name(option, request->value[option], buf, size);
		break;
	case P4D_TEXT_KIND:
		snprintf(buf, size, "%s", text_of(request, option));
		break;
	case P4D_SWITCH_KIND:
		snprintf(buf, size, "%s", request->value[option] ? "on" : "off");
		break;
	}
	return buf;
}

static int set_integer(const p4d_option_info *info, const char *text, int64_t *value, p4d_error *err)
{
	char *end;

	errno = 0;
	long long number = strtoll(text, &end, 10);
	/* strtoll skips blanks and takes a sign; a size has neither */
	if (!isdigit((unsigned char)text[0]) || *end || errno || number < info->min || number > info->max)
		return p4d_fail(err, P4D_E_VALUE,
				"--p4d-%s=%.64s: not a whole number from %" PRId64 " to %" PRId64, info->name,
				text, info->min, info->max);
	*value = number;
	return 0;
}

static int64_t bits_of(double real)
{
	int64_t bits;

	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

static int set_real(const p4d_option_info *info, const char *text, int64_t *value, p4d_error *err)
{
	char *end;
	double number = strtod(text, &end);

	/* strtod skips blanks, and knows NaN, which is in no range */
	if (!(isdigit((unsigned char)text[0]) || text[0] == '.') || *end ||
	    !(number >= info->least && number <= info->most))
		return p4d_fail(err, P4D_E_VALUE, "--p4d-%s=%.64s: not a number from %g to %g", info->name,
				text, info->least, info->most);
	*value = bits_of(number);
	return 0;
}

int p4d_request_set(p4d_request *request, p4d_option option, const char *text, p4d_origin origin,
		    p4d_error *err)
{
	const p4d_option_info *info = &table[option];
	int64_t value = 1;

	switch (info->kind) {
	case P4D_INTEGER_KIND:
		if (set_integer(info, text, &value, err) < 0)
			return -1;
		break;
	case P4D_DECIMAL_KIND:
		if (set_real(info, text, &value, err) < 0)
			return -1;
		break;
	case P4D_CHOICE_KIND:
		value = choice_find(info->list, text);
		if (value < 0)
			return p4d_fail(err, P4D_E_VALUE, "--p4d-%s=%.64s: not one of %s", info->name, text,
					info->list);
		break;
	case P4D_TEXT_KIND:
		if (!*text)
			return p4d_fail(err, P4D_E_VALUE, "--p4d-%s: empty value", info->name);
		if (strlen(text) >= info->size)
			return p4d_fail(err, P4D_E_VALUE,
					"--p4d-%s: %zu characters, at most %zu are accepted", info->name,
					strlen(text), info->size - 1);
		for (const char *at = text; *at; at++)
			if (iscntrl((unsigned char)*at))
				return p4d_fail(err, P4D_E_VALUE,
						"--p4d-%s: control character 0x%02x at position %zu",
						info->name, (unsigned char)*at, (size_t)(at - text) + 1);
		memcpy((char *)request + info->field, text, strlen(text) + 1);
		break;
	case P4D_SWITCH_KIND:
		break;
	}
	request->value[option] = value;
	request->origin[option] = (uint8_t)origin;
	return 0;
}

void p4d_request_put(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin)
{
	request->value[option] = value;
	request->origin[option] = (uint8_t)origin;
}

void p4d_request_default(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin)
{
	if (!p4d_is_set(request, option))
		p4d_request_put(request, option, value, origin);
}

void p4d_request_put_real(p4d_request *request, p4d_option option, double value, p4d_origin origin)
{
	p4d_request_put(request, option, bits_of(value), origin);
}

double p4d_request_real(const p4d_request *request, p4d_option option)
{
	double real;

	memcpy(&real, &request->value[option], sizeof(real));
	return real;
}

void p4d_request_inherit(p4d_request *request, const p4d_request *from, p4d_option option, p4d_origin origin)
{
	const p4d_option_info *info = &table[option];

	if (p4d_is_set(request, option) || !p4d_is_set(from, option))
		return;
	if (info->kind == P4D_TEXT_KIND)
		memcpy((char *)request + info->field, text_of(from, option), info->size);
	p4d_request_put(request, option, from->value[option], origin);
}

void p4d_request_without_prefix(char *text)
{
	for (char *at = text; (at = strstr(at, "--p4d-"));)
		memmove(at + 2, at + 6, strlen(at + 6) + 1);
}

bool p4d_request_any(const p4d_request *request)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (request->origin[i] == P4D_BY_USER && (table[i].where & P4D_WHERE_SLURM))
			return true;
	return false;
}

size_t p4d_request_flags(const p4d_request *request, const char *prefix, unsigned only, char *buf,
			 size_t size)
{
	p4d_text text = p4d_text_in(buf, size);
	char value[1024];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_origin origin = (p4d_origin)request->origin[i];
		if (origin == P4D_UNSET || !(only & (1u << origin)) || !(table[i].where & P4D_WHERE_SLURM))
			continue;
		if ((table[i].where & P4D_WHERE_MODEL) && origin != P4D_BY_USER)
			continue;
		p4d_request_value_text(request, (p4d_option)i, value, sizeof(value));
		const bool is_switch = table[i].kind == P4D_SWITCH_KIND;
		p4d_text_entry(&text, " ", "%s%s%s%s", prefix, table[i].name, is_switch ? "" : "=",
			       is_switch ? "" : value);
	}
	return text.length;
}
