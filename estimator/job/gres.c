/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "job/job_internal.h"

enum { MAX_GRES_TEXT = 4096, MOST = 9999999, MOST_TYPES = 8 };

const char *p4d_gres__sign(const char *text)
{
	text += strspn(text, " \t\n\v\f\r");
	return text + (*text == '+');
}

/*
 * Reads a count in Slurm's form: blanks and a plus sign may precede it, and k or m (1024, 1048576) may follow
 * it. Returns 1: a count; 0: no number; -1: above ten million, more than any job has.
 */
static int count_of(const char *text, size_t length, uint32_t *out)
{
	const char *start = p4d_gres__sign(text), *end = text + length;
	uint64_t value, factor = 1;

	if (start >= end || !isdigit((unsigned char)*start))
		return 0;
	const char *at = p4d_number_digits(start, &value);
	if (at && at + 1 == end && strchr("kKmM", *at))
		factor = strchr("kK", *at++) ? 1024 : 1024 * 1024;
	if (at && at != end)
		return 0;
	if (!at || value > MOST || value * factor > MOST)
		return -1;
	*out = (uint32_t)(value * factor);
	return 1;
}

static int malformed(const char *text, p4d_error *err)
{
	p4d_fail(err, P4D_E_VALUE, "GPU request `%.128s` is malformed", text);
	return p4d_fix(err, "--gres=gpu:4");
}

/* Length of the entry at `at`. Commas inside parentheses do not end the entry: "gpu:2(S:0,1)". */
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

/*
 * Whether the name is another resource than a GPU type. Since Slurm 23.11, tres_per_task also contains
 * "cpu:4".
 */
static bool is_other_tres(const char *at, size_t length)
{
	static const char *const names[] = {"cpu", "mem", "node", "billing", "energy", "license",
					    "bb",  "fs",  "ic",   "pages",   "vmem"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == length && !strncasecmp(names[i], at, length))
			return true;
	return false;
}

/* A GPU type and a count; the type is borrowed from the text. */
typedef struct gres_entry {
	const char *type;
	size_t length;
	uint32_t count;
} gres_entry;

/* The text after "gpu:": a type, a count or both. A type alone means one GPU. */
static int parse_count(const char *at, const char *end, gres_entry *entry)
{
	const char *last = end;

	while (last > at && last[-1] != ':' && last[-1] != '=')
		last--;
	int rc = count_of(last, (size_t)(end - last), &entry->count);
	if (rc < 0 || (rc == 0 && (last > at || last == end)))
		return -1;
	entry->type = at;
	entry->length = (size_t)((rc == 0 ? end : last > at ? last - 1 : at) - at);
	for (size_t i = 0; i < entry->length; i++)
		if (!isalnum((unsigned char)at[i]) && (!i || !strchr("_-.", at[i])))
			return -1;
	return last > at && !entry->length ? -1 : 1;
}

/*
 * Parses one entry without its index list: [gres:|gres/]NAME[:TYPE][:COUNT]. Returns 1 when it is a GPU
 * entry.
 */
static int parse_entry(const char *at, size_t length, bool bare, gres_entry *entry)
{
	const char *end = at + length;
	bool prefixed = length >= 5 && !strncasecmp(at, "gres", 4) && (at[4] == ':' || at[4] == '/');
	size_t name = 0;

	*entry = (gres_entry){"", 0, 1};
	if (prefixed)
		at += 5;
	while (at + name < end && !strchr(":=/", at[name]))
		name++;
	if (at == end)
		return 0; /* an empty --gres */
	if (name == 3 && !strncasecmp(at, "gpu", 3))
		return at + name == end ? 1 : parse_count(at + name + 1, end, entry);
	if (!bare || prefixed || is_other_tres(at, name))
		return name ? 0 : -1;
	return parse_count(at, end, entry);
}

/* Adds an entry; as in Slurm, the last count of a type wins. */
static int put_entry(gres_entry all[MOST_TYPES], unsigned *count, const gres_entry *entry)
{
	unsigned i = 0;

	while (i < *count &&
	       (all[i].length != entry->length || strncasecmp(all[i].type, entry->type, entry->length) != 0))
		i++;
	if (i == MOST_TYPES)
		return -1;
	all[i] = *entry;
	*count += i == *count;
	return 0;
}

int p4d_gres__parse_gpus(const char *text, bool bare, char *type, size_t size, uint32_t *count,
			 p4d_error *err)
{
	gres_entry all[MOST_TYPES], entry;
	unsigned entries = 0;
	size_t length;

	if (strnlen(text, MAX_GRES_TEXT) == MAX_GRES_TEXT)
		return malformed(text, err);
	for (const char *at = text;; at += length + 1) {
		if (entry_length(at, &length) < 0)
			return malformed(text, err);
		size_t plain = strcspn(at, "(") < length ? strcspn(at, "(") : length;
		if (plain < length && at[length - 1] != ')')
			return malformed(text, err);
		int rc = parse_entry(at, plain, bare, &entry);
		if (rc < 0 || entry.length >= size ||
		    (rc && entry.count && put_entry(all, &entries, &entry) < 0))
			return malformed(text, err);
		if (!at[length])
			break;
	}
	if (!entries)
		return 0;
	if (entries == 2 && all[0].count == all[1].count && !all[0].length != !all[1].length) {
		/* both entries mean the same GPUs, with and without type: "gpu:4,gpu:a100:4" */
		all[0] = all[all[0].length ? 0 : 1];
		entries = 1;
	}
	*count = 0;
	for (unsigned i = 0; i < entries; i++)
		*count += all[i].count;
	size_t known = entries == 1 ? all[0].length : 0;
	memcpy(type, all[0].type, known);
	type[known] = '\0';
	return 1;
}

int p4d_gres_parse(const char *text, char *type, size_t size, uint32_t *count, p4d_error *err)
{
	return p4d_gres__parse_gpus(text, false, type, size, count, err);
}

int p4d_gres_parse_mem(const char *text, uint64_t *bytes, p4d_error *err)
{
	static const char units[] = "KMGT";
	const char *start = p4d_gres__sign(text);
	const char *end = start + strspn(start, "0123456789");
	const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : units + 1;
	uint64_t value = 0, factor = unit ? UINT64_C(1) << 10 * (unit - units + 1) : 0;

	if (end == start || !factor || (*end && end[1] && strcasecmp(end + 1, "B") != 0))
		return p4d_fail(
		    err, P4D_E_VALUE,
		    "memory size `%.64s`: not a whole number, alone (in MiB) or with K, M, G or T", text);
	if (!p4d_number_digits(start, &value) || __builtin_mul_overflow(value, factor, &value) ||
	    __builtin_add_overflow(value, (1 << 20) - 1, &value))
		return p4d_fail(err, P4D_E_OVERFLOW, "memory size `%.64s` does not fit 64 bits", text);
	*bytes = value >> 20 << 20; /* Slurm counts whole MiB */
	return 0;
}

int p4d_gres__parse_nodes(const char *text, uint32_t *min, uint32_t *max, p4d_error *err)
{
	size_t first = strcspn(text, "-");
	uint32_t low, high;

	if (count_of(text, first, &low) <= 0)
		goto bad;
	high = low;
	if (text[first] && count_of(text + first + 1, strlen(text + first + 1), &high) <= 0)
		goto bad;
	if (high < low || (!low && high))
		goto bad;
	*min = low; /* Slurm treats --nodes=0, as in templates, like no option */
	*max = high;
	return 0;
bad:
	return p4d_fail(err, P4D_E_VALUE, "--nodes=%.64s: neither a number of nodes nor a range such as 2-4",
			text);
}
