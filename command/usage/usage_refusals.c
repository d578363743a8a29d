/* SPDX-License-Identifier: Apache-2.0 */
#include "usage/usage_refusals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/json_file.h"
#include "report/table.h"

/* Copies the value of a key in a line of the log, ` key="value"`, to buf; "" if the key is not there. */
static const char *value_of(const char *line, const char *key, char *buf, size_t size)
{
	char start[32];

	snprintf(start, sizeof(start), " %s=\"", key);
	const char *at = strstr(line, start);
	size_t length = 0;

	*buf = '\0';
	if (!at)
		return buf;
	at += strlen(start);
	while (at[length] && at[length] != '"')
		length += at[length] == '\\' && at[length + 1] ? 2 : 1;
	snprintf(buf, size, "%.*s", (int)(length < size ? length : size - 1), at);
	return buf;
}

static int add(p4d_usage_refusals *all, const char *line, p4d_error *err)
{
	p4d_usage_refusal refusal = {.code = ""};
	char uid[16], name[64], model[64];

	if (!p4d_grow(&all->refusal, &all->room, all->count + 1, sizeof(refusal)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu refusals", all->count + 1);
	value_of(line, "code", refusal.code, sizeof(refusal.code));
	refusal.code[strcspn(refusal.code, ",+")] = '\0';
	snprintf(refusal.job, sizeof(refusal.job), "%s %s %s", value_of(line, "uid", uid, sizeof(uid)),
		 value_of(line, "job", name, sizeof(name)), value_of(line, "model", model, sizeof(model)));
	all->refusal[all->count++] = refusal;
	return 0;
}

static int by_code_and_job(const void *a, const void *b)
{
	const p4d_usage_refusal *one = a, *other = b;
	const int order = strcmp(one->code, other->code);

	return order ? order : strcmp(one->job, other->job);
}

static int by_count(const void *a, const void *b)
{
	const p4d_usage_refused *one = a, *other = b;

	return one->refusals != other->refusals ? (one->refusals < other->refusals ? 1 : -1)
						: strcmp(one->code, other->code);
}

static int count(p4d_usage_refusals *all, p4d_error *err)
{
	if (all->count)
		qsort(all->refusal, all->count, sizeof(*all->refusal), by_code_and_job);
	all->codes = 0;
	for (size_t i = 0; i < all->count; i++) {
		const p4d_usage_refusal *r = &all->refusal[i];
		const bool same_code = i && !strcmp(r->code, r[-1].code),
			   same = same_code && !strcmp(r->job, r[-1].job);
		if (!same_code) {
			if (!p4d_grow(&all->of, &all->codes_room, all->codes + 1, sizeof(*all->of)))
				return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu codes",
						all->codes + 1);
			all->of[all->codes++] = (p4d_usage_refused){.refusals = 0};
			memcpy(all->of[all->codes - 1].code, r->code, sizeof(r->code));
		}
		all->of[all->codes - 1].refusals++;
		all->of[all->codes - 1].jobs += !same;
	}
	if (all->codes)
		qsort(all->of, all->codes, sizeof(*all->of), by_count);
	return 0;
}

int p4d_usage_refusals__read(p4d_usage_refusals *all, const char *path, p4d_error *err)
{
	FILE *from = fopen(path, "re");
	size_t room = 0;
	char *line = NULL;
	int rc = 0;

	if (!from)
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
	while (rc == 0 && getline(&line, &room, from) > 0) {
		const char *at = strstr(line, "p4d: event=\"submit\" verdict=\"refuse\"");
		if (at)
			rc = add(all, at, err);
		all->lines += strstr(line, "p4d: ") != NULL;
	}
	const int why = ferror(from) ? errno : 0;
	free(line);
	fclose(from);
	if (why)
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path, strerror(why));
	all->path = path;
	return rc < 0 ? -1 : count(all, err);
}

void p4d_usage_refusals__free(p4d_usage_refusals *all)
{
	free(all->refusal);
	free(all->of);
}

p4d_usage_refused p4d_usage_refusals__sum(const p4d_usage_refusals *all)
{
	p4d_usage_refused sum = {.refusals = 0};

	for (size_t i = 0; i < all->codes; i++) {
		sum.refusals += all->of[i].refusals;
		sum.jobs += all->of[i].jobs;
	}
	return sum;
}

void p4d_usage_refusals__fill(const p4d_usage_refusals *all, p4d_table *table)
{
	p4d_table_columns(table, {"CODE", P4D_LEFT}, {"REFUSALS", P4D_RIGHT}, {"DIFFERENT JOBS", P4D_RIGHT});
	for (size_t i = 0; i < all->codes; i++) {
		p4d_table_cell(table, P4D_PLAIN, "%s", all->of[i].code);
		p4d_table_cell(table, P4D_PLAIN, "%zu", all->of[i].refusals);
		p4d_table_cell(table, P4D_PLAIN, "%zu", all->of[i].jobs);
	}
}

struct json_object *p4d_usage_refusals__json(const p4d_usage_refusals *all)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < all->codes; i++) {
		struct json_object *o = json_object_new_object();
		json_object_object_add(o, "code", json_object_new_string(all->of[i].code));
		json_object_object_add(o, "refusals", json_object_new_int64((int64_t)all->of[i].refusals));
		json_object_object_add(o, "jobs", json_object_new_int64((int64_t)all->of[i].jobs));
		json_object_array_add(list, o);
	}
	return list;
}
