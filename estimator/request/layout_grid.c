/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of tensor-parallel ranks: the possible grids, and those that a model supports. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "request/framework.h"
#include "request/layout_internal.h"

/* Parses "2,2,1". False: the text is no grid. */
static bool read_grid(const char *text, p4d_tp_grid *grid)
{
	uint64_t *const to[] = {&grid->x, &grid->y, &grid->z};
	const uint64_t most = (uint64_t)p4d_request_option_info(P4D_TP)->max;

	for (int i = 0; i < 3; i++) {
		text = p4d_number_digits(text, to[i]);
		if (!text || *to[i] == 0 || *to[i] > most || *text != (i < 2 ? ',' : '\0'))
			return false;
		text++;
	}
	return true;
}

bool p4d_layout_grid_is_open(const p4d_request *r)
{
	return p4d_is_set(r, P4D_TP_GRID) && !strcmp(r->tp_grid, "auto");
}

void p4d_layout__grid(const p4d_request *r, p4d_layout *l)
{
	const uint64_t tp = (uint64_t)p4d_framework_value(r, P4D_TP);
	p4d_tp_grid grid = {tp, 1, 1};

	if (p4d_is_set(r, P4D_TP_GRID) && (!read_grid(r->tp_grid, &grid) || grid.x * grid.y * grid.z != tp))
		grid = (p4d_tp_grid){tp, 1,
				     1}; /* an impossible grid, which p4d_layout__check_grid then refuses */
	p4d_layout_put_grid(l, grid);
}

const char *p4d_layout_grid_text(const p4d_request *r, char *buf, size_t size)
{
	if (p4d_is_set(r, P4D_TP_GRID))
		snprintf(buf, size, "%s", r->tp_grid);
	else
		snprintf(buf, size, "%" PRId64 ",1,1", r->value[P4D_TP]);
	return buf;
}

const char *p4d_layout_tp_text(const p4d_layout *l, char buf[P4D_TP_TEXT])
{
	const int used = snprintf(buf, P4D_TP_TEXT, "%" PRIu64, p4d_tp_ranks(l));

	if (p4d_tp_ranks(l) != l->tp)
		snprintf(buf + used, P4D_TP_TEXT - (size_t)used, " (%" PRIu64 ",%" PRIu64 ",%" PRIu64 ")",
			 l->tp, l->tp_y, l->tp_z);
	return buf;
}

/* Why the grid cannot split the layers, for messages; NULL: it can. */
static const char *uneven(const p4d_layout *l, p4d_tp_grid g)
{
	const uint64_t qkv = (l->heads + 2 * l->kv_heads) * l->head_dim, up = l->glu ? 2 * l->ffn : l->ffn;

	return l->heads % g.x                    ? "X does not divide the attention heads"
	       : l->kv_heads % g.x               ? "X does not divide the key/value heads"
	       : l->ffn % g.x || l->hidden % g.x ? "X does not divide the feed-forward columns"
	       : l->hidden % g.y                 ? "Y does not divide the hidden size"
	       : qkv / g.x % g.z || up / g.x % g.z || l->hidden / g.y % g.z
		   ? "Z does not divide the rows of a block"
		   : NULL;
}

/* Over Y, a norm must sum squares across ranks. LayerNorm also needs a mean, which is not supported. */
bool p4d_layout_grid_works(const p4d_layout *l, p4d_tp_grid g)
{
	return !uneven(l, g) && l->micro_batch % g.z == 0 && (g.y == 1 || l->norm_tensors == 1);
}

static bool find_grid(const p4d_layout *l, uint64_t ranks, p4d_tp_grid *found)
{
	for (uint64_t x = ranks; x >= 1; x--)
		for (uint64_t y = 1; ranks % x == 0 && y <= ranks / x; y++) {
			*found = (p4d_tp_grid){x, y, ranks / x / y};
			if (ranks / x % y == 0 && p4d_layout_grid_works(l, *found) &&
			    p4d_grid_is_linked(l, *found))
				return true;
		}
	return false;
}

int p4d_layout_fix_grid(const p4d_layout *l, uint64_t tp, p4d_error *err)
{
	p4d_tp_grid g = {1, 1, 1};
	uint64_t ranks = tp;

	while (ranks > 1 && (tp % ranks || !find_grid(l, ranks, &g)))
		ranks--;
	if (ranks == tp)
		return p4d_fix(err, "--p4d-tp-grid=%" PRIu64 ",%" PRIu64 ",%" PRIu64, g.x, g.y, g.z);
	if (ranks == 1)
		g = (p4d_tp_grid){1, 1, 1};
	return p4d_fix(err, "--p4d-tp=%" PRIu64 " --p4d-tp-grid=%" PRIu64 ",%" PRIu64 ",%" PRIu64, ranks, g.x,
		       g.y, g.z);
}

int p4d_layout__check_grid(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	const uint64_t tp = (uint64_t)p4d_framework_value(r, P4D_TP);
	p4d_tp_grid g;

	if (!p4d_is_set(r, P4D_TP_GRID))
		return 0;
	if (p4d_layout_grid_is_open(r)) {
		p4d_fail(err, P4D_E_VALUE,
			 "tp-grid=auto: p4d chooses the grid only in p4d plan, or if sbatch does not get the "
			 "whole layout");
		return p4d_layout_fix_grid(l, tp, err);
	}
	if (!read_grid(r->tp_grid, &g)) {
		p4d_fail(err, P4D_E_VALUE, "tp-grid=%.23s is not three positive numbers X,Y,Z", r->tp_grid);
		return p4d_layout_fix_grid(l, tp, err);
	}
	if (g.x * g.y * g.z != tp) {
		p4d_fail(err, P4D_E_VALUE, "tp-grid=%.23s has %" PRIu64 " ranks, but tp=%" PRIu64, r->tp_grid,
			 g.x * g.y * g.z, tp);
		return p4d_layout_fix_grid(l, tp, err);
	}
	if (uneven(l, g)) {
		p4d_fail(err, P4D_E_WIDTH,
			 "tp-grid=%.23s: %s (heads=%" PRIu64 " kv-heads=%" PRIu64 " head-dim=%" PRIu64
			 " ffn=%" PRIu64 " hidden=%" PRIu64 ")",
			 r->tp_grid, uneven(l, g), l->heads, l->kv_heads, l->head_dim, l->ffn, l->hidden);
		return p4d_layout_fix_grid(l, tp, err);
	}
	if (l->micro_batch % g.z) {
		p4d_fail(err, P4D_E_BATCH,
			 "tp-grid=%.23s: Z=%" PRIu64 " does not divide micro-batch=%" PRIu64, r->tp_grid, g.z,
			 l->micro_batch);
		return p4d_fix(err, "--p4d-micro-batch=%" PRIu64, (l->micro_batch / g.z + 1) * g.z);
	}
	return 0;
}
