/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of a sequence in an engine's cache, and which of them layers with a window keep. */
#include "serve/serving_internal.h"

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

uint64_t p4d_serving__windowed_layers(const p4d_layout *l, uint64_t layers)
{
	const unsigned every = l->architecture->full_attention_every;

	if (!l->sliding_window)
		return 0;
	if (!every)
		return layers;
	/* the last layer of each group attends to all tokens; a stage may begin anywhere in a group */
	return layers - (l->pp > 1 ? div_up(layers, every) : layers / every);
}

bool p4d_serving__mixes_windows(const p4d_layout *l)
{
	const uint64_t windowed = p4d_serving__windowed_layers(l, l->layers);

	return windowed && windowed < l->layers;
}

bool p4d_serving__frees_windows(const p4d_request *r, const p4d_layout *l)
{
	return !p4d_serving__mixes_windows(l) || !p4d_is_set(r, P4D_HYBRID_CACHE) ||
	       r->value[P4D_HYBRID_CACHE];
}

/*
 * A layer with a window stores the window and the tokens of the current
 * pass, which may start in the middle of a block.
 */
p4d_wide p4d_serving__sequence_bytes(const p4d_serving_cache *c, uint64_t tokens)
{
	const uint64_t blocks = div_up(tokens, P4D_SERVING_BLOCK);
	const uint64_t held = tokens < c->window ? tokens : c->window;
	const uint64_t in_window = div_up(held, P4D_SERVING_BLOCK) +
				   1; /* the additional block also counts if the window starts at a block */

	return ((p4d_wide)c->full * blocks + (p4d_wide)c->windowed * in_window) * P4D_SERVING_BLOCK *
	       c->token_bytes;
}

uint64_t p4d_serving__longest_within(const p4d_serving_cache *c, uint64_t available, uint64_t most)
{
	uint64_t low = 0, high = most;

	while (low < high) {
		const uint64_t middle = low + (high - low + 1) / 2;
		if (p4d_serving__sequence_bytes(c, middle) <= available)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}
