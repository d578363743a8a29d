/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_fits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Common GPUs, for a site without a p4d.conf. */
static const char *const common[] = {"l4-24gb",   "a100-40gb",  "l40s-48gb",  "a100-80gb",
				     "h100-80gb", "h200-141gb", "b200-180gb", "b300-288gb"};

enum {
	QUICK = 30
}; /* seconds: p4d rehearses a rank again only if it took less than this, so that the user need not wait */

static const uint64_t room = (uint64_t)1 << 40;

uint64_t p4d_rehearse_fits__least(const p4d_rehearsed *r)
{
	const uint64_t unused = r->reserved - r->allocated;

	return r->reserved > r->allocated && r->device > unused ? r->device - unused : r->device;
}

static void add(p4d_rehearse_fits *fits, const p4d_gpu *gpu)
{
	unsigned at = 0;

	if (!gpu || !gpu->sm || !gpu->usable_bytes || fits->count == P4D_REHEARSE_FITS_MOST)
		return;
	for (unsigned i = 0; i < fits->count; i++)
		if (fits->fit[i].gpu == gpu)
			return;
	while (at < fits->count && fits->fit[at].gpu->usable_bytes <= gpu->usable_bytes)
		at++;
	memmove(&fits->fit[at + 1], &fits->fit[at], (fits->count - at) * sizeof(fits->fit[0]));
	fits->fit[at] = (p4d_rehearse_fit){.gpu = gpu};
	fits->count++;
}

static void list(p4d_rehearse_fits *fits, const p4d_site *site, const p4d_gpu *rehearsed)
{
	const p4d_site_partition *partition;

	for (unsigned i = 0; (partition = p4d_site_partition_at(site, i)); i++)
		for (unsigned k = 0; k < partition->gpus; k++)
			if (partition->ambiguous[k] == 1)
				add(fits, partition->gpu[k]);
	if (!fits->count)
		for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
			add(fits, p4d_gpu_find(p4d_site_gpus(site), common[i], NULL));
	add(fits, rehearsed);
}

static bool has(const p4d_site_partition *partition, const p4d_gpu *gpu)
{
	for (unsigned k = 0; k < partition->gpus; k++)
		if (partition->gpu[k] == gpu && partition->ambiguous[k] == 1)
			return true;
	return false;
}

static void name_partitions(p4d_rehearse_fits *fits, const p4d_site *site)
{
	const p4d_site_partition *partition;

	for (unsigned i = 0; i < fits->count; i++) {
		p4d_text names = p4d_text_in(fits->fit[i].partitions, sizeof(fits->fit[i].partitions));
		for (unsigned k = 0; (partition = p4d_site_partition_at(site, k)); k++)
			if (has(partition, fits->fit[i].gpu))
				p4d_text_entry(&names, ",", "%s", partition->name);
	}
}

static int play(const p4d_player *player, const p4d_gpu *gpu, uint64_t rank, p4d_rehearsed *out,
		p4d_error *err)
{
	p4d_player other = *player;

	other.gpu = gpu;
	other.quiet =
	    true; /* p4d only asks whether the rank runs out of memory, so it reports no error if it does */
	return p4d_rehearsed__play(out, &other, rank, err);
}

/* Rehearses the rank on a GPU like the rehearsal's, but with enough memory for everything. */
static int play_with_room(p4d_rehearse_fits *fits, const p4d_player *player, uint64_t rank, p4d_error *err)
{
	p4d_gpu roomy = *player->gpu;

	roomy.usable_bytes = room;
	fprintf(stderr,
		"p4d: rehearsing rank %" PRIu64 " again, with more memory, to find out how much it needs\n",
		rank);
	return play(player, &roomy, rank, &fits->roomy, err);
}

static void compare(p4d_rehearse_fit *fit, const p4d_rehearsed *r)
{
	fit->device = r->device;
	fit->state = r->device <= fit->gpu->usable_bytes                    ? P4D_REHEARSE_FITS
		     : p4d_rehearse_fits__least(r) > fit->gpu->usable_bytes ? P4D_REHEARSE_FITS_NOT
									    : P4D_REHEARSE_FITS_PERHAPS;
}

/*
 * Compares GPUs for an inference engine. It uses a share of any GPU's memory, so p4d compares the least that
 * it needs.
 */
static void compare_serving(p4d_rehearse_fits *fits, const p4d_gpu *played, const p4d_rehearsed *r)
{
	const p4d_rehearsed_serving *s = &r->serving;
	const double share = (double)s->budget / (double)played->usable_bytes;
	const uint64_t least = p4d_rehearsed_serving__least(s);

	for (unsigned i = 0; i < fits->count; i++) {
		p4d_rehearse_fit *fit = &fits->fit[i];
		const bool fits_there = (double)least <= share * (double)fit->gpu->usable_bytes;
		fit->rehearsed = fit->gpu == played;
		fit->device = fit->rehearsed ? r->device : least;
		fit->state = fit->rehearsed || fits_there ? P4D_REHEARSE_FITS : P4D_REHEARSE_FITS_NOT;
	}
}

/*
 * For an engine inside a program that continues: its cache uses a share of any GPU's memory, and the least
 * that it needs is unknown.
 */
static void compare_shared(p4d_rehearse_fit *fit, const p4d_rehearsed *r)
{
	const uint64_t least = p4d_rehearse_fits__least(r), cache = r->serving.cache;

	fit->device = r->device;
	fit->state = least > cache && least - cache > fit->gpu->usable_bytes ? P4D_REHEARSE_FITS_NOT
									     : P4D_REHEARSE_FITS_PERHAPS;
}

static int play_there(p4d_rehearse_fit *fit, const p4d_player *player, uint64_t rank, p4d_error *err)
{
	p4d_rehearsed there = {.text = NULL};

	fprintf(stderr, "p4d: rehearsing rank %" PRIu64 " on %s, on which it may just fit\n", rank,
		fit->gpu->name);
	if (play(player, fit->gpu, rank, &there, err)) {
		p4d_rehearsed__free(&there);
		return -1;
	}
	if (p4d_rehearsed__ran_out(&there) || !there.played.status) {
		fit->state = p4d_rehearsed__ran_out(&there) ? P4D_REHEARSE_FITS_NOT : P4D_REHEARSE_FITS;
		fit->device = there.device;
		fit->rehearsed = true;
	}
	p4d_rehearsed__free(&there);
	return 0;
}

int p4d_rehearse_fits__find(p4d_rehearse_fits *fits, const p4d_player *player, const p4d_site *site,
			    const p4d_rehearsed *rank, p4d_error *err)
{
	const bool serves = p4d_rehearsed_serving__is_answer(&rank->serving),
		   shares = rank->serving.engine && !serves;
	const p4d_rehearsed *whole = shares || p4d_rehearsed__adapts(rank) ? NULL : rank;
	unsigned again = 0;

	if (!p4d_rehearsed__ran_out(rank) && (rank->played.status || !rank->device || rank->serving.error))
		return 0; /* the rank failed for another reason, so its memory is unknown */
	if (serves && (p4d_rehearsed__ran_out(rank) || !p4d_rehearsed_serving__least(&rank->serving)))
		return 0;
	if (p4d_rehearsed__limits_itself(rank)) /* on another GPU it would have another limit */
		return play_with_room(fits, player, rank->played.rank, err);
	list(fits, site, player->gpu);
	name_partitions(fits, site);
	if (serves) {
		compare_serving(fits, player->gpu, rank);
		return 0;
	}
	if (p4d_rehearsed__ran_out(rank) && !shares) {
		if (play_with_room(fits, player, rank->played.rank, err))
			return -1;
		whole = fits->roomy.played.status ? NULL : &fits->roomy;
	}
	for (unsigned i = 0; i < fits->count; i++) {
		p4d_rehearse_fit *fit = &fits->fit[i];
		if (fit->gpu == player->gpu) {
			fit->state = p4d_rehearsed__ran_out(rank) ? P4D_REHEARSE_FITS_NOT : P4D_REHEARSE_FITS;
			fit->device = rank->device;
			fit->rehearsed = true;
			continue;
		}
		fit->state = P4D_REHEARSE_FITS_PERHAPS;
		if (whole)
			compare(fit, whole);
		else if (shares)
			compare_shared(fit, rank);
		if (p4d_rehearsed__ran_out(rank) && fit->gpu->usable_bytes <= player->gpu->usable_bytes)
			fit->state = P4D_REHEARSE_FITS_NOT;
		if (whole && fit->state == P4D_REHEARSE_FITS_PERHAPS && rank->played.seconds < QUICK &&
		    again++ < P4D_REHEARSE_AGAIN && play_there(fit, player, rank->played.rank, err))
			return -1;
	}
	return 0;
}

void p4d_rehearse_fits__free(p4d_rehearse_fits *fits)
{
	p4d_rehearsed__free(&fits->roomy);
}
