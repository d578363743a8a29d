/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "job/job_internal.h"

enum { MAX_GRES_TEXT = 4096 };

/* At most 7 digits: no job has ten million of anything here. Returns -1 otherwise. */
static int digits(const char *text, size_t length, uint32_t *out)
{
	uint64_t value;

	if (length > 7 || p4d_number_digits(text, &value) != text + length)
		return -1;
	*out = (uint32_t)value;
	return 0;
}

static int malformed(const char *text, p4d_error *err)
{
	p4d_fail(err, P4D_E_VALUE, "GPU request `%.128s` is malformed", text);
	return p4d_fix(err, "--gres=gpu:4");
}

/* Length of the entry at `at`; commas inside parentheses, as in "gpu:2(S:0,1)", do not end it. */
static int entry_length(const char *at, size_t *length)
{
	int depth = 0;
	size_t n = 0;

	for (; at[n] && (depth || at[n] != ','); n++) {
		if (at[n] == '(')
			depth++;
		else if (at[n] == ')' && !depth--)
			return -1;
	}
	*length = n;
	return depth ? -1 : 0;
}

/* Names in the place of a GPU type in --gpus: from Slurm 23.11 on, tres_per_task also holds "cpu:4". */
static bool is_other_tres(const char *at, size_t length)
{
	static const char *const names[] = {"cpu", "mem", "node", "billing", "energy", "license",
					    "bb",  "fs",  "ic",   "pages",   "vmem"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == length && !strncasecmp(names[i], at, length))
			return true;
	return false;
}

/* One entry without its index list: [gres:|gres/]NAME[:TYPE][:COUNT]. Returns 1 when it is a GPU entry. */
static int parse_entry(const char *at, size_t length, bool bare, const char **type, size_t *type_length,
		       uint32_t *count)
{
	const char *end = at + length;
	bool named = false, prefixed = false;

	*type = "";
	*type_length = 0;
	*count = 1;
	if (length >= 5 && !strncasecmp(at, "gres", 4) && (at[4] == ':' || at[4] == '/')) {
		prefixed = true;
		at += 5;
	}
	size_t first = 0;
	while (at + first < end && !strchr(":=/", at[first]))
		first++;
	if (first == 3 && !strncasecmp(at, "gpu", 3)) {
		named = true;
		at += first;
	} else if (!bare || prefixed || is_other_tres(at, first)) {
		return first ? 0 : -1;
	}
	if (named && at == end)
		return 1;
	if (named)
		at++;                     /* the separator */
	size_t last = (size_t)(end - at); /* the count is what follows the last separator */
	while (last && at[last - 1] != ':' && at[last - 1] != '=')
		last--;
	size_t tail = (size_t)(end - at) - last;
	if (digits(at + last, tail, count) == 0) {
		if (last) {
			*type = at;
			*type_length = last - 1;
		}
	} else {
		/* a type alone means one GPU */
		if (last || !tail)
			return -1;
		*type = at;
		*type_length = tail;
	}
	for (size_t i = 0; i < *type_length; i++)
		if (!isalnum((unsigned char)(*type)[i]) && (!i || !strchr("_-.", (*type)[i])))
			return -1;
	return last && !*type_length ? -1 : 1;
}

int p4d_gres__parse_gpus(const char *text, bool bare, char *type, size_t size, uint32_t *count,
			 p4d_error *err)
{
	const char *first_type = "";
	size_t first_length = 0, length;
	uint32_t total = 0;
	unsigned entries = 0;

	if (strnlen(text, MAX_GRES_TEXT) == MAX_GRES_TEXT)
		return malformed(text, err);
	for (const char *at = text;; at += length + 1) {
		const char *entry_type;
		size_t type_length;
		uint32_t entry_count;

		if (entry_length(at, &length) < 0 || !length)
			return malformed(text, err);
		size_t plain = strcspn(at, "(") < length ? strcspn(at, "(") : length;
		if (plain < length && at[length - 1] != ')')
			return malformed(text, err);
		int rc = parse_entry(at, plain, bare, &entry_type, &type_length, &entry_count);
		if (rc < 0 || type_length >= size)
			return malformed(text, err);
		if (rc && entry_count) {
			if (!entries++) {
				first_type = entry_type;
				first_length = type_length;
			} else {
				first_length = 0;
			}
			/* at most 4096 entries below 10^7 each: the sum can pass 32 bits */
			if (__builtin_add_overflow(total, entry_count, &total))
				return malformed(text, err);
		}
		if (!at[length])
			break;
	}
	if (!entries)
		return 0;
	memcpy(type, first_type, first_length);
	type[first_length] = '\0';
	*count = total;
	return 1;
}

int p4d_gres_parse(const char *text, char *type, size_t size, uint32_t *count, p4d_error *err)
{
	return p4d_gres__parse_gpus(text, false, type, size, count, err);
}

int p4d_gres_parse_mem(const char *text, uint64_t *bytes, p4d_error *err)
{
	static const char units[] = "KMGT";
	size_t n = strspn(text, "0123456789");
	const char *at = text[n] ? strchr(units, toupper((unsigned char)text[n])) : units + 1;
	uint64_t value = 0, unit = at ? UINT64_C(1) << 10 * (at - units + 1) : 0;

	if (!n || !unit || (text[n] && text[n + 1]))
		return p4d_fail(err, P4D_E_VALUE,
				"memory size `%.64s`: not a whole number with K, M, G, T or nothing (MiB)",
				text);
	if (!p4d_number_digits(text, &value) || __builtin_mul_overflow(value, unit, &value))
		return p4d_fail(err, P4D_E_OVERFLOW, "memory size `%.64s` does not fit 64 bits", text);
	*bytes = value;
	return 0;
}

/* A number of nodes; Slurm takes k and m for 1024 and 1048576. */
static int node_count(const char *text, size_t length, uint32_t *out)
{
	uint32_t factor = 1, value;

	if (length && strchr("kK", text[length - 1]))
		factor = 1024;
	else if (length && strchr("mM", text[length - 1]))
		factor = 1024 * 1024;
	if (digits(text, factor == 1 ? length : length - 1, &value) < 0 || !value ||
	    __builtin_mul_overflow(value, factor, out))
		return -1;
	return 0;
}

int p4d_gres__parse_nodes(const char *text, uint32_t *min, uint32_t *max, p4d_error *err)
{
	size_t first = strcspn(text, "-");
	uint32_t low, high;

	if (node_count(text, first, &low) < 0)
		goto bad;
	high = low;
	if (text[first] && node_count(text + first + 1, strlen(text + first + 1), &high) < 0)
		goto bad;
	if (high < low)
		goto bad;
	*min = low;
	*max = high;
	return 0;
bad:
	return p4d_fail(err, P4D_E_VALUE, "--nodes=%.64s: neither a number of nodes nor a range such as 2-4",
			text);
}
