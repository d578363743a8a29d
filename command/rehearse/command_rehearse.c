/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/command_rehearse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/suggest.h"
#include "rehearse/player.h"
#include "rehearse/rehearse_answer.h"
#include "rehearse/rehearsed.h"
#include "rehearse/store.h"
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

enum { RANKS = 64 };

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

static int answer(const rehearsal *r, const p4d_gpus *gpus, p4d_error *err)
{
	const p4d_rehearse_answer a = {
	    .player = &r->player, .rehearsed = r->rehearsed, .count = r->count, .gpus = gpus};

	return r->json ? p4d_rehearse__print_json(&a) : p4d_rehearse__print(&a, err);
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
		status = answer(r, gpus, err);
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
