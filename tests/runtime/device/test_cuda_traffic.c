/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that each kernel moves, compared with the minimum, which is each byte once, for rows of realistic
 * lengths. The kernels are the GPU's kernels, compiled for the host. P4D_TRAFFIC_REPORT=1 prints a line
 * for each kernel, for `make gpu-report`: its name, its minimum, and how much more its blocks and its
 * threads request.
 */
#include "support/support.h"

#include <sys/mman.h>

#include "device/cuda/kernels.h"
#include "doubles/cuda/traffic.h"
#include "plan/shared_sizes.h"

enum { N = 24, H = 2048, F = 1024, HEADS = 8, KV_HEADS = 2, D = 64, VOCAB = 4096, ARENA = 16 << 20 };
enum { COLUMNS = (HEADS + 2 * KV_HEADS) * D };

static char *arena;
static uint64_t used;

static void *take(uint64_t bytes)
{
	void *at = arena + used;

	used += (bytes + 255) / 256 * 256;
	assert_true(used <= ARENA);
	return at;
}

/* For each kernel: how many times the minimum its blocks may request. For all others, 1.01 times. */
static const struct {
	const char *kernel;
	double most;
	const char *why;
} more[] = {
    {"norm_rows<", 1.55, "each row's block reads the weight"},
    {"norm_rows_backward<", 1.3, "each block reads the weight"},
    {"layer_norm_rows<", 2.2, "each row's block reads weight and bias"},
    {"layer_norm_rows_backward<", 1.4, "each row's block reads the weight"},
    {"layer_norm_columns<", 1.3, "each block reads its rows' statistics"},
    {"split_norm_rows<", 1.55, "each row's block reads the weight"},
    {"row_dots<", 1.55, "each row's block reads the weight"},
    {"split_norm_columns_backward<", 1.3, "each block reads the weight, and its rows' statistics"},
    {"long_norm_rows_backward<", 3, "partial sums are not in registers"},
    {"quantize_tiles<swiglu_gradient", 1.51, "the tiles of gates and of ups read the same numbers"},
    {"partial_maxima<swiglu_gradient", 1.67, "gates and ups read the same numbers"},
    {"quantize_tiles<", 1.02, "each block reads the maxima of parts, where all share a scale"},
    {"turn_heads<", 1.1, "a block has heads of neighbouring tokens, which share angles and weights"},
    {"turn_back<", 3, "each block reads its tokens' angles, for one head"},
    {"embed_rows_backward<", 40, "each block reads the tokens before its own"},
    {"attend<", 8, "tiles of keys are read for each tile of queries"},
    {"attend_back_to_keys<", 8, "tiles of queries are read for each tile of keys"},
    {"attend_back_to_queries<", 8, "tiles of keys are read for each tile of queries"},
};

static double most_of(const char *name)
{
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
		if (!strncmp(name, more[i].kernel, strlen(more[i].kernel)))
			return more[i].most;
	return 1.01;
}

static unsigned seen;

/* Checks the traffic of the launches since the last call. */
static void look(void)
{
	traffic launches[TRAFFIC_LAUNCHES];
	const unsigned count = traffic_take(&launches);

	assert_true(count > 0);
	for (unsigned i = 0; i < count; i++) {
		const traffic *t = &launches[i];
		const double least = (double)t->least, blocks = (double)t->blocks / least,
			     asked = (double)t->asked / least;
		if (getenv("P4D_TRAFFIC_REPORT"))
			printf("traffic %s %llu %.2f %.2f\n", t->name, (unsigned long long)t->least, blocks,
			       asked);
		if (!(blocks >= 1) || blocks > most_of(t->name))
			fail_msg("%s: blocks read and write %.3f of the least, %.2f at most", t->name, blocks,
				 most_of(t->name));
		seen++;
	}
	used = 0;
	memset(arena, 0, ARENA);
}

static void norms(p4d_dtype type, uint64_t e, uint64_t h, uint64_t n)
{
	void *const x = take(e * n * h), *const y = take(e * n * h), *const w = take(e * h);
	float *const rstd = take(4 * n), *const sums = take(4 * n * h), *const dw = take(4 * h);

	if (h == H)
		p4d_kernel_norm(NULL, type, y, rstd, x, w, n, h, 1e-5f);
	p4d_kernel_norm_backward(NULL, sums, type, y, dw, x, x, w, rstd, n, h);
	look();
}

static void other_norms(p4d_dtype type, uint64_t e, uint64_t h, uint64_t n)
{
	void *const x = take(e * n * h), *const y = take(e * n * h), *const w = take(e * h),
		    *const b = take(e * h);
	float *const statistics = take(8 * n), *const sums = take(8 * n * h), *const dw = take(4 * h),
		     *const db = take(4 * h);

	p4d_kernel_unit_norm(NULL, type, y, statistics, x, w, n, h, 1e-5f);
	p4d_kernel_unit_norm_backward(NULL, sums, type, y, dw, x, x, w, statistics, n, h);
	p4d_kernel_layer_norm(NULL, type, y, statistics, x, w, b, n, h, 1e-5f);
	p4d_kernel_layer_norm_backward(NULL, sums, type, y, dw, db, x, y, w, statistics, n, h);
	look();
}

/* Norms of rows that are split over several ranks. */
static void split_norms(p4d_dtype type, uint64_t e, uint64_t h, uint64_t n)
{
	void *const x = take(e * n * h), *const y = take(e * n * h), *const w = take(e * h);
	float *const rstd = take(4 * n), *const dots = take(4 * n);
	float *const sums = take(4 * n * h), *const dw = take(4 * h);

	p4d_kernel_row_dots(NULL, type, rstd, x, y, NULL, n, h, 0);
	p4d_kernel_row_dots(NULL, type, dots, x, y, w, n, h, 0);
	p4d_kernel_split_norm(NULL, type, y, rstd, x, w, n, h, 2 * h, 1e-5f, 0);
	p4d_kernel_split_norm_backward(NULL, sums, type, y, dw, x, x, w, rstd, dots, n, h, 2 * h, 0);
	look();
}

static void heads(p4d_dtype type, uint64_t e, bool norm)
{
	void *const qkv = take(e * N * COLUMNS), *const dqkv = take(e * N * COLUMNS);
	float *const rstd = take(4 * N * (HEADS + KV_HEADS)), *const dw = take(4 * 2 * D),
		     *const sums = take(4 * P4D_HEAD_SUMS * 2 * COLUMNS);
	const p4d_heads shape = {.n = N,
				 .length = N,
				 .heads = HEADS,
				 .kv_heads = KV_HEADS,
				 .head_dim = D,
				 .query_weight = norm ? take(e * D) : NULL,
				 .key_weight = norm ? take(e * D) : NULL,
				 .epsilon = 1e-5f,
				 .rope = take(4 * N * D)};

	p4d_kernel_heads(NULL, type, qkv, norm ? rstd : NULL, &shape);
	p4d_kernel_heads_backward(NULL, sums, type, dqkv, qkv, norm ? rstd : NULL, &shape, NULL,
				  norm ? dw : NULL, norm ? dw + D : NULL);
	look();
}

static void rows(p4d_dtype type, uint64_t e)
{
	void *const gate_up = take(e * N * 2 * F), *const act = take(e * N * F),
		    *const dact = take(e * N * F);

	p4d_kernel_swiglu(NULL, type, act, gate_up, N, F);
	p4d_kernel_swiglu_backward(NULL, type, gate_up, act, dact, N, F);
	p4d_kernel_geglu(NULL, type, act, gate_up, N, F);
	p4d_kernel_geglu_backward(NULL, type, gate_up, act, dact, N, F);
	p4d_kernel_gelu(NULL, type, act, gate_up, N, F);
	p4d_kernel_gelu_backward(NULL, type, gate_up, act, dact, N, F);
	look();
	void *const table = take(e * 64 * H), *const out = take(e * N * H);
	float *const dtable = take(4 * 64 * H);
	int32_t *const tokens = take(4 * N);
	for (int i = 0; i < N; i++)
		tokens[i] = i * 2;
	p4d_kernel_embed(NULL, type, out, table, tokens, N, H, 0, 64);
	p4d_kernel_embed_backward(NULL, type, dtable, out, tokens, N, H, 0, 64);
	look();
	p4d_kernel_copy_rows(NULL, gate_up, e * 2 * H, act, e * H, e * H, N / 4);
	p4d_kernel_accumulate_rows(NULL, dtable, 2 * H, type, out, H, N);
	look();
}

static void logits(p4d_dtype type, uint64_t e)
{
	void *const at = take(e * N * VOCAB);
	float *const maximum = take(4 * N), *const sum = take(4 * N), *const target = take(4 * N);
	int32_t *const labels = take(4 * N);
	double *const loss = take(8);

	p4d_kernel_softmax_sums(NULL, type, maximum, sum, target, at, VOCAB, labels, N, VOCAB, 0);
	p4d_kernel_logits_gradient(NULL, type, at, VOCAB, maximum, sum, labels, N, VOCAB, 0, 1, 0);
	p4d_kernel_rescale(NULL, sum, maximum, maximum, N);
	p4d_kernel_losses(NULL, loss, maximum, sum, target, labels, N, 0);
	p4d_kernel_soft_cap(NULL, type, at, VOCAB, N, VOCAB, 30);
	p4d_kernel_capped_gradient(NULL, type, at, VOCAB, maximum, sum, labels, N, VOCAB, 0, 1, 0, 30);
	p4d_kernel_scale_rows(NULL, type, at, VOCAB, maximum, N, VOCAB);
	p4d_kernel_cross_entropy(NULL, type, maximum, sum, target, at, VOCAB, labels, N, VOCAB, 1, 0);
	look();
}

static void arrays(p4d_dtype type, uint64_t e)
{
	const uint64_t count = 1 << 16;
	void *const a = take(e * count), *const b = take(e * count);
	float *const x = take(4 * count), *const m = take(4 * count), *const v = take(4 * count),
		     *const g = take(4 * count), *const sums = take(8 * P4D_SQUARES_SUMS);
	double *const sum = take(8);
	uint64_t *const number = take(8);
	const p4d_adam adam = {0.01f, 0.9f, 0.95f, 1e-5f, 0.1f, 0.5f, 0.25f, 0.5f};

	p4d_kernel_add(NULL, type, a, a, b, count);
	p4d_kernel_accumulate(NULL, x, type, a, count);
	p4d_kernel_adam(NULL, type, a, e == 2 ? x : NULL, m, v, g, count, &adam);
	const p4d_rounding rounding = {.key = 1, .columns = 1, .stride = 1};
	p4d_kernel_adam_half(NULL, type, a, e == 2 ? x : NULL, (uint16_t *)m, (uint16_t *)v, g, count, &adam,
			     &rounding);
	p4d_kernel_sum_squares(NULL, sums, sum, g, count);
	p4d_kernel_count_nonfinite(NULL, sums, number, g, count);
	p4d_kernel_count_words(NULL, sums, number, g, 1, count);
	p4d_kernel_fill(NULL, g, 1, count);
	p4d_kernel_cast(NULL, type, a, g, count);
	look();
}

/* role: both operands of a matrix, or only one of them. */
static void operands(p4d_dtype type, uint64_t e, int recipe, p4d_fp8_role role)
{
	enum { ROWS = 256, DEPTH = 384 };
	void *const x = take(e * ROWS * DEPTH);
	float *const sums = take(4 * P4D_FP8_MAXIMA);
	const p4d_fp8_operand_shape shapes[] = {p4d_fp8_shape_of(recipe, role, ROWS, DEPTH),
						p4d_fp8_shape_of(recipe, role, DEPTH, ROWS)};
	const p4d_fp8_operand to = {shapes[0], take(ROWS * DEPTH), take(p4d_fp8_scales_bytes(&shapes[0]))},
			      turned = {shapes[1], take(ROWS * DEPTH),
					take(p4d_fp8_scales_bytes(&shapes[1]))};

	p4d_kernel_quantize(NULL, sums, type, &to, NULL, x);
	p4d_kernel_quantize(NULL, sums, type, NULL, &turned, x);
	p4d_kernel_quantize(NULL, sums, type, &to, &turned, x);
	look();
	if (role == P4D_FP8_WEIGHT)
		return;
	void *const gate_up = take(2 * e * ROWS * DEPTH), *const dact = take(e * ROWS * DEPTH);
	p4d_kernel_quantize_swiglu(NULL, sums, type, &to, &turned, gate_up);
	p4d_kernel_quantize_swiglu_backward(NULL, sums, type, &to, &turned, gate_up, dact);
	look();
}

static void attention(p4d_dtype type, uint64_t e)
{
	enum { TOKENS = 128 };
	void *const qkv = take(e * TOKENS * COLUMNS), *const o = take(e * TOKENS * HEADS * D);
	float *const lse = take(4 * HEADS * TOKENS), *const row_sums = take(4 * HEADS * TOKENS),
		     *const total = take(4 * TOKENS * HEADS * D), *const total_lse = take(4 * HEADS * TOKENS),
		     *const dqkv = take(4 * TOKENS * COLUMNS);
	int32_t *const position = take(4 * TOKENS);
	const p4d_attention_shape shape = {.batch = 1,
					   .queries = TOKENS,
					   .keys = TOKENS,
					   .heads = HEADS,
					   .kv_heads = KV_HEADS,
					   .head_dim = D,
					   .query_position = position,
					   .key_position = position,
					   .query_stride = COLUMNS,
					   .key_stride = COLUMNS,
					   .scale = 0.125f};
	char *const q = qkv, *const k = q + e * HEADS * D, *const v = k + e * KV_HEADS * D;
	float *const dk = dqkv + HEADS * D, *const dv = dk + KV_HEADS * D;

	for (int i = 0; i < TOKENS; i++)
		position[i] = i;
	p4d_kernel_attention(NULL, type, o, lse, q, k, v, &shape);
	p4d_kernel_attention_row_sums(NULL, type, row_sums, o, o, TOKENS, HEADS, D);
	p4d_kernel_attention_backward(NULL, type, P4D_DT_FP32, true, dqkv, dk, dv, o, lse, row_sums, q, k, v,
				      &shape);
	p4d_kernel_attention_merge(NULL, type, total, total_lse, o, lse, TOKENS, HEADS, D, false);
	look();
}

static void all(void **state)
{
	(void)state;
	for (int wide = 0; wide < 2; wide++) {
		const p4d_dtype type = wide ? P4D_DT_FP32 : P4D_DT_BF16;
		const uint64_t e = wide ? 4 : 2;
		/* rows with one access of 16 bytes per thread, with two, with four, and too long for
		 * registers */
		norms(type, e, H, N);
		norms(type, e, 2 * H, N / 2);
		norms(type, e, 4 * H, N / 2);
		norms(type, e, 12 * H, 3);
		split_norms(type, e, H, N);
		other_norms(type, e, H, N);
		heads(type, e, false);
		heads(type, e, true);
		rows(type, e);
		logits(type, e);
		arrays(type, e);
		attention(type, e);
		operands(type, e, P4D_FP8_BLOCKWISE, P4D_FP8_INPUT);
		operands(type, e, P4D_FP8_BLOCKWISE, P4D_FP8_WEIGHT);
		operands(type, e, P4D_FP8_MXFP8, P4D_FP8_INPUT);
		operands(type, e, P4D_FP8_CURRENT, P4D_FP8_INPUT);
	}
	assert_true(seen >= 100);
}

static int set_up(void **state)
{
	(void)state;
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		return -1;
	traffic_watch(arena, ARENA);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all)};

	return cmocka_run_group_tests_name("bytes that kernels move", tests, set_up, NULL);
}
