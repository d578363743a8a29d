/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/suggest.h"
#include "rehearse/player.h"

const char p4d_rehearse_help[] =
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

static int usage(p4d_error *err, const char *text, const char *word)
{
	p4d_fail(err, P4D_E_USAGE, "%s%.100s", text, word);
	return p4d_fix(err, "p4d help rehearse");
}

static int number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *value,
		  p4d_error *err)
{
	if (p4d_number_whole(text, least, most, value))
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "%s=%.60s: not a whole number from %" PRIu64 " to %" PRIu64, option,
			text, least, most);
}

static int take_option(p4d_rehearse_options *o, const char *name, const char *value, p4d_error *err)
{
	const struct {
		const char *name;
		uint64_t least, most;
		uint64_t *value;
	} numbers[] = {
	    {"--nodes", 1, P4D_PLAYER_RANKS, &o->nodes},
	    {"--gpus-per-node", 1, 64, &o->gpus_per_node},
	    {"--steps", 0, 1000, &o->steps},
	    {"--timeout", 1, 86400, &o->timeout},
	};
	p4d_suggest alike = {.wanted = name};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!strcmp(name, numbers[i].name))
			return number(name, value, numbers[i].least, numbers[i].most, numbers[i].value, err);
		p4d_suggest_offer(&alike, numbers[i].name);
	}
	if (!strcmp(name, "--gpu")) {
		o->gpu = value;
		return 0;
	}
	if (!strcmp(name, "--ranks")) {
		o->ranks = value;
		return 0;
	}
	p4d_fail(err, P4D_E_USAGE, "unknown option %.60s%s", name, p4d_suggest_text(&alike));
	return p4d_fix(err, "p4d help rehearse");
}

/* "--name=value" or "--name value"; returns the words taken, -1 with an error. */
static int take_words(p4d_rehearse_options *o, char *argv[], p4d_error *err)
{
	char name[64];
	const char *equals = strchr(argv[0], '=');

	if (!strcmp(argv[0], "--json")) {
		o->json = true;
		return 1;
	}
	if (equals) {
		snprintf(name, sizeof(name), "%.*s", (int)(equals - argv[0]), argv[0]);
		return take_option(o, name, equals + 1, err) ? -1 : 1;
	}
	if (!argv[1])
		return usage(err, "no value given for ", argv[0]);
	return take_option(o, argv[0], argv[1], err) ? -1 : 2;
}

int p4d_rehearse_options__parse(p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--")) {
		int words = take_words(o, argv + i, err);
		if (words < 0)
			return -1;
		i += words;
	}
	if (i < argc && !strcmp(argv[i], "--"))
		i++;
	if (i >= argc)
		return usage(err, "no program given", "");
	o->program = argv + i;
	if (o->nodes * o->gpus_per_node > P4D_PLAYER_RANKS)
		return p4d_fail(err, P4D_E_VALUE, "%" PRIu64 " ranks are more than the %d that p4d plays",
				o->nodes * o->gpus_per_node, P4D_PLAYER_RANKS);
	return 0;
}

static int add_rank(p4d_rehearse_options *o, uint64_t rank, p4d_error *err)
{
	if (o->count == P4D_REHEARSE_RANKS)
		return p4d_fail(err, P4D_E_VALUE, "--ranks: more than %d ranks", P4D_REHEARSE_RANKS);
	o->rank[o->count++] = rank;
	return 0;
}

int p4d_rehearse_options__ranks(p4d_rehearse_options *o, p4d_error *err)
{
	uint64_t world = o->nodes * o->gpus_per_node, rank;
	char text[512], *rest = NULL;

	if (!strcmp(o->ranks, "all")) {
		for (rank = 0; rank < world; rank++)
			if (add_rank(o, rank, err))
				return -1;
		return 0;
	}
	if (snprintf(text, sizeof(text), "%s", o->ranks) >= (int)sizeof(text))
		return p4d_fail(err, P4D_E_VALUE, "--ranks: longer than %zu characters", sizeof(text) - 1);
	for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		rank = !strcmp(word, "first") ? 0 : world - 1;
		if (strcmp(word, "first") && strcmp(word, "last") &&
		    number("--ranks", word, 0, world - 1, &rank, err))
			return -1;
		if ((!o->count || rank != o->rank[o->count - 1]) && add_rank(o, rank, err))
			return -1;
	}
	return o->count ? 0 : p4d_fail(err, P4D_E_VALUE, "--ranks names no rank");
}
