/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/command_rehearse.h"

#include <string.h>

#include "rehearse/playing.h"
#include "rehearse/rehearse_answer.h"
#include "rehearse/rehearse_estimate.h"
#include "rehearse/rehearse_keep.h"
#include "rehearse/rehearse_submit.h"
#include "site/site.h"

/* Stores the result for sbatch, which finds it by the command that it reads in the job script. */
static void keep(p4d_playing *r, const p4d_rehearse_answer *a)
{
	char key[P4D_REHEARSALS_KEY_TEXT];

	if (!r->asked.script)
		p4d_rehearse__keep(a, NULL);
	else if (p4d_read_command__key(&r->job, key))
		p4d_rehearse__keep(a, key);
}

static int answer(p4d_playing *r, p4d_error *err)
{
	p4d_rehearse_fits fits = {.count = 0};
	p4d_micro_batch micro_batch = {.option = r->asked.micro_batch};
	const p4d_rehearse_answer a = {.player = &r->player,
				       .rehearsed = r->rehearsed,
				       .count = r->asked.count,
				       .fits = &fits,
				       .micro_batch = &micro_batch,
				       .estimate = p4d_rehearse_estimate__find(r),
				       .host_bytes = r->job.host_bytes};
	const p4d_rehearsed *worst;
	char reason[P4D_REHEARSE_REASON];
	int status = -1;

	keep(r, &a);
	p4d_rehearse__judge(&a, &worst, reason);
	if (worst->played.rank != r->asked.rank[r->asked.count - 1] &&
	    p4d_playing__take_rank(r, worst->played.rank, err))
		return -1;
	if (!p4d_rehearse_fits__find(&fits, &r->player, r->site, worst, err) &&
	    (!micro_batch.option || !p4d_micro_batch__find(&micro_batch, &r->player, worst, err)))
		status = r->asked.json ? p4d_rehearse__print_json(&a) : p4d_rehearse__print(&a, err);
	if (status >= 0 && r->asked.svg && p4d_rehearsed__draw(worst, &r->player, r->asked.svg, err))
		status = -1;
	p4d_rehearse_fits__free(&fits);
	return status;
}

int p4d_command_rehearse(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	p4d_playing r = {.asked = {.ranks = "fullest", .phases = "train", .steps = 2, .timeout = 600}};
	int status = -1;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		p4d_line_help(self, true);
		return 0;
	}
	if (p4d_rehearse_options__parse(&r.asked, argc, argv, err)) {
		p4d_sbatch_free(&r.asked.sbatch);
		return -1;
	}
	if (r.asked.submit)
		status = p4d_rehearse__submit(&r.asked, argc, argv, err);
	else
		r.site = p4d_line_open_site(r.asked.sbatch.value[P4D_SBATCH_CONF], err);
	if (r.site && !p4d_playing__prepare(&r, err) && !p4d_playing__play(&r, err))
		status = answer(&r, err);
	p4d_playing__end(&r);
	p4d_site_free(r.site);
	return status;
}
