/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/command_rehearse.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/suggest.h"
#include "rehearse/player.h"
#include "rehearse/rehearsed.h"
#include "rehearse/store.h"
#include "report/table.h"
#include "site/site.h"

const char p4d_rehearse_options[] =
    "\n  --gpu NAME          GPU that the program finds; see p4d gpus (default h100-80gb)\n"
    "  --nodes N           nodes of the job (default 1)\n"
    "  --gpus-per-node N   GPUs of each node (default 1)\n"
    "  --ranks LIST        ranks to play, one after the other: first,last (default), all, or numbers: "
    "0,5,63\n"
    "  --steps N           optimizer steps after which a rank ends (default 2; 0: the program ends by "
    "itself)\n"
    "  --timeout SECONDS   for one rank (default 600)\n"
    "  --json              as JSON\n\n"
    "PROGRAM is the training program itself, without torchrun or srun: p4d sets RANK, WORLD_SIZE and their "
    "like.\n"
    "It runs for real, up to its optimizer's N-th step: what it writes before is written. Its GPU keeps "
    "account of\n"
    "memory and computes nothing.";

enum { RANKS = 64, REASON = 240 };

typedef struct rehearsal {
	p4d_player player;
	const char *gpu, *ranks;
	bool json;
	uint64_t rank[RANKS];
	unsigned count;
	p4d_rehearsed *rehearsed; /* one per rank */
} rehearsal;

static int usage(p4d_error *err, const char *text, const char *word)
{
	p4d_fail(err, P4D_E_USAGE, "%s%.100s", text, word);
	return p4d_fix(err, "p4d help rehearse");
}

/* Command line */

static int number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *value,
		  p4d_error *err)
{
	if (p4d_number_whole(text, least, most, value))
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "%s=%.60s: not a whole number from %" PRIu64 " to %" PRIu64, option,
			text, least, most);
}

static int take_option(rehearsal *r, const char *name, const char *value, p4d_error *err)
{
	const struct {
		const char *name;
		uint64_t least, most;
		uint64_t *value;
	} numbers[] = {
	    {"--nodes", 1, P4D_PLAYER_RANKS, &r->player.nodes},
	    {"--gpus-per-node", 1, 64, &r->player.gpus_per_node},
	    {"--steps", 0, 1000, &r->player.steps},
	    {"--timeout", 1, 86400, &r->player.timeout},
	};
	p4d_suggest alike = {.wanted = name};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!strcmp(name, numbers[i].name))
			return number(name, value, numbers[i].least, numbers[i].most, numbers[i].value, err);
		p4d_suggest_offer(&alike, numbers[i].name);
	}
	if (!strcmp(name, "--gpu")) {
		r->gpu = value;
		return 0;
	}
	if (!strcmp(name, "--ranks")) {
		r->ranks = value;
		return 0;
	}
	p4d_fail(err, P4D_E_USAGE, "unknown option %.60s%s", name, p4d_suggest_text(&alike));
	return p4d_fix(err, "p4d help rehearse");
}

/* "--name=value" or "--name value"; returns the words taken, -1 with an error. */
static int take_words(rehearsal *r, char *argv[], p4d_error *err)
{
	char name[64];
	const char *equals = strchr(argv[0], '=');

	if (!strcmp(argv[0], "--json")) {
		r->json = true;
		return 1;
	}
	if (equals) {
		snprintf(name, sizeof(name), "%.*s", (int)(equals - argv[0]), argv[0]);
		return take_option(r, name, equals + 1, err) ? -1 : 1;
	}
	if (!argv[1])
		return usage(err, "no value given for ", argv[0]);
	return take_option(r, argv[0], argv[1], err) ? -1 : 2;
}

static int parse(rehearsal *r, int argc, char *argv[], p4d_error *err)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--")) {
		int words = take_words(r, argv + i, err);
		if (words < 0)
			return -1;
		i += words;
	}
	if (i < argc && !strcmp(argv[i], "--"))
		i++;
	if (i >= argc)
		return usage(err, "no program given", "");
	r->player.program = argv + i;
	if (r->player.nodes * r->player.gpus_per_node > P4D_PLAYER_RANKS)
		return p4d_fail(err, P4D_E_VALUE, "%" PRIu64 " ranks are more than the %d that p4d plays",
				r->player.nodes * r->player.gpus_per_node, P4D_PLAYER_RANKS);
	return 0;
}

static int add_rank(rehearsal *r, uint64_t rank, p4d_error *err)
{
	if (r->count == RANKS)
		return p4d_fail(err, P4D_E_VALUE, "--ranks: more than %d ranks", RANKS);
	r->rank[r->count++] = rank;
	return 0;
}

static int list_ranks(rehearsal *r, p4d_error *err)
{
	uint64_t world = r->player.nodes * r->player.gpus_per_node, rank;
	char text[512], *rest = NULL;

	if (!strcmp(r->ranks, "all")) {
		for (rank = 0; rank < world; rank++)
			if (add_rank(r, rank, err))
				return -1;
		return 0;
	}
	if (snprintf(text, sizeof(text), "%s", r->ranks) >= (int)sizeof(text))
		return p4d_fail(err, P4D_E_VALUE, "--ranks: longer than %zu characters", sizeof(text) - 1);
	for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		rank = !strcmp(word, "first") ? 0 : world - 1;
		if (strcmp(word, "first") && strcmp(word, "last") &&
		    number("--ranks", word, 0, world - 1, &rank, err))
			return -1;
		if ((!r->count || rank != r->rank[r->count - 1]) && add_rank(r, rank, err))
			return -1;
	}
	return r->count ? 0 : p4d_fail(err, P4D_E_VALUE, "--ranks names no rank");
}

static int find_gpu(rehearsal *r, const p4d_gpus *gpus, p4d_error *err)
{
	unsigned candidates;

	r->player.gpu = p4d_gpu_find(gpus, r->gpu, &candidates);
	if (!r->player.gpu) {
		p4d_fail(err, P4D_E_UNKNOWN_GPU, "unknown GPU \"%.60s\"", r->gpu);
		return p4d_fix(err, "p4d gpus");
	}
	if (candidates > 1)
		return p4d_fail(err, P4D_E_AMBIGUOUS_GPU,
				"\"%.60s\" is the name of %u GPUs of different sizes; p4d gpus lists them",
				r->gpu, candidates);
	if (!r->player.gpu->sm)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"%s has no CUDA; p4d rehearses programs for NVIDIA's GPUs",
				r->player.gpu->name);
	return 0;
}

/* Answer */

static p4d_rehearsed_verdict judge(const rehearsal *r, const p4d_rehearsed **worst, char *reason, size_t size)
{
	p4d_rehearsed_verdict verdict = P4D_REHEARSED_PASS;
	char text[REASON];

	*worst = &r->rehearsed[0];
	for (unsigned i = 0; i < r->count; i++) {
		p4d_rehearsed_verdict v =
		    p4d_rehearsed__judge(&r->rehearsed[i], r->player.gpu, text, sizeof(text));
		bool is_fuller = v == verdict && r->rehearsed[i].device > (*worst)->device;
		if (v > verdict || is_fuller || !i) {
			verdict = v;
			*worst = &r->rehearsed[i];
			snprintf(reason, size, "%s", text);
		}
	}
	return verdict;
}

static void print_phases(const p4d_rehearsed *r, p4d_table *table)
{
	for (unsigned i = 0; i < r->phases; i++) {
		const p4d_rehearsed_phase *p = &r->phase[i];
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, r->played.rank);
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, p->step);
		p4d_table_cell(table, P4D_PLAIN, "%s", p->name);
		const uint64_t bytes[] = {p->parameters, p->gradients, p->optimizer, p->allocated,
					  p->reserved};
		for (size_t k = 0; k < sizeof(bytes) / sizeof(bytes[0]); k++)
			p4d_table_cell(table, P4D_PLAIN, "%.2f", p4d_to_gib(bytes[k]));
	}
}

static int print_table(const rehearsal *r, p4d_error *err)
{
	static const char *const columns[] = {"rank",      "step",      "phase",     "parameters",
					      "gradients", "optimizer", "allocated", "reserved (GiB)"};
	p4d_table table = {0};
	bool any = false;

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		p4d_table_column(&table, columns[i], i == 2 ? P4D_LEFT : P4D_RIGHT);
	for (unsigned i = 0; i < r->count; i++) {
		any = any || r->rehearsed[i].phases;
		print_phases(&r->rehearsed[i], &table);
	}
	if (any)
		return p4d_table_print(&table, false, err);
	p4d_table_free(&table);
	return 0;
}

/* GPUs of the table that hold what was reserved; the smallest first. */
static void print_places(const rehearsal *r, const p4d_rehearsed *worst, const p4d_gpus *gpus)
{
	unsigned printed = 0;
	uint64_t last = 0;

	for (; printed < 3; printed++) {
		const p4d_gpu *least = NULL;
		for (size_t i = 0; i < gpus->count; i++) {
			const p4d_gpu *g = &gpus->gpu[i];
			if (g->sm == r->player.gpu->sm && !p4d_gpu_is_mig(g) && g->usable_bytes > last &&
			    g->usable_bytes > worst->device && g != r->player.gpu &&
			    (!least || g->usable_bytes < least->usable_bytes))
				least = g;
		}
		if (!least)
			break;
		printf("%s%s (%.0f %%)", printed ? ", " : "Also fits GPUs of this generation: ", least->name,
		       100 * p4d_to_gib(worst->device) / p4d_to_gib(least->usable_bytes));
		last = least->usable_bytes;
	}
	if (printed)
		putchar('\n');
}

static void print_rank(const p4d_rehearsed *r, const p4d_gpu *gpu)
{
	const p4d_rehearsed_phase *peak = p4d_rehearsed__peak(r);

	printf("Rank %" PRIu64 ": %.1f of %.1f GiB on the GPU (%.0f %%)", r->played.rank,
	       p4d_to_gib(r->device), p4d_to_gib(gpu->usable_bytes),
	       100 * p4d_to_gib(r->device) / p4d_to_gib(gpu->usable_bytes));
	if (peak)
		printf("; PyTorch allocated %.2f and reserved %.2f GiB, most in %s of step %" PRIu64,
		       p4d_to_gib(r->allocated), p4d_to_gib(r->reserved), peak->name, peak->step);
	printf(".\n  Host: %.1f GiB resident, %.1f pinned. %.0f s.", p4d_to_gib(r->played.resident_bytes),
	       p4d_to_gib(r->pinned), r->played.seconds);
	if (r->flops)
		printf(" Matrix products: %.3g FLOP.", (double)r->flops);
	if (r->collectives)
		printf(" NCCL: %" PRIu64 " calls, %.2f GiB.", r->collectives,
		       p4d_to_gib(r->collective_bytes));
	putchar('\n');
	for (unsigned i = 0; i < r->doubts_count; i++)
		printf("  Note: %s.\n", r->doubts[i]);
	for (unsigned i = 0; i < r->missing_count; i++)
		printf("  Not played: %s.\n", r->missing[i]);
}

static int print_text(const rehearsal *r, const p4d_gpus *gpus, p4d_error *err)
{
	const p4d_rehearsed *worst;
	char reason[REASON];
	p4d_rehearsed_verdict verdict = judge(r, &worst, reason, sizeof(reason));

	printf("Verdict: %s%s%s on %" PRIu64 " x %s\n\n", p4d_rehearsed__verdict_name(verdict),
	       *reason ? ": " : "", reason, r->player.nodes * r->player.gpus_per_node, r->player.gpu->name);
	for (unsigned i = 0; i < r->count; i++)
		print_rank(&r->rehearsed[i], r->player.gpu);
	putchar('\n');
	if (print_table(r, err))
		return -1;
	if (verdict <= P4D_REHEARSED_WARN)
		print_places(r, worst, gpus);
	return verdict == P4D_REHEARSED_REJECT       ? P4D_E_DOES_NOT_FIT
	       : verdict == P4D_REHEARSED_INCOMPLETE ? P4D_E_UNMODELLED
						     : 0;
}

static void add(struct json_object *to, const char *name, struct json_object *value)
{
	json_object_object_add(to, name, value);
}

static void add_bytes(struct json_object *to, const char *name, uint64_t bytes)
{
	add(to, name, json_object_new_uint64(bytes));
}

static struct json_object *phase_object(const p4d_rehearsed_phase *p)
{
	struct json_object *o = json_object_new_object();

	add(o, "phase", json_object_new_string(p->name));
	add_bytes(o, "step", p->step);
	add_bytes(o, "allocated_bytes", p->allocated);
	add_bytes(o, "reserved_bytes", p->reserved);
	add_bytes(o, "parameters_bytes", p->parameters);
	add_bytes(o, "gradients_bytes", p->gradients);
	add_bytes(o, "optimizer_bytes", p->optimizer);
	return o;
}

static struct json_object *strings(const char *const *text, unsigned count)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < count; i++)
		json_object_array_add(list, json_object_new_string(text[i]));
	return list;
}

static struct json_object *rank_object(const p4d_rehearsed *r)
{
	struct json_object *o = json_object_new_object(), *peak = json_object_new_object();
	struct json_object *phases = json_object_new_array(), *host = json_object_new_object();
	const p4d_rehearsed_phase *most = p4d_rehearsed__peak(r);

	add_bytes(o, "rank", r->played.rank);
	add_bytes(o, "exit", (uint64_t)r->played.status);
	add(o, "seconds", json_object_new_double(r->played.seconds));
	add_bytes(peak, "allocated_bytes", r->allocated);
	add_bytes(peak, "reserved_bytes", r->reserved);
	add_bytes(peak, "device_bytes", r->device);
	add(peak, "phase", most ? json_object_new_string(most->name) : NULL);
	add(o, "peak", peak);
	if (r->refused)
		add_bytes(o, "refused_bytes", r->refused);
	for (unsigned i = 0; i < r->phases; i++)
		json_object_array_add(phases, phase_object(&r->phase[i]));
	add(o, "phases", phases);
	add_bytes(host, "resident_bytes", r->played.resident_bytes);
	add_bytes(host, "pinned_bytes", r->pinned);
	add_bytes(host, "managed_bytes", r->managed);
	add(o, "host", host);
	add_bytes(o, "flops", r->flops);
	add_bytes(o, "collective_bytes", r->collective_bytes);
	add_bytes(o, "unknown_reads", r->unknown_reads);
	add(o, "not_played", strings(r->missing, r->missing_count));
	add(o, "doubts", strings(r->doubts, r->doubts_count));
	return o;
}

static int print_json(const rehearsal *r)
{
	const p4d_rehearsed *worst;
	char reason[REASON];
	p4d_rehearsed_verdict verdict = judge(r, &worst, reason, sizeof(reason));
	struct json_object *o = json_object_new_object(), *ranks = json_object_new_array();

	add_bytes(o, "schema", 1);
	add(o, "verdict", json_object_new_string(p4d_rehearsed__verdict_name(verdict)));
	add(o, "reason", *reason ? json_object_new_string(reason) : NULL);
	add(o, "gpu", json_object_new_string(r->player.gpu->name));
	add_bytes(o, "usable_bytes", r->player.gpu->usable_bytes);
	add_bytes(o, "nodes", r->player.nodes);
	add_bytes(o, "gpus_per_node", r->player.gpus_per_node);
	for (unsigned i = 0; i < r->count; i++)
		json_object_array_add(ranks, rank_object(&r->rehearsed[i]));
	add(o, "ranks", ranks);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
	json_object_put(o);
	return verdict == P4D_REHEARSED_REJECT       ? P4D_E_DOES_NOT_FIT
	       : verdict == P4D_REHEARSED_INCOMPLETE ? P4D_E_UNMODELLED
						     : 0;
}

/* Playing */

static int play_all(rehearsal *r, p4d_error *err)
{
	r->rehearsed = calloc(r->count, sizeof(*r->rehearsed));
	if (!r->rehearsed)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u ranks", r->count);
	for (unsigned i = 0; i < r->count; i++) {
		p4d_played played;
		fprintf(stderr, "p4d: playing rank %" PRIu64 " of %" PRIu64 " on %s\n", r->rank[i],
			r->player.nodes * r->player.gpus_per_node, r->player.gpu->name);
		if (p4d_player__play(&r->player, r->rank[i], &played, err) ||
		    p4d_rehearsed__read(&r->rehearsed[i], &r->player, &played, err))
			return -1;
	}
	return 0;
}

static int rehearse(rehearsal *r, const p4d_gpus *gpus, p4d_error *err)
{
	pid_t store = 0;
	int status = -1;

	if (find_gpu(r, gpus, err) || list_ranks(r, err))
		return -1;
	if (!p4d_player__open(&r->player, err) &&
	    (r->player.nodes * r->player.gpus_per_node == 1 ||
	     !p4d_store__start(&store, &r->player.port, err)) &&
	    !play_all(r, err))
		status = r->json ? print_json(r) : print_text(r, gpus, err);
	p4d_store__stop(store);
	p4d_player__close(&r->player);
	for (unsigned i = 0; r->rehearsed && i < r->count; i++)
		p4d_rehearsed__free(&r->rehearsed[i]);
	free(r->rehearsed);
	return status;
}

int p4d_command_rehearse(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	rehearsal r = {.gpu = "h100-80gb",
		       .ranks = "first,last",
		       .player = {.nodes = 1, .gpus_per_node = 1, .steps = 2, .timeout = 600}};

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		p4d_line_help(self);
		return 0;
	}
	if (parse(&r, argc, argv, err))
		return -1;
	p4d_site *site = p4d_line_open_site(NULL, err);
	if (!site)
		return -1;
	int status = rehearse(&r, p4d_site_gpus(site), err);
	p4d_site_free(site);
	return status;
}
