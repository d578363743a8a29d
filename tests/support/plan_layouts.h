/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Layouts of p4d-train to plan. Include after support.h. */
#include "plan/plan.h"
#include "request/defaults.h"

static uint64_t state_of_random = UINT64_C(0x9e3779b97f4a7c15);

static inline uint64_t draw(uint64_t below)
{
	state_of_random ^= state_of_random << 13;
	state_of_random ^= state_of_random >> 7;
	state_of_random ^= state_of_random << 17;
	return (state_of_random >> 11) % below;
}

static inline uint64_t pick(const uint64_t *from, size_t count)
{
	return from[draw(count)];
}
#define PICK(...) \
	pick((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static const p4d_gpu h100 = {.name = "h100-80gb", .usable_bytes = UINT64_C(84932804608), .sm = 90};

static inline void put(p4d_request *r, p4d_option option, uint64_t value)
{
	p4d_request_put(r, option, (int64_t)value, P4D_BY_USER);
}

/* Draws a training job of p4d-train. only: its schedule; below 0: a random one. Returns false if p4d
 * refuses the layout, which it does in about two of three cases. */
static inline bool random_layout(p4d_layout *l, int only)
{
	p4d_request r = {.model = "random"};
	uint64_t head_dim = PICK(64, 80, 96, 128), kv = PICK(1, 2, 4, 5, 8, 16, 32),
		 group = PICK(1, 1, 2, 4, 8);
	uint64_t tp = PICK(1, 1, 2, 4, 8), cp = PICK(1, 1, 1, 2, 4), pp = PICK(1, 2, 3, 4, 6, 8, 16);
	uint64_t per_node = PICK(1, 4, 8), layers = PICK(8, 12, 16, 24, 32, 40, 48, 80);
	const int drawn = (int)draw(only < 0 ? P4D_SCHEDULES : 1), schedule = only < 0 ? drawn : only;
	const p4d_schedule_kind *kind = p4d_schedule_kinds[schedule];
	char split[256];

	set_all(&r, "model=custom framework=p4d norm=rmsnorm glu=on positions=rope max-seq-len=131072");
	put(&r, P4D_LAYERS, layers);
	put(&r, P4D_HEAD_DIM, head_dim);
	put(&r, P4D_KV_HEADS, kv);
	put(&r, P4D_HEADS, kv * group);
	put(&r, P4D_HIDDEN, PICK(256, 768, 1000, 2048, 4096, 5120, 8192));
	put(&r, P4D_FFN, PICK(512, 1000, 2816, 11008, 14336, 28672));
	put(&r, P4D_VOCAB, PICK(256, 32000, 50257, 128256, 256000));
	put(&r, P4D_TIED, draw(2));
	put(&r, P4D_BIAS, draw(2));
	put(&r, P4D_QK_NORM, draw(2));
	if (draw(4) == 0) {
		static const char *const targets[] = {"all-linear", "attention", "mlp", "q_proj,v_proj",
						      "down_proj"};
		put(&r, P4D_FINETUNE, PICK(P4D_TUNE_LORA, P4D_TUNE_QLORA));
		put(&r, P4D_LORA_RANK, PICK(1, 8, 16, 33, 256));
		if (draw(2))
			p4d_request_put_real(&r, P4D_LORA_DROPOUT, 0.1, P4D_BY_USER);
		snprintf(r.lora_targets, sizeof(r.lora_targets), "%s", targets[draw(5)]);
	}
	put(&r, P4D_TP, tp);
	put(&r, P4D_CP, cp);
	put(&r, P4D_CP_COMM, draw(2));
	put(&r, P4D_PP, pp);
	put(&r, P4D_SCHEDULE, (uint64_t)schedule);
	if (!kind->chunks)
		put(&r, P4D_VPP, PICK(2, 3, 4, 5));
	if (kind->vocabulary)
		put(&r, P4D_VOCAB_PARALLEL, only < 0 ? draw(3) : 0);
	if (kind->slices && cp == 1 && r.value[P4D_VOCAB_PARALLEL] == P4D_VOCAB_OFF && draw(3) == 0)
		put(&r, P4D_TOKEN_SLICES, PICK(1, 2, 3, 4, 7, 16));
	const uint64_t recompute = draw(5);
	put(&r, P4D_OPTIMIZER_DTYPE, draw(2) ? P4D_STATE_HALF : P4D_STATE_FP32);
	if (draw(4) == 0)
		put(&r, P4D_OPTIMIZER, PICK(P4D_ADAMW_8BIT, P4D_MUON));
	put(&r, P4D_RECOMPUTE, recompute == P4D_RECOMPUTE_MOE ? P4D_RECOMPUTE_KEEP : recompute);
	put(&r, P4D_SEQUENCE_PARALLEL, draw(4) > 0);
	put(&r, P4D_OPTIMIZER_SHARDING,
	    PICK(P4D_SHARD_NOTHING, P4D_SHARD_STATES, P4D_SHARD_STATES, P4D_SHARD_GRADIENTS,
		 P4D_SHARD_PARAMETERS));
	put(&r, P4D_PRECISION, PICK(P4D_BF16, P4D_BF16, P4D_FP16, P4D_FP32));
	put(&r, P4D_DEVICE, PICK(P4D_CUDA, P4D_CUDA, P4D_CPU));
	put(&r, P4D_SEQ_LEN, PICK(96, 512, 2048, 8192, 32768));
	put(&r, P4D_MICRO_BATCH, PICK(1, 1, 2, 3, 4));
	if (r.value[P4D_DEVICE] == P4D_CPU && draw(4) == 0)
		put(&r, P4D_WORKLOAD, P4D_WORKLOAD_PREFERENCE);
	uint64_t model = tp * cp * pp, dp = PICK(1, 2, 3, 4, 8), world = model * dp;
	if (world % per_node)
		return false;
	if (r.value[P4D_OPTIMIZER_SHARDING] && dp * cp % 2 == 0 && draw(4) == 0)
		put(&r, P4D_SHARD_DEGREE, dp * cp / 2);
	put(&r, P4D_GLOBAL_BATCH, dp * (uint64_t)r.value[P4D_MICRO_BATCH] * pp * (1 + draw(8)));
	if (kind->chunks == 1 && pp > 1 && pp <= 8 && draw(4) == 0) {
		/* the first stage gives a layer to the second */
		uint64_t even = layers / pp;
		if (layers % pp || even < 2)
			return false;
		int used = snprintf(split, sizeof(split), "%d,%d", (int)even - 1, (int)even + 1);
		for (uint64_t i = 2; i < pp; i++)
			used += snprintf(split + used, sizeof(split) - (size_t)used, ",%d", (int)even);
		if (p4d_request_set(&r, P4D_PIPELINE_SPLIT, split, P4D_BY_USER, NULL) < 0)
			fail();
	}
	if (schedule == P4D_1F1B && pp > 1 && !r.value[P4D_VOCAB_PARALLEL] && !p4d_is_set(&r, P4D_FINETUNE) &&
	    draw(3) == 0)
		put(&r, P4D_LOCAL_LOSS, P4D_LOCAL_STAGE);
	p4d_request_complete(&r, 0, world);
	return p4d_layout_build(&r, world / per_node, per_node, l, NULL) == 0;
}
