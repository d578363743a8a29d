/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/command_rehearse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rehearse/player.h"
#include "rehearse/rehearse_answer.h"
#include "rehearse/rehearse_keep.h"
#include "rehearse/rehearse_options.h"
#include "rehearse/rehearsed.h"
#include "rehearse/store.h"
#include "site/site.h"

typedef struct rehearsal {
	p4d_player player;
	p4d_rehearse_options asked;
	p4d_rehearsed *rehearsed; /* one per rank */
} rehearsal;

static int find_gpu(rehearsal *r, const p4d_gpus *gpus, p4d_error *err)
{
	unsigned candidates;

	r->player.gpu = p4d_gpu_find(gpus, r->asked.gpu, &candidates);
	if (!r->player.gpu) {
		p4d_fail(err, P4D_E_UNKNOWN_GPU, "unknown GPU \"%.60s\"", r->asked.gpu);
		return p4d_fix(err, "p4d gpus");
	}
	if (candidates > 1)
		return p4d_fail(err, P4D_E_AMBIGUOUS_GPU,
				"\"%.60s\" is the name of %u GPUs of different sizes; p4d gpus lists them",
				r->asked.gpu, candidates);
	if (!r->player.gpu->sm)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"%s has no CUDA; p4d rehearses programs for NVIDIA's GPUs",
				r->player.gpu->name);
	return 0;
}

/* Playing */

static void take_player(rehearsal *r)
{
	const p4d_rehearse_options *o = &r->asked;

	r->player.nodes = o->nodes;
	r->player.gpus_per_node = o->gpus_per_node;
	r->player.steps = o->steps;
	r->player.timeout = o->timeout;
	r->player.program = o->program;
}

static int play_all(rehearsal *r, p4d_error *err)
{
	r->rehearsed = calloc(r->asked.count, sizeof(*r->rehearsed));
	if (!r->rehearsed)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u ranks", r->asked.count);
	for (unsigned i = 0; i < r->asked.count; i++) {
		p4d_played played;
		fprintf(stderr, "p4d: playing rank %" PRIu64 " of %" PRIu64 " on %s\n", r->asked.rank[i],
			r->player.nodes * r->player.gpus_per_node, r->player.gpu->name);
		if (p4d_player__play(&r->player, r->asked.rank[i], &played, err) ||
		    p4d_rehearsed__read(&r->rehearsed[i], &r->player, &played, err))
			return -1;
	}
	return 0;
}

static int answer(const rehearsal *r, const p4d_gpus *gpus, p4d_error *err)
{
	const p4d_rehearse_answer a = {
	    .player = &r->player, .rehearsed = r->rehearsed, .count = r->asked.count, .gpus = gpus};

	p4d_rehearse__keep(&a);
	return r->asked.json ? p4d_rehearse__print_json(&a) : p4d_rehearse__print(&a, err);
}

static int rehearse(rehearsal *r, const p4d_gpus *gpus, p4d_error *err)
{
	pid_t store = 0;
	int status = -1;

	if (find_gpu(r, gpus, err) || p4d_rehearse_options__ranks(&r->asked, err))
		return -1;
	if (!p4d_player__open(&r->player, err) &&
	    (r->player.nodes * r->player.gpus_per_node == 1 ||
	     !p4d_store__start(&store, &r->player.port, err)) &&
	    !play_all(r, err))
		status = answer(r, gpus, err);
	p4d_store__stop(store);
	p4d_player__close(&r->player);
	for (unsigned i = 0; r->rehearsed && i < r->asked.count; i++)
		p4d_rehearsed__free(&r->rehearsed[i]);
	free(r->rehearsed);
	return status;
}

int p4d_command_rehearse(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	rehearsal r = {.asked = {.gpu = "h100-80gb",
				 .ranks = "first,last",
				 .nodes = 1,
				 .gpus_per_node = 1,
				 .steps = 2,
				 .timeout = 600}};

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		p4d_line_help(self);
		return 0;
	}
	if (p4d_rehearse_options__parse(&r.asked, argc, argv, err))
		return -1;
	take_player(&r);
	p4d_site *site = p4d_line_open_site(NULL, err);
	if (!site)
		return -1;
	int status = rehearse(&r, p4d_site_gpus(site), err);
	p4d_site_free(site);
	return status;
}
