/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the hosts and GPUs on which deepspeed starts its ranks. */
#include "rehearse/deepspeed_hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rehearse/player.h"

enum { HOSTS = 1024, NAME = 64, SLOTS = 64 };

typedef struct host {
	char name[NAME];
	uint64_t slots, used; /* a bit for each GPU that the host has, and that is used */
} host;

typedef struct host_table {
	host at[HOSTS];
	size_t count;
	bool is_listed; /* a hostfile names all hosts */
} host_table;

static uint64_t first_slots(uint64_t count)
{
	return count < SLOTS ? ((uint64_t)1 << count) - 1 : UINT64_MAX;
}

static host *find(host_table *t, const char *name)
{
	for (size_t i = 0; i < t->count; i++)
		if (!strcmp(t->at[i].name, name))
			return &t->at[i];
	return NULL;
}

/* Adds a host. NULL: there are too many hosts. */
static host *add(host_table *t, const char *name, uint64_t slots)
{
	if (t->count == HOSTS)
		return NULL;
	host *h = &t->at[t->count++];
	snprintf(h->name, sizeof(h->name), "%s", name);
	h->slots = first_slots(slots);
	return h;
}

static int fail_size(p4d_error *err)
{
	return p4d_fail(err, P4D_E_UNMODELLED,
			"p4d rehearses deepspeed on at most %d hosts of at most %d GPUs", HOSTS, SLOTS);
}

static int read_hostfile(host_table *t, const p4d_deepspeed_hosts *told, p4d_error *err)
{
	char line[512], full[P4D_PLAYER_PATH], name[NAME];
	const char *from = told->hostfile[0] != '/' && told->directory ? told->directory : "";
	uint64_t slots;
	int rc = 0;

	snprintf(full, sizeof(full), "%s%s%s", from, *from ? "/" : "", told->hostfile);
	FILE *in = fopen(full, "re");
	while (in && !rc && fgets(line, sizeof(line), in)) {
		if (line[0] == '#' || sscanf(line, " %63s slots=%" SCNu64, name, &slots) != 2)
			continue;
		if (slots > SLOTS || !add(t, name, slots))
			rc = fail_size(err);
	}
	if (in)
		fclose(in);
	t->is_listed = t->count > 0;
	return rc;
}

/* Parses a host's GPUs, such as "0,2". -1: it is no such list. */
static int take_slots(const char **at, uint64_t *slots)
{
	*slots = 0;
	while (**at && **at != '@') {
		char *end;
		const unsigned long slot = strtoul(*at, &end, 10);
		if (end == *at || slot >= SLOTS || !strchr(",@", *end))
			return -1;
		*slots |= (uint64_t)1 << slot;
		*at = end + (*end == ',');
	}
	return 0;
}

/* Parses one host of --include or --exclude, such as "worker-1:0,2". slots 0: all of its GPUs. */
static int take_host(const char **at, char name[NAME], uint64_t *slots, p4d_error *err)
{
	const char *begin = *at;
	const size_t length = strcspn(begin, ":@");

	*slots = 0;
	*at += length;
	snprintf(name, NAME, "%.*s", (int)length, begin);
	if (**at == ':') {
		++*at;
		if (take_slots(at, slots))
			return p4d_fail(err, P4D_E_VALUE,
					"deepspeed expects hosts as NAME:0,1@NAME, not as %.100s", begin);
	}
	*at += **at == '@';
	return 0;
}

/* Selects the hosts and GPUs of a list (--include), or excludes them. */
static int filter(host_table *t, const p4d_deepspeed_hosts *told, const char *list, bool include,
		  p4d_error *err)
{
	char name[NAME];
	uint64_t slots;

	while (*list) {
		if (take_host(&list, name, &slots, err))
			return -1;
		host *h = find(t, name);
		if (!h && !t->is_listed && include && !(h = add(t, name, told->gpus)))
			return fail_size(err);
		if (!h)
			return p4d_fail(
			    err, P4D_E_VALUE,
			    "deepspeed's --include or --exclude names host %s, which %.100s does not have",
			    name, told->hostfile);
		if (h->slots && (slots & ~h->slots))
			return p4d_fail(
			    err, P4D_E_VALUE,
			    "deepspeed's --include or --exclude names a GPU that host %s does not have",
			    name);
		slots = slots ? slots : h->slots;
		h->used = include ? h->used | slots : h->used & ~slots;
	}
	return 0;
}

static int choose(host_table *t, const p4d_deepspeed_hosts *told, p4d_error *err)
{
	if (read_hostfile(t, told, err))
		return -1;
	if (told->gpus > SLOTS)
		return fail_size(err);
	if (told->include)
		return filter(t, told, told->include, true, err);
	if (!t->is_listed) /* if there is no hostfile, deepspeed starts ranks only on its own node */
		add(t, "localhost", told->gpus);
	for (size_t i = 0; i < t->count; i++)
		t->at[i].used = t->at[i].slots;
	if (!told->exclude)
		return 0;
	if (!t->is_listed && !told->gpus) {
		p4d_fail(err, P4D_E_UNMODELLED,
			 "deepspeed --exclude removes GPUs from hosts, but p4d does not know how many GPUs "
			 "the hosts have");
		return p4d_fix(err, "p4d rehearse --gpus-per-node N");
	}
	return filter(t, told, told->exclude, false, err);
}

/* Counts hosts with ranks; all must have equally many. */
static int count_used(const host_table *t, uint64_t *nodes, uint64_t *each, p4d_error *err)
{
	*nodes = *each = 0;
	for (size_t i = 0; i < t->count; i++) {
		const uint64_t used = (uint64_t)__builtin_popcountll(t->at[i].used);
		if (used && *each && used != *each)
			return p4d_fail(err, P4D_E_UNMODELLED,
					"deepspeed starts %" PRIu64 " ranks on one host and %" PRIu64
					" on %s; p4d rehearses the same number on each",
					*each, used, t->at[i].name);
		*nodes += used > 0;
		*each = used ? used : *each;
	}
	return 0;
}

int p4d_deepspeed__hosts(const p4d_deepspeed_hosts *told, uint64_t *nodes, uint64_t *each, p4d_error *err)
{
	host_table *t = calloc(1, sizeof(*t));
	int rc = t ? choose(t, told, err)
		   : p4d_fail(err, P4D_E_NO_MEMORY, "p4d has no memory to read deepspeed's list of hosts");

	if (!rc)
		rc = count_used(t, nodes, each, err);
	if (!rc && !*nodes && t->count && (told->exclude || t->is_listed))
		rc = p4d_fail(err, P4D_E_VALUE, "deepspeed --include and --exclude leave no GPU");
	if (!rc && !*nodes)
		*nodes = t->count;
	free(t);
	return rc;
}
