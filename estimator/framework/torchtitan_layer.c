/* SPDX-License-Identifier: Apache-2.0 */
/* Activations of torchtitan's modules. */
#include "framework/torch.h"

#define ALONG "sp cp"
#define ACROSS "tp cp"
#define BACKWARD (1u << P4D_AT_BACKWARD_FFN | 1u << P4D_AT_BACKWARD_ATTENTION)

/* Columns that a layer saves of each token: of what sequence parallelism shards, and of the rest. */
static void saved_columns(const p4d_layout *l, const p4d_torch_sizes *z, uint64_t *own, uint64_t *wide)
{
	const uint64_t gathered = z->own < z->tokens ? 2 * z->h : 0;

	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		*own = z->h;
		*wide = 0;
		break;
	case P4D_RECOMPUTE_SELECTIVE:
		*own = z->h;
		*wide = 2 * z->A + z->F + z->G;
		break;
	default:
		*own = 2 * z->h + (gathered ? 0 : 2 * z->h);
		*wide = gathered + 3 * z->A + 3 * z->G + 4 * z->F;
	}
}

static void write(p4d_rows *rows, const p4d_torch_sizes *z)
{
	const p4d_dtype dtype = p4d_dtype_of(rows->layout);
	uint64_t own, wide;

	saved_columns(rows->layout, z, &own, &wide);
	p4d_row_in_slot(rows, "layer.own", ALONG, dtype, z->own, own, 0);
	if (wide)
		p4d_row_in_slot(rows, "layer.saved", ACROSS, dtype, z->tokens, wide, 0);
	p4d_torch_held(rows, BACKWARD, "backward.gradients", ACROSS, P4D_PART_WORKING_SET,
		       (p4d_wide)z->tokens * (4 * z->F + 2 * z->h) * z->element);
	if (!rows->last)
		return;
	p4d_torch_held(rows, 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD, "loss.logits", ACROSS, P4D_PART_LOGITS,
		       (p4d_wide)z->tokens * z->V * (rows->layout->chunked_loss ? 1 : 8));
}

const p4d_torch_modules p4d_torch__torchtitan = {.name = "torchtitan", .write = write};
const p4d_torch_modules p4d_torch__transformers = {.name = "transformers", .write = write};
