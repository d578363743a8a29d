/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests fixes: generates jobs and runs `p4d check` on them. If p4d refuses a job, applies the fix and runs
 * `p4d check` again.
 *
 *     fixes [--seed=N] [--first=I] [--count=N] [--refusals=N] [--keep]
 *
 * After a fix, p4d must accept the job, the job must train the same model on the same data, and p4d must
 * predict the memory of the options in the edited script. If this fails for a job, the exit status is 1.
 * --refusals=N: stops after N refusals with a fix. --keep: keeps the files of the last case in `case`.
 */
#include <json-c/json.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cases.h"
#include "edit.h"

enum { OUTPUT_MAX = 1 << 17 };

typedef struct verdict {
	bool judged, fits; /* fits: no message says that it does not fit */
	double fraction;
	uint64_t device_bytes;
	int64_t nodes, gpus_per_node, seq_len, global_batch;
	char text[600], fix[600]; /* text and fix of the first message with a fix */
	char trained[300];        /* values of the plan that a fix must not change */
} verdict;

static const char *output_of(const char *command)
{
	static char buf[OUTPUT_MAX];
	FILE *pipe = popen(command, "re");
	size_t got = pipe ? fread(buf, 1, sizeof(buf) - 1, pipe) : 0;

	buf[got] = '\0';
	if (pipe)
		pclose(pipe);
	return buf;
}

static struct json_object *member(struct json_object *of, const char *key)
{
	struct json_object *found = NULL;

	return of && json_object_object_get_ex(of, key, &found) ? found : NULL;
}

static const char *string_of(struct json_object *of, const char *key)
{
	const char *text = json_object_get_string(member(of, key));

	return text ? text : "";
}

/* Whether a message with this code says that the job does not fit, or that it has no valid layout. */
static bool says_no(const char *code, const char *text)
{
	static const char *const codes[] = {"P4D121", "P4D033", "P4D045", "P4D046", "P4D123"};

	if (!strcmp(code, "P4D121"))
		return strstr(text, "needs") || strstr(text, "nothing is left") || strstr(text, "take");
	for (size_t i = 1; i < sizeof(codes) / sizeof(*codes); i++)
		if (!strcmp(code, codes[i]))
			return true;
	return false;
}

static void take_messages(struct json_object *list, verdict *v)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		const char *fix = string_of(one, "fix");
		const bool no = says_no(string_of(one, "code"), string_of(one, "text"));
		v->fits = v->fits && !no;
		if (v->text[0] || !(no || i == 0))
			continue;
		snprintf(v->text, sizeof(v->text), "[%s] %s", string_of(one, "code"), string_of(one, "text"));
		snprintf(v->fix, sizeof(v->fix), "%s", fix);
	}
}

/* Stores the part of a plan that a fix must not change: all values except the layout, the GPUs and the
 * sharding. */
static void take_trained(const char *plan, verdict *v)
{
	static const char *const keys[] = {"model",     "seq-len", "global-batch", "precision", "finetune",
					   "lora-rank", "layers",  "hidden",       "workload",  "quant"};
	char key[40];

	v->trained[0] = '\0';
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		/* values that nobody typed are p4d's assumptions; for an engine, the sequence length is
		 * not trained with */
		snprintf(key, sizeof(key), ":%s=", keys[i]);
		const char *at = strstr(plan, key);
		const char *origin = at ? at + strcspn(at, "@") : "";
		if (at && strncmp(origin, "@p", 2) != 0 && !(i == 1 && strstr(plan, ":workload=serve")))
			snprintf(v->trained + strlen(v->trained), sizeof(v->trained) - strlen(v->trained),
				 "%.*s", (int)strcspn(at, "@"), at);
	}
}

static void read_verdict(const char *json, verdict *v)
{
	struct json_object *answer = json_tokener_parse(json), *peak = member(answer, "peak"),
			   *layout = member(answer, "layout"), *serving = member(answer, "serving");

	*v = (verdict){.fits = answer && !json_object_get_boolean(member(answer, "would_reject"))};
	v->judged = json_object_get_boolean(member(answer, "judged")) || serving;
	v->fraction = json_object_get_double(member(peak, "fraction"));
	v->device_bytes = (uint64_t)json_object_get_int64(member(peak, "device_bytes"));
	v->nodes = json_object_get_int64(member(layout, "nodes"));
	v->gpus_per_node = json_object_get_int64(member(layout, "gpus_per_node"));
	take_messages(member(answer, "messages"), v);
	take_trained(string_of(answer, "plan"), v);
	json_object_put(answer);
}

static void check(const char *options, verdict *v)
{
	char command[2048];

	snprintf(command, sizeof(command),
		 "PATH=$PWD/bin:$PATH p4d check --json --conf site.conf%s job.sh 2>&1 </dev/null", options);
	read_verdict(output_of(command), v);
}

/* The peak that p4d computes from the options that it reads in the script; 0: unknown. */
static uint64_t peak_of_options(const test_case *c, const verdict *v)
{
	char command[8192];
	struct json_object *read =
	    json_tokener_parse(output_of("PATH=$PWD/bin:$PATH p4d read --json job.sh 2>/dev/null"));

	snprintf(command, sizeof(command), "%s", string_of(read, "command"));
	json_object_put(read);
	if (!command[0] || !c->site->gpu)
		return 0;
	snprintf(command + strlen(command), sizeof(command) - strlen(command),
		 " --gpu=%s --nodes=%d --gpus-per-node=%d --json 2>/dev/null", c->site->gpu, (int)v->nodes,
		 (int)v->gpus_per_node);
	struct json_object *answer = json_tokener_parse(output_of(command));
	const uint64_t bytes =
	    (uint64_t)json_object_get_int64(member(member(answer, "peak"), "device_bytes"));
	json_object_put(answer);
	return bytes;
}

typedef struct tally {
	unsigned cases, refusals, fixes, failures;
} tally;

static void report(uint64_t number, const test_case *c, const verdict *before, const char *what,
		   const char *why)
{
	printf("case %lu (%s at %s): %s%s%s\n  options:%s\n  %s\n  fix: %s\n", (unsigned long)number, c->kind,
	       c->site->name, what, *why ? ": " : "", why, c->options, before->text, before->fix);
}

/* Tries a fix. NULL: it works; otherwise the text says what is wrong. */
static const char *try_fix(test_case *c, const verdict *before, char *why, size_t room)
{
	char options[1600];
	verdict after;

	why[0] = '\0';
	snprintf(options, sizeof(options), "%s", c->options);
	if (!apply_fix(before->fix, options, sizeof(options), why, room))
		return "it cannot be pasted";
	check(options, &after);
	snprintf(why, room, "%s", after.text);
	if (!after.judged)
		return "pasted, it is not judged any more";
	if (!after.fits)
		return "pasted, it is refused again";
	/* a job that only gets advice has no plan line */
	if (before->trained[0] && after.trained[0] && strcmp(before->trained, after.trained) != 0) {
		snprintf(why, room, "%s, then %s", before->trained, after.trained);
		return "it trains something else";
	}
	const char *memory = strstr(options, "--mem=");
	if (memory && strtoul(memory + 6, NULL, 10) > c->site->mem_gib)
		return "a node has less memory";
	if (after.nodes > (int64_t)c->site->nodes || after.gpus_per_node > (int64_t)c->site->gpus)
		return "there are not so many nodes";
	const uint64_t options_bytes = strstr(c->options, "--p4d-") ? 0 : peak_of_options(c, &after);
	if (options_bytes && after.device_bytes && options_bytes != after.device_bytes) {
		snprintf(why, room, "%.3f GiB by options, %.3f by the script",
			 ldexp((double)options_bytes, -30), ldexp((double)after.device_bytes, -30));
		return "the script is judged otherwise than its options";
	}
	return NULL;
}

static void try_case(uint64_t seed, uint64_t number, tally *t, bool all)
{
	test_case c;
	verdict before;
	char why[700];

	if (system("rm -rf case && mkdir case") != 0 || chdir("case") != 0)
		abort();
	write_case(seed, number, &c);
	check(c.options, &before);
	t->cases++;
	if (!before.fits) {
		t->refusals++;
		if (all)
			report(number, &c, &before, "refused", "");
		if (before.fix[0]) {
			t->fixes++;
			const char *wrong = try_fix(&c, &before, why, sizeof(why));
			if (wrong) {
				t->failures++;
				report(number, &c, &before, wrong, why);
			}
		}
	}
	if (chdir("..") != 0)
		abort();
}

static uint64_t number_of(const char *word, const char *option, uint64_t otherwise)
{
	const size_t length = strlen(option);

	return strncmp(word, option, length) != 0 ? otherwise : strtoull(word + length, NULL, 10);
}

int main(int argc, char *argv[])
{
	uint64_t seed = 1, first = 0, count = 1000, refusals = UINT64_MAX;
	bool keep = false, all = false;
	tally t = {0};

	for (int i = 1; i < argc; i++) {
		seed = number_of(argv[i], "--seed=", seed);
		first = number_of(argv[i], "--first=", first);
		count = number_of(argv[i], "--count=", count);
		refusals = number_of(argv[i], "--refusals=", refusals);
		keep = keep || !strcmp(argv[i], "--keep");
		all = all || !strcmp(argv[i], "--all");
	}
	for (uint64_t i = first; i < first + count && t.fixes < refusals; i++)
		try_case(seed, i, &t, all);
	if (!keep && system("rm -rf case") != 0)
		abort();
	printf("%u jobs, %u refused, %u with a fix, %u of these fixes failed\n", t.cases, t.refusals, t.fixes,
	       t.failures);
	return t.failures ? 1 : t.fixes ? 0 : 2;
}
