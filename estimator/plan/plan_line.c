/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan_line.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "plan/plan.h"
#include "request/framework.h"

static const char magic[] = "p4d1";
static const char hash_key[] = ":hash=";
static const char origin_letter[] = {[P4D_BY_USER] = 'u',
				     [P4D_BY_SCRIPT] = 'j',
				     [P4D_BY_SITE] = 's',
				     [P4D_BY_MODEL] = 'm',
				     [P4D_BY_P4D] = 'p'};

/*
 * Whether a character of a plan is not encoded. strspn is no choice, because it builds a table for each
 * value.
 */
static bool is_literal(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("._/+,-", c));
}

enum { VALUE_MAX = 1024 };

/* Adds a text in the line's encoding. */
static void encode(p4d_text *line, const char *text)
{
	while (*text) {
		size_t plain = 0;
		while (is_literal(text[plain]))
			plain++;
		p4d_text_add_bytes(line, text, plain);
		text += plain;
		if (*text)
			p4d_text_print(line, "%%%02x", (unsigned char)*text++);
	}
}

static bool in_plan(p4d_option option)
{
	return p4d_request_option_info(option)->where & P4D_WHERE_PLAN;
}

void p4d_plan_place(p4d_request *request, uint64_t nodes, uint64_t gpus_per_node, const char *gpu)
{
	p4d_request_put(request, P4D_NODES, (int64_t)nodes, P4D_BY_USER);
	p4d_request_put(request, P4D_GPUS_PER_NODE, (int64_t)gpus_per_node, P4D_BY_USER);
	if (!gpu)
		return;
	snprintf(request->gpu, sizeof(request->gpu), "%s", gpu);
	p4d_request_put(request, P4D_GPU, 1, P4D_BY_SITE);
}

int p4d_plan_add_checksum(p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu, p4d_error *err)
{
	uint64_t buffers;

	if (!p4d_framework_of(layout->framework)->allocates_plan)
		return 0;
	if (p4d_plan_hash(layout, gpu, &buffers, err) < 0)
		return -1;
	snprintf(request->arena, sizeof(request->arena), "%016" PRIx64, buffers);
	p4d_request_put(request, P4D_ARENA, 1, P4D_BY_P4D);
	return 0;
}

int p4d_plan_verify_checksum(const p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu,
			     p4d_error *err)
{
	p4d_request computed = {.arena = ""};

	if (!p4d_is_set(request, P4D_ARENA))
		return 0;
	if (p4d_plan_add_checksum(&computed, layout, gpu, err) < 0)
		return -1;
	if (!strcmp(request->arena, computed.arena))
		return 0;
	if (gpu && p4d_is_set(request, P4D_GPU) && strcmp(request->gpu, gpu->name) != 0) {
		p4d_fail(err, P4D_E_PLAN_CHANGED,
			 "the plan was made for %.60s, but the job would now get %s, because its partition "
			 "or nodes were changed",
			 request->gpu, gpu->name);
		return p4d_fix(
		    err,
		    "submit the job to the partition where it will run: --partition=NAME, or --constraint=%s",
		    gpu->name);
	}
	p4d_fail(err, P4D_E_PLAN_CHANGED,
		 "the plan's buffer layout has hash %s where the plan was made, but %s on this host, so p4d "
		 "or gpus.json differs",
		 request->arena, computed.arena);
	return p4d_fix(err, "install the same p4d and gpus.json on the login nodes and on this host");
}

/*
 * The word of a value in a plan. These words never change, so that saved plans stay readable and keep their
 * hash.
 */
static const char *word_of(const p4d_request *request, p4d_option option, char *buf, size_t size)
{
	if (option == P4D_OPTIMIZER_SHARDING && request->value[option] == P4D_SHARD_STATES)
		return "on";
	return p4d_request_value_text(request, option, buf, size);
}

/* Appends a value. Numbers, and words of choices, need no encoding. */
static void add_value(p4d_text *line, const p4d_request *request, p4d_option option)
{
	const p4d_kind kind = p4d_request_option_info(option)->kind;
	char value[VALUE_MAX];

	if (kind == P4D_INTEGER_KIND)
		p4d_text_add(line, p4d_request_value_text(request, option, value, sizeof(value)));
	else if (kind == P4D_CHOICE_KIND)
		p4d_text_add(line, word_of(request, option, value, sizeof(value)));
	else
		encode(line, p4d_request_value_text(request, option, value, sizeof(value)));
}

int p4d_plan_write(const p4d_request *request, char *line, size_t size, p4d_error *err)
{
	p4d_text w = p4d_text_in(line, size);

	p4d_text_add(&w, magic);
	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_option option = (p4d_option)i;
		if (!in_plan(option) || !p4d_is_set(request, option))
			continue;
		/* printf would be slow, and slurmctld writes every plan that it reads */
		p4d_text_add(&w, ":");
		p4d_text_add(&w, p4d_request_option_info(option)->name);
		p4d_text_add(&w, "=");
		add_value(&w, request, option);
		p4d_text_add_bytes(&w, (const char[]){'@', origin_letter[request->origin[option]]}, 2);
	}
	p4d_text_print(&w, "%s%016" PRIx64, hash_key, p4d_hash_bytes(line, w.length));
	if (w.truncated)
		return p4d_fail(err, P4D_E_PLAN_SYNTAX,
				"the plan needs more than %zu characters; shorten --p4d-model", size - 1);
	return 0;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes a text of encode. Returns -1 if the text is malformed or too long. */
static int decode(const char *text, size_t length, char *out, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		if (c == '%') {
			if (i + 2 >= length)
				return -1;
			int high = digit(text[i + 1]), low = digit(text[i + 2]);
			if (high < 0 || low < 0 || (high == 0 && low == 0))
				return -1;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (used + 1 >= size)
			return -1;
		out[used++] = c;
	}
	out[used] = '\0';
	return 0;
}

static int origin_of(char letter)
{
	for (int i = P4D_BY_USER; i <= P4D_BY_P4D; i++)
		if (origin_letter[i] == letter)
			return i;
	return -1;
}

/*
 * Finds an option by name; -1: not found. The search starts after the previous option, because plans have the
 * order of the table.
 */
static int find_option(const char *name, int before)
{
	for (int i = before + 1; i < P4D_OPTIONS; i++)
		if (!strcmp(p4d_request_option_info((p4d_option)i)->name, name))
			return i;
	return p4d_request_option_find(name);
}

/* Reads one `name=value@o` between colons. *before: the previous item's option; is set to this item's. */
static int read_item(const char *item, size_t length, p4d_request *request, int *before, p4d_error *err)
{
	char name[64], value[VALUE_MAX];
	const char *equals = memchr(item, '=', length);
	size_t name_length = equals ? (size_t)(equals - item) : length;

	if (!equals || name_length >= sizeof(name) || length < name_length + 3 || item[length - 2] != '@')
		return p4d_fail(err, P4D_E_PLAN_SYNTAX, "plan: '%.*s' is not name=value@origin",
				(int)(length < 60 ? length : 60), item);
	memcpy(name, item, name_length);
	name[name_length] = '\0';
	const int option = *before = find_option(name, *before);
	if (option < 0 || !in_plan((p4d_option)option))
		return p4d_fail(err, P4D_E_PLAN_SYNTAX,
				"plan: '%s' is unknown to p4d %s; plan and p4d have different versions", name,
				magic);
	if (p4d_is_set(request, (p4d_option)option))
		return p4d_fail(err, P4D_E_PLAN_SYNTAX, "plan: '%s' appears twice", name);
	int origin = origin_of(item[length - 1]);
	if (origin < 0 || decode(equals + 1, length - name_length - 3, value, sizeof(value)) < 0)
		return p4d_fail(err, P4D_E_PLAN_SYNTAX, "plan: malformed value of '%s'", name);
	return p4d_request_set(request, (p4d_option)option, value, (p4d_origin)origin, err);
}

int p4d_plan_read(const char *line, p4d_request *request, p4d_error *err)
{
	p4d_request result;
	char again[P4D_PLAN_MAX];
	size_t length = strnlen(line, P4D_PLAN_MAX);

	if (length == P4D_PLAN_MAX)
		return p4d_fail(err, P4D_E_PLAN_SYNTAX, "plan: longer than %d characters", P4D_PLAN_MAX - 1);
	if (strncmp(line, magic, sizeof(magic) - 1) != 0 || line[sizeof(magic) - 1] != ':')
		return p4d_fail(err, P4D_E_PLAN_SYNTAX, "plan: '%.20s' does not start with '%s:'", line,
				magic);
	const char *tail = strstr(line, hash_key);
	if (!tail)
		return p4d_fail(err, P4D_E_PLAN_SYNTAX,
				"plan: truncated after %zu characters, the hash is missing", length);

	char expected[17];
	snprintf(expected, sizeof(expected), "%016" PRIx64, p4d_hash_bytes(line, (size_t)(tail - line)));
	const char *hash = tail + sizeof(hash_key) - 1;
	if (strncmp(hash, expected, strlen(expected)) != 0)
		return p4d_fail(err, P4D_E_PLAN_CHANGED,
				"plan: its hash is %.16s but its text gives %s: it was edited", hash,
				expected);
	if (hash[strlen(expected)])
		return p4d_fail(err, P4D_E_PLAN_CHANGED,
				"plan: %zu characters follow its hash: it was edited",
				strlen(hash) - strlen(expected));

	memset(&result, 0, sizeof(result));
	int option = -1;
	for (const char *at = line + sizeof(magic); at < tail;) {
		const char *end = memchr(at, ':', (size_t)(tail - at));
		if (!end)
			end = tail;
		if (read_item(at, (size_t)(end - at), &result, &option, err) < 0)
			return -1;
		at = end < tail ? end + 1 : end;
	}
	if (p4d_plan_write(&result, again, sizeof(again), NULL) < 0 || strcmp(line, again) != 0)
		return p4d_fail(err, P4D_E_PLAN_SYNTAX, "plan: p4d would write these values in another way");
	*request = result;
	return 0;
}

void p4d_plan_digest(const p4d_request *request, char text[P4D_DIGEST_TEXT])
{
	p4d_digest digest = p4d_digest_begin();
	char value[VALUE_MAX];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_option option = (p4d_option)i;
		if (!in_plan(option) || !p4d_is_set(request, option))
			continue;
		const char *name = p4d_request_option_info(option)->name;
		const char *word = word_of(request, option, value, sizeof(value));
		/* the NUL after each text keeps names and values separate */
		p4d_digest_add(&digest, name, strlen(name) + 1);
		p4d_digest_add(&digest, word, strlen(word) + 1);
	}
	p4d_digest_text(&digest, text);
}

int p4d_plan_differs(const p4d_request *a, const p4d_request *b, p4d_option *which)
{
	char left[VALUE_MAX], right[VALUE_MAX];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_option option = (p4d_option)i;
		if (!in_plan(option))
			continue;
		if (p4d_is_set(a, option) == p4d_is_set(b, option) &&
		    (!p4d_is_set(a, option) ||
		     !strcmp(p4d_request_value_text(a, option, left, sizeof(left)),
			     p4d_request_value_text(b, option, right, sizeof(right)))))
			continue;
		if (which)
			*which = option;
		return 1;
	}
	return 0;
}
