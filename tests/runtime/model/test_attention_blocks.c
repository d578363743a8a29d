/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of attention, which the host computes, agree with the positions of queries and keys on each
 * rank. The plan's workspace is exactly that of the largest block. */
#include "support/support.h"

#include "model/sequence_order.h"
#include "plan/cudnn_workspace.h"

enum { HEADS = 6, KV_HEADS = 2, HEAD_DIM = 64, BATCHES = 2 };

static p4d_layout layout;
static p4d_net net;

static void set_layout(uint64_t cp, bool gathered, uint64_t chunk)
{
	layout = (p4d_layout){.cp = cp,
			      .cp_comm = gathered ? P4D_CP_ALL_GATHER : P4D_CP_P2P,
			      .seq_len = (cp > 1 ? 2 : 1) * cp * chunk};
	net = (p4d_net){.l = &layout, .length = layout.seq_len / cp};
}

static uint64_t key_place(uint32_t block, uint64_t key)
{
	return layout.cp_comm == P4D_CP_ALL_GATHER ? key : p4d_sequence__place(&layout, block, key);
}

static bool seen_in(const p4d_attention_block *b, uint64_t query, uint64_t key)
{
	if (query < b->first_query || query >= b->first_query + b->queries || key >= b->keys)
		return false;
	/* with a causal mask, the last query sees all keys of the block, and each earlier query one key
	 * less */
	return !b->causal || key + (b->first_query + b->queries - 1 - query) < b->keys;
}

/* The largest workspace of all calls, for two batch sizes. */
typedef struct need {
	uint64_t bytes[BATCHES][2];
} need;

static void add_need(need *n, int sm, const p4d_attention_block *b)
{
	for (uint64_t batch = 1; batch <= BATCHES; batch++)
		for (int backward = 0; backward < 2; backward++) {
			const p4d_attention_call call = {.batch = batch,
							 .heads = HEADS,
							 .kv_heads = KV_HEADS,
							 .queries = b->queries,
							 .keys = b->keys,
							 .head_dim = HEAD_DIM,
							 .backward = backward,
							 .staged = layout.cp > 1};
			const uint64_t bytes = p4d_attention_workspace_of(sm, &call).bytes;
			if (bytes > n->bytes[batch - 1][backward])
				n->bytes[batch - 1][backward] = bytes;
		}
}

static void check_block(uint32_t block, uint64_t keys)
{
	p4d_attention_shape shape = {.blocks = 0};

	p4d_sequence__find_blocks(&net, block, &shape);
	assert_within(shape.blocks, 1, P4D_ATTENTION_BLOCKS);
	for (uint64_t i = 0; i < net.length; i++)
		for (uint64_t j = 0; j < keys; j++) {
			unsigned seen = 0;
			for (uint32_t k = 0; k < shape.blocks; k++)
				seen += seen_in(&shape.block[k], i, j);
			const bool is_behind =
			    p4d_sequence__place(&layout, net.place.cp, i) >= key_place(block, j);
			if (seen != is_behind)
				fail_msg("cp %d, rank %u, block %u: query %d, key %d: in %u blocks",
					 (int)layout.cp, net.place.cp, block, (int)i, (int)j, seen);
		}
}

/*
 * With a window, a query sees the last keys of a causal block if and only if they are within the window.
 * In a ring there are no such blocks, because a rank's queries and keys are two separate parts of the
 * sequence.
 */
static void check_window(uint32_t block, uint64_t keys)
{
	const uint64_t window = 5;
	p4d_attention_shape shape = {.window = window};

	p4d_sequence__find_blocks(&net, block, &shape);
	assert_int_equal(shape.blocks == 0, layout.cp > 1 && layout.cp_comm != P4D_CP_ALL_GATHER);
	for (uint64_t i = 0; shape.blocks && i < net.length; i++)
		for (uint64_t j = 0; j < keys; j++) {
			bool seen = false;
			for (uint32_t k = 0; k < shape.blocks; k++)
				seen = seen || (seen_in(&shape.block[k], i, j) &&
						!seen_in(&shape.block[k], i, j + window));
			const uint64_t query = p4d_sequence__place(&layout, net.place.cp, i),
				       key = key_place(block, j);
			assert_int_equal(seen, query >= key && query - key < window);
		}
}

/* Calls f for each rank, and each of its blocks of keys. */
static void for_blocks(void (*f)(uint32_t block, uint64_t keys))
{
	const bool gathered = layout.cp_comm == P4D_CP_ALL_GATHER;

	for (net.place.cp = 0; net.place.cp < layout.cp; net.place.cp++) {
		if (gathered)
			f(P4D_GATHERED_BLOCK, layout.seq_len);
		for (uint32_t block = 0; !gathered && block < layout.cp; block++)
			f(block, net.length);
	}
}

static void blocks_are_what_positions_say(void **state)
{
	(void)state;
	for (uint64_t cp = 1; cp <= 6; cp++)
		for (int gathered = 0; gathered < (cp > 1 ? 2 : 1); gathered++)
			for (uint64_t chunk = 1; chunk <= 5; chunk++) {
				set_layout(cp, gathered, chunk);
				for_blocks(check_block);
				for_blocks(check_window);
			}
}

static int sm_of_need;
static need most;

static void measure(uint32_t block, uint64_t keys)
{
	p4d_attention_shape shape = {.blocks = 0};

	(void)keys;
	p4d_sequence__find_blocks(&net, block, &shape);
	for (uint32_t k = 0; k < shape.blocks; k++)
		add_need(&most, sm_of_need, &shape.block[k]);
}

static void check_most(int sm)
{
	most = (need){.bytes = {{0}}};
	sm_of_need = sm;
	for_blocks(measure);
	for (uint64_t batch = 1; batch <= BATCHES; batch++)
		for (int backward = 0; backward < 2; backward++) {
			const p4d_attention_split split = {.batch = batch,
							   .heads = HEADS,
							   .kv_heads = KV_HEADS,
							   .head_dim = HEAD_DIM,
							   .seq_len = layout.seq_len,
							   .cp = layout.cp,
							   .gathered = layout.cp_comm == P4D_CP_ALL_GATHER};
			assert_int_equal(p4d_attention_workspace_most(sm, &split, backward),
					 most.bytes[batch - 1][backward]);
		}
}

static void the_plan_has_the_most(void **state)
{
	static const int sms[] = {0, 80, 90, 100, 120};
	/* chunk sizes on both sides of 128, where Blackwell changes to other kernels */
	static const uint64_t chunks[] = {1, 24, 64, 65, 127, 128, 129, 256, 257, 300, 4096};

	(void)state;
	for (uint64_t cp = 1; cp <= 5; cp++)
		for (int gathered = 0; gathered < (cp > 1 ? 2 : 1); gathered++)
			for (int i = 0; i < 11; i++)
				for (int k = 0; k < 5; k++) {
					set_layout(cp, gathered, chunks[i]);
					check_most(sms[k]);
				}
}

/* The buffers of a call do not overlap, and the call uses all of them. */
static void buffers_lie_apart(void **state)
{
	static const int sms[] = {80, 90, 100, 120};

	(void)state;
	for (int i = 0; i < 4 * 8; i++) {
		const bool documents = i & 4;
		const p4d_attention_call call = {.batch = 2,
						 .heads = 4,
						 .kv_heads = i & 1 ? 4 : 2,
						 .queries = documents ? 141 : 33,
						 .keys = documents ? 141 : 41,
						 .head_dim = 40,
						 .backward = true,
						 .staged = i & 2,
						 .documents = documents ? 16 : 0};
		const p4d_attention_workspaces w = p4d_attention_workspace_of(sms[i / 8], &call);
		const uint64_t query = 2 * 4 * call.queries, key = 2 * call.kv_heads * call.keys;
		const uint64_t rows = documents ? query + 2 * key : query, group = 4 / call.kv_heads;
		const bool staged = call.staged && !documents;
		const struct {
			uint64_t at, bytes;
		} parts[] = {
		    {0, w.library},
		    {w.query_gradient, 4 * rows * 40},
		    {w.row_sums, 4 * query},
		    {w.dq, staged ? 2 * query * 40 : 0},
		    {w.dk, staged ? 2 * key * 40 : 0},
		    {w.dv, staged ? 2 * key * 40 : 0},
		    {w.key_heads, documents && group > 1 ? 2 * group * rows * 40 : 0},
		};
		uint64_t sum = 0;
		if (documents && sms[i / 8] != 90 && sms[i / 8] != 100) {
			assert_true(!w.fused && w.bytes == 0);
			continue;
		}
		assert_true(w.fused);
		for (int k = 0; k < 7; k++) {
			sum += (parts[k].bytes + 127) / 128 * 128;
			assert_true(parts[k].at + parts[k].bytes <= w.bytes);
			assert_true(parts[k].bytes == 0 || parts[k].at % 128 == 0);
			for (int j = 0; j < k; j++)
				assert_true(parts[j].bytes == 0 || parts[k].bytes == 0 ||
					    parts[j].at + parts[j].bytes <= parts[k].at ||
					    parts[k].at + parts[k].bytes <= parts[j].at);
		}
		assert_int_equal(w.bytes, sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(blocks_are_what_positions_say),
	    cmocka_unit_test(the_plan_has_the_most),
	    cmocka_unit_test(buffers_lie_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
