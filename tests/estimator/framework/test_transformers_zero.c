/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients that ranks keep with ZeRO 1 and 2. The test compares p4d's formula with a loop over all
 * ranks and with calculations by hand. test_transformers_memory.c compares it with DeepSpeed's own code. */
#include "support/support.h"

#include "framework/transformers.h"
#include "plan/stage_memory.h"
#include "request/defaults.h"

#define MIXTRAL \
	"model=custom model-code=transformers framework=deepspeed norm=rmsnorm glu=on positions=rope " \
	"bias=none " \
	"qk-norm=off seq-len=512 micro-batch=1 precision=bf16 attention=flash experts-per-token=2 "

typedef struct sizes {
	uint64_t hidden, ffn, heads, experts, vocab, layers, world;
	bool tied;
} sizes;

static p4d_layout layout_of(const sizes *m, const char *more)
{
	p4d_request q = {.gpu = ""};
	p4d_layout l;
	p4d_error err;
	char text[512];

	snprintf(text, sizeof(text),
		 "hidden=%" PRIu64 " ffn=%" PRIu64 " expert-ffn=%" PRIu64 " heads=%" PRIu64
		 " kv-heads=%" PRIu64 " head-dim=64 experts=%" PRIu64 " vocab=%" PRIu64 " layers=%" PRIu64
		 " tied=%s ",
		 m->hidden, m->ffn, m->ffn, m->heads, m->heads, m->experts, m->vocab, m->layers,
		 m->tied ? "on" : "off");
	set_all(&q, MIXTRAL);
	set_all(&q, text);
	set_all(&q, more);
	snprintf(text, sizeof(text), "global-batch=%" PRIu64, 2 * m->world);
	set_all(&q, text);
	p4d_request_complete(&q, 0, m->world);
	if (p4d_layout_build(&q, 1, m->world, &l, &err) < 0)
		fail_msg("%s", err.text);
	return l;
}

/* Lists the parameters in their order: the norms of a layer come first in it. */
static size_t parameters(const sizes *m, uint64_t *list)
{
	const uint64_t h = m->hidden, attention = h * m->heads * 64, up = 2 * m->experts * m->ffn * h;
	size_t n = 0;

	list[n++] = m->vocab * h;
	for (uint64_t i = 0; i < m->layers; i++) {
		list[n++] = 2 * h;
		for (int k = 0; k < 4; k++)
			list[n++] = attention;
		list[n++] = m->experts * h;
		list[n++] = up;
		list[n++] = up / 2;
	}
	list[n++] = h;
	if (!m->tied)
		list[n++] = m->vocab * h;
	return n;
}

/* Returns the number of elements of all parameters that overlap a rank's window from..to. *slice: the
 * largest part of a parameter within the window. */
static uint64_t touched_by(const uint64_t *list, size_t n, uint64_t from, uint64_t to, uint64_t *slice)
{
	uint64_t at = 0, sum = 0;

	*slice = 0;
	for (size_t i = 0; i < n; at += list[i++]) {
		const uint64_t end = at + list[i], a = at > from ? at : from, b = end < to ? end : to;
		if (a >= b)
			continue;
		sum += list[i];
		*slice = b - a > *slice ? b - a : *slice;
	}
	return sum;
}

static uint64_t drawn = 7;

static uint64_t draw(uint64_t below)
{
	drawn = drawn * 6364136223846793005u + 1442695040888963407u;
	return (drawn >> 33) % below;
}

static void as_rank_by_rank(void **state)
{
	static uint64_t list[1024];
	static p4d_zero z;
	p4d_stage stage;
	p4d_error err;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		const sizes m = {.hidden = 64 * (1 + draw(32)),
				 .ffn = 64 * (1 + draw(64)),
				 .heads = 1 + draw(32),
				 .experts = 2 + draw(64),
				 .vocab = 100 + draw(200000),
				 .layers = 1 + draw(40),
				 .world = 1 + draw(draw(2) ? 600 : 8),
				 .tied = draw(2)};
		const p4d_layout l = layout_of(&m, draw(3) ? "zero-stage=2" : "zero-stage=1");
		const size_t n = parameters(&m, list);
		uint64_t all = 0, most = 0, update = 0;
		for (size_t i = 0; i < n; i++)
			all += list[i];
		assert_int_equal(all, (uint64_t)p4d_size_of_model(&l));
		const uint64_t share = (all + m.world - 1) / m.world;
		for (uint64_t rank = 0; rank < m.world; rank++) {
			uint64_t slice;
			const uint64_t touched =
			    touched_by(list, n, rank * share, (rank + 1) * share, &slice);
			const uint64_t copies = 6 * share > 8 * slice ? 6 * share : 8 * slice;
			most = touched > most ? touched : most;
			update = touched && 2 * touched + copies > update ? 2 * touched + copies : update;
		}
		memset(&z, 0, sizeof(z));
		p4d_transformers__zero_start(&z, &l, all, 2);
		assert_int_equal(z.share, share);
		if (l.zero_stage == 2)
			assert_int_equal(z.most, most);
		assert_int_equal(p4d_memory_of_stage(&l, P4D_METHOD_PLAN, NULL, 0, &stage, &err), 0);
		/* parameters, a master copy, moments and cuBLAS's workspace exist in every phase */
		const uint64_t held = 2 * all + (4 + 8) * share + (32 << 20);
		assert_within(stage.phase_bytes[P4D_STEP], held + update - 4096, held + update + 4096);
	}
}

/*
 * gpt-oss-120b with a third of its layers on 64 GPUs. A rank's part has 627M parameters and may begin
 * anywhere. If it begins in a layer's second expert matrix (1.06G parameters) and ends in the next layer's
 * first (2.12G), the rank stores gradients of both whole matrices and of everything between them.
 */
static void more_than_a_part(void **state)
{
	const sizes m = {.hidden = 2880,
			 .ffn = 2880,
			 .heads = 64,
			 .experts = 128,
			 .vocab = 201088,
			 .layers = 12,
			 .world = 64};
	const p4d_layout l = layout_of(&m, "zero-stage=2");
	const uint64_t down = 128ull * 2880 * 2880, up = 2 * down;
	static p4d_zero z;

	(void)state;
	p4d_transformers__zero_start(&z, &l, (uint64_t)p4d_size_of_model(&l), 2);
	assert_within(z.share, 620000000, 640000000);
	assert_within(z.most, down + up, down + up + 200000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_rank_by_rank),
					   cmocka_unit_test(more_than_a_part)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
