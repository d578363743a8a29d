/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4d-train in FP8: the operands of a layer's matmuls are quantized right before each matmul. With
 * recompute=keep, the matrices are quantized once per step, and the backward pass uses the forward pass's
 * codes of the inputs. Checkpoints have no tensor in 8 bits, and do not depend on FP8. Everything else is
 * like training without FP8.
 */
#include "framework/p4d_fp8.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "plan/fp8_operand.h"
#include "plan/parameters.h"
#include "request/framework.h"

static void hold(p4d_rows *rows, p4d_fp8_side *m, p4d_fp8_role role, uint64_t height, uint64_t depth)
{
	const p4d_fp8_operand_shape s = p4d_fp8_shape_of(rows->layout->fp8_recipe, role, height, depth);
	const uint64_t codes = p4d_times(rows, height, depth), scales = p4d_fp8_scales_bytes(&s);

	m->codes = codes > m->codes ? codes : m->codes;
	m->scales = scales > m->scales ? scales : m->scales;
}

/* A layer's matmuls: y (n, out) = x (n, in) * w (out, in)^T */
enum { PRODUCTS = 4 };
typedef struct fp8_matmul {
	uint64_t out, in;
} fp8_matmul;

static void products_of(const p4d_rank_sizes *z, fp8_matmul to[PRODUCTS])
{
	const fp8_matmul all[PRODUCTS] = {{z->columns, z->h}, {z->h, z->q}, {z->up, z->h}, {z->h, z->f}};

	for (int i = 0; i < PRODUCTS; i++)
		to[i] = all[i];
}

p4d_fp8_room p4d_framework__fp8_room(p4d_rows *rows)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(rows->layout);
	p4d_fp8_room room = {{0, 0}, {0, 0}, {0, 0}};
	fp8_matmul all[PRODUCTS];

	products_of(&z, all);
	for (int i = 0; i < PRODUCTS; i++) {
		const uint64_t out = all[i].out, in = all[i].in;
		hold(rows, &room.left, P4D_FP8_INPUT, z.n, in); /* y = x w^T */
		hold(rows, &room.right, P4D_FP8_WEIGHT, out, in);
		if (rows->layout->evaluates)
			continue;
		hold(rows, &room.left, P4D_FP8_GRADIENT, z.n, out); /* dx = dy w */
		hold(rows, &room.right, P4D_FP8_WEIGHT, in, out);
		hold(rows, &room.turned, P4D_FP8_GRADIENT, out, z.n); /* dw = dy^T x */
		hold(rows, &room.right, P4D_FP8_INPUT, in, z.n);
	}
	return room;
}

uint64_t p4d_framework__fp8_kept(p4d_rows *rows, uint64_t in)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(rows->layout);

	if (rows->layout->precision != P4D_FP8 || !p4d_times(rows, in, z.n))
		return 0;
	const p4d_fp8_operand_shape s = p4d_fp8_shape_of(rows->layout->fp8_recipe, P4D_FP8_INPUT, in, z.n);
	return p4d_fp8_operand_bytes(&s);
}

uint64_t p4d_framework__fp8_weights(const p4d_layout *l)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	uint64_t bytes = 0;
	fp8_matmul all[PRODUCTS];

	if (!p4d_fp8_keeps_weights(l))
		return 0;
	products_of(&z, all);
	for (int i = 0; i < PRODUCTS; i++)
		bytes += p4d_fp8_weight_bytes(l->fp8_recipe, all[i].out, all[i].in);
	return bytes;
}

int p4d_framework__fp8_model(const p4d_request *r, p4d_error *err)
{
	const int64_t recipe = p4d_is_set(r, P4D_FP8_RECIPE) ? r->value[P4D_FP8_RECIPE] : P4D_FP8_BLOCKWISE;

	if (r->value[P4D_PRECISION] != P4D_FP8)
		return 0;
	if (p4d_fp8_recipes[recipe].multiple)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "fp8-recipe=%s: p4d-train has blockwise, mxfp8 and current",
		 p4d_fp8_recipes[recipe].name);
	return p4d_fix(err, "--p4d-fp8-recipe=blockwise");
}

/* ---- divided sizes ---- */

typedef struct size {
	const char *what;
	uint64_t whole, rank;
} size;

/* The first size on a rank that is not a multiple of `multiple`, if tp ranks share it; NULL: none. */
static const char *uneven(const p4d_layout *l, uint64_t tp, uint64_t multiple, uint64_t *whole)
{
	const size sizes[] = {{"hidden columns", l->hidden, l->hidden},
			      {"columns of queries", l->heads * l->head_dim, l->heads / tp * l->head_dim},
			      {"columns of keys", l->kv_heads * l->head_dim, l->kv_heads / tp * l->head_dim},
			      {"feed-forward columns", l->ffn, l->ffn / tp}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (sizes[i].rank % multiple) {
			*whole = sizes[i].whole;
			return sizes[i].what;
		}
	return NULL;
}

static int fail_width(const p4d_layout *l, const char *what, uint64_t whole, uint64_t multiple,
		      p4d_error *err)
{
	const char *recipe = p4d_fp8_recipes[l->fp8_recipe].name;
	char buf[160] = "";
	p4d_text list = p4d_text_in(buf, sizeof(buf));
	uint64_t best = 0, any;

	for (uint64_t tp = 1; tp <= l->gpus_per_node; tp++)
		if (l->heads % tp == 0 && l->kv_heads % tp == 0 && l->ffn % tp == 0 && l->hidden % tp == 0 &&
		    l->gpus_per_node % tp == 0 && !uneven(l, tp, multiple, &any)) {
			best = tp;
			p4d_text_entry(&list, ", ", "%" PRIu64, tp);
		}
	if (best == 0) {
		p4d_fail(err, P4D_E_WIDTH,
			 "fp8-recipe=%s: FP8 matmuls need multiples of %" PRIu64 ", which %" PRIu64
			 " %s are not%s",
			 recipe, multiple, whole, what, whole % multiple ? "" : " on each rank");
		return p4d_fix(err, "--p4d-precision=bf16");
	}
	p4d_fail(err, P4D_E_WIDTH,
		 "fp8-recipe=%s: FP8 matmuls need multiples of %" PRIu64 ", which the %" PRIu64
		 " %s are not if tp=%" PRIu64 " divides them; tp can be %s",
		 recipe, multiple, whole, what, l->tp, buf);
	return p4d_fix(err, "--p4d-tp=%" PRIu64, best);
}

int p4d_framework__fp8_check(const p4d_layout *l, p4d_error *err)
{
	const p4d_fp8_recipe *recipe = &p4d_fp8_recipes[l->fp8_recipe];
	const uint64_t multiple = recipe->multiple, chunks = l->cp > 1 ? 2 * l->cp : 1;
	uint64_t whole;

	if (l->precision != P4D_FP8)
		return 0;
	const char *what = uneven(l, l->tp, multiple, &whole);
	if (what)
		return fail_width(l, what, whole, multiple, err);
	if (l->seq_len / chunks % multiple == 0)
		return 0;
	const uint64_t unit = multiple * chunks, below = l->seq_len / unit * unit;
	p4d_fail(err, P4D_E_SEQUENCE,
		 "fp8-recipe=%s: FP8 matmuls need multiples of %" PRIu64 " tokens; a sequence of %" PRIu64
		 " is in %" PRIu64 " %s of %" PRIu64,
		 recipe->name, multiple, l->seq_len, chunks, chunks > 1 ? "chunks" : "chunk",
		 l->seq_len / chunks);
	return p4d_fix(err, "--p4d-seq-len=%" PRIu64, below ? below : unit);
}
