/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-LM's memory, compared with calculations by hand. */
#include "support/estimates.h"

#include "request/framework.h"

static void set(p4d_request *r, const char *name, const char *value)
{
	p4d_error err;
	int option = p4d_request_option_find(name);

	assert_int_not_equal(option, -1);
	if (p4d_request_set(r, (p4d_option)option, value, P4D_BY_USER, &err) < 0)
		fail_msg("%s=%s: %s", name, value, err.text);
}

/* workspaces of cuBLAS for Transformer Engine and for the head, and RoPE's angles for 32 positions */
#define WORKSPACES ((32u << 20) + 1024 + (32u << 20) + 4 * 32 * 16)

static void megatron_by_hand(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;

	(void)state;
	set_all(&r, SMALL "framework=megatron te-wgrad=off dropout=off cross-entropy=fused global-batch=1 "
			  "attention-mask=off");
	p4d_estimate e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	/* per layer: q and o 2*64*64, k and v 2*64*32, three times 64*128, two norms of 64 */
	uint64_t parameters = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 2 * 256 * 64 + 64;
	assert_part(&l, &e, P4D_PART_PARAMS, 2 * parameters);
	assert_part(&l, &e, P4D_PART_GRADS, 4 * parameters);
	assert_part(&l, &e, P4D_PART_OPTIMIZER, 12 * parameters);
	/* A layer stores 8h + 4ad + 4kd + 6f bytes per token, 4 bytes per head for the softmax statistics,
	 * and 8 for the norms' statistics. There are two layers and one micro-batch in flight. */
	assert_part(&l, &e, P4D_PART_ACTIVATIONS, 2 * 32 * (8 * 64 + 4 * 64 + 4 * 32 + 6 * 128 + 4 * 4 + 8));
	/* the head's backward pass has the logits, the final norm's input and output, the output's
	 * gradient, and the table's gradient */
	assert_part(&l, &e, P4D_PART_LOGITS, 2 * (32 * 256 + 3 * 32 * 64 + 256 * 64));
	assert_part(&l, &e, P4D_PART_WORKING_SET, 0);
	assert_part(&l, &e, P4D_PART_LIBRARIES, WORKSPACES);
	assert_int_equal(e.peak.phase, P4D_TRAIN);
	/* at the start: parameters, gradients and the master copy, but no moments yet */
	assert_phase(&l, &e, P4D_INIT, (2 + 4 + 4) * parameters);
	assert_phase(&l, &e, P4D_STEP, (2 + 4 + 12) * parameters + WORKSPACES);
	assert_true(e.peak.phase_bytes[P4D_SAVE] == P4D_NOT_MODELLED);
	assert_true(e.host_bytes == P4D_NOT_MODELLED);

	/* unfused attention stores the softmax (2 bytes per head and pair of tokens), and keys and values
	 * for all query heads, but no statistics */
	set(&r, "attention", "unfused");
	p4d_estimate unfused = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(unfused.peak.part[P4D_PART_ACTIVATIONS] - e.peak.part[P4D_PART_ACTIVATIONS],
			 2 * (2 * 4 * 32 * 32 + 2 * 2 * 32 * (64 - 32) - 4 * 4 * 32));
	/* attention's dropout stores a mask and its result for all pairs of tokens; hidden dropout stores
	 * two masks */
	set(&r, "dropout", "on");
	p4d_estimate dropped = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(dropped.peak.part[P4D_PART_ACTIVATIONS] - unfused.peak.part[P4D_PART_ACTIVATIONS],
			 2 * (3 * 4 * 32 * 32 + 2 * 32 * 64));
	/* one kind of dropout without the other */
	set(&r, "attention-dropout", "off");
	p4d_estimate hidden = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(hidden.peak.part[P4D_PART_ACTIVATIONS] - unfused.peak.part[P4D_PART_ACTIVATIONS],
			 2 * (2 * 32 * 64));
	set(&r, "dropout", "off");
	set(&r, "attention-dropout", "on");
	p4d_estimate pairs = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(pairs.peak.part[P4D_PART_ACTIVATIONS] - unfused.peak.part[P4D_PART_ACTIVATIONS],
			 2 * (3 * 4 * 32 * 32));
	set(&r, "attention-dropout", "off");
	/* With selective recomputation, these tensors exist for one layer only, during its backward pass,
	 * which is not the peak. Instead, layers store the product of qkv. */
	set(&r, "recompute", "selective");
	p4d_estimate selective = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(unfused.peak.part[P4D_PART_ACTIVATIONS] - selective.peak.part[P4D_PART_ACTIVATIONS],
			 2 * (2 * 4 * 32 * 32 + 2 * 2 * 32 * (64 - 32) - 2 * 32 * (64 + 32)));
	/* with flash attention, only the statistics are dropped, but queries and keys before RoPE are
	 * stored */
	set(&r, "attention", "flash");
	selective = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(selective.peak.part[P4D_PART_ACTIVATIONS] - e.peak.part[P4D_PART_ACTIVATIONS],
			 2 * 32 * (2 * (64 + 32) - 4 * 4));
}

static void weight_grad_shapes_count_once(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;

	(void)state;
	/* with ffn = hidden and no GLU, up (f x h) and down (h x f) have the same shape as attention's output
	 * (h x ad) */
	set_all(&r, SMALL "framework=megatron te-wgrad=on global-batch=1");
	set_all(&r, "ffn=64 glu=off kv-heads=4 vocab=256");
	p4d_estimate e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_part(&l, &e, P4D_PART_WEIGHT_GRAD, 2 * (3 * 64 * 64 + 64 * 64 + 256 * 64));
}

/*
 * Two layers and one micro-batch of 32 tokens. The graphs' pool has the feed-forward parts: norms of 64
 * columns, gate, up and their product, and outputs of 64. The pool also has temporary tensors: gradients
 * of gate and up, and the incoming and outgoing gradients. Inputs are copied, and the copies stay.
 */
static void graphs_of_megatron_by_hand(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	(void)state;
	set_all(&r, SMALL "framework=megatron te-wgrad=on dropout=off cross-entropy=fused global-batch=1");
	const p4d_estimate without = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_part(&l, &without, P4D_PART_GRAPHS, 0);
	set(&r, "cuda-graphs", "mlp");
	p4d_estimate e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	const uint64_t pool = 2 * 2 * 32 * (64 + 3 * 128 + 64) + 2 * 32 * (2 * 128 + 2 * 64),
		       inputs = 2 * 2 * 32 * 64;
	assert_part(&l, &e, P4D_PART_GRAPHS, pool);
	assert_int_equal(e.peak.phase_bytes[P4D_STEP], without.peak.phase_bytes[P4D_STEP] + pool + inputs);
	assert_int_equal(e.peak.phase_bytes[P4D_EVALUATION],
			 without.peak.phase_bytes[P4D_EVALUATION] + pool + inputs);
	assert_int_equal(e.peak.phase_bytes[P4D_INIT], without.peak.phase_bytes[P4D_INIT]);
	/* If whole layers are captured, the pool has each layer's output and the next layer's input.
	 * Attention's gradients are then larger than those of the feed-forward part. */
	set(&r, "cuda-graphs", "layers");
	e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(e.peak.part[P4D_PART_GRAPHS] + inputs, without.peak.part[P4D_PART_ACTIVATIONS] +
								    inputs +
								    2 * 32 * (4 * 64 + 2 * 32 + 2 * 64));
	assert_string_equal(p4d_framework_unvalidated(&l), "attention in CUDA graphs");
	set(&r, "recompute", "full");
	p4d_request_complete(&r, 0, 1);
	assert_int_equal(p4d_layout_build(&r, 1, 1, &l, &err), -1);
	assert_string_equal(err.text,
			    "Megatron-LM cannot recompute whole layers that are captured in CUDA graphs");
}

/* Types of gradients and states, and the memory that the allocator cannot use. */
static void states_of_megatron_by_hand(void **state)
{
	static const struct {
		const char *flags;
		uint64_t gradient, optimizer, copy; /* bytes per parameter; copy: copies of gradients or
						     * states that exist during the update */
		bool states; /* the update casts states back one tensor at a time; the table is the largest
			      * tensor */
	} cases[] = {
	    {"", 4, 12, 0, false},
	    {"grad-dtype=bf16", 2, 12, 4, false},
	    /* bf16 parameters and the 2 bytes of the master copy that bf16 lacks */
	    {"optimizer-dtype=bf16", 4, 2 + 4, 8, true},
	    {"grad-dtype=bf16 optimizer-dtype=bf16", 2, 2 + 4, 8, true},
	    {"optimizer-dtype=bf16 adam-copies=off", 4, 2 + 4, 0, false},
	    {"optimizer-dtype=bf16 master-dtype=fp16 adam-copies=off", 4, 2 + 4, 4, true},
	    {"master-dtype=fp16", 4, 2 + 8, 4, true},
	    {"precision=fp16", 2, 12, 4, false},
	    {"precision=fp16 grad-dtype=fp32", 4, 12, 0, false},
	    {"precision=fp16 optimizer-dtype=bf16", 2, 4 + 4, 8, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = {.gpu = ""};
		p4d_layout l;
		set_all(&r, SMALL "framework=megatron global-batch=1");
		set_all(&r, cases[i].flags);
		p4d_estimate e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
		const uint64_t n = e.peak.part[P4D_PART_PARAMS] / 2;
		const uint64_t other = e.peak.part[P4D_PART_WEIGHT_GRAD] + e.peak.part[P4D_PART_LIBRARIES];
		const uint64_t copies = cases[i].copy * n + (cases[i].states ? 2 * 256 * 64 : 0);
		const bool in_step = copies > e.peak.phase_bytes[P4D_TRAIN] - other -
						  (2 + cases[i].gradient + cases[i].optimizer) * n;
		assert_part(&l, &e, P4D_PART_GRADS, cases[i].gradient * n);
		/* copies of gradients also exist during evaluation, so evaluation may be the peak */
		assert_true(in_step ? e.peak.phase == P4D_STEP || e.peak.phase == P4D_EVALUATION
				    : e.peak.phase == P4D_TRAIN);
		assert_part(&l, &e, P4D_PART_OPTIMIZER, cases[i].optimizer * n + (in_step ? copies : 0));
		assert_int_equal(e.peak.phase_bytes[P4D_STEP] - other,
				 (2 + cases[i].gradient + cases[i].optimizer) * n + copies);
	}
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	set_all(&r, SMALL "framework=megatron global-batch=1 allocator=expandable");
	p4d_estimate e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_part(&l, &e, P4D_PART_FRAGMENTATION, e.peak.allocated_bytes / 100);
}

/*
 * With FP8, a stage has two FP8 copies of each layer's weights, either in addition to bf16 parameters or
 * instead of them. It also has an 8-bit copy of each matmul's input. Block scales add a 32nd. On
 * Blackwell, the recipes without blocks need only one copy of the weights.
 */
static void fp8_of_megatron_by_hand(void **state)
{
	const uint64_t weights = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128),
		       parameters = weights + 2 * 2 * 64 + 2 * 256 * 64 + 64;
	const uint64_t saved = 2 * 64 + 4 * 64 + 4 * 32 + 2 * 64 + 4 * 128 + 4 * 4 + 8,
		       eighth = 64 + 64 + 128; /* inputs with 8-bit copies: both norms, and SwiGLU's
						* product */
	const struct {
		const char *flags;
		int sm;
		uint64_t parameters, activations, optimizer; /* optimizer: bytes per parameter, with Adam's
							      * copies */
	} cases[] = {
	    /* delayed scaling: the output projection also copies a tensor that attention stores anyway */
	    {"", 90, 2 * parameters + 2 * weights, saved + eighth + 64, 12},
	    {"", 100, 2 * parameters + weights, saved + eighth + 64, 12},
	    {"fp8-recipe=current", 0, 2 * parameters + 2 * weights, saved + eighth, 12},
	    {"fp8-recipe=current fp8-param-gather=on", 90, 2 * parameters, saved + eighth, 12},
	    {"fp8-recipe=current fp8-param-gather=on", 103, 2 * parameters - weights, saved + eighth, 12},
	    {"fp8-recipe=blockwise", 90, 2 * parameters + 2 * weights / 32 * 33, saved + eighth / 32 * 33,
	     12},
	    {"fp8-recipe=mxfp8", 100, 2 * parameters + 2 * weights / 32 * 33, saved + eighth / 32 * 33, 12},
	    /* half a byte per element, and a one-byte scale for 16 elements */
	    {"fp8-recipe=nvfp4", 100, 2 * parameters + 2 * weights / 16 * 9, saved + eighth / 16 * 9, 12},
	    {"optimizer-dtype=bf16 fp8-recipe=nvfp4", 100, 2 * parameters + 2 * weights / 16 * 9,
	     saved + eighth / 16 * 9, 2 + 4 + 8},
	    /* only with delayed scaling does the master copy store only the 2 bytes that bf16 lacks */
	    {"optimizer-dtype=bf16", 90, 2 * parameters + 2 * weights, saved + eighth + 64, 2 + 4 + 8},
	    {"optimizer-dtype=bf16 fp8-recipe=mxfp8", 100, 2 * parameters + 2 * weights / 32 * 33,
	     saved + eighth / 32 * 33, 4 + 4 + 8},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const p4d_gpu gpu = {.name = "x", .sm = cases[i].sm, .usable_bytes = (uint64_t)1 << 36};
		const p4d_capacity capacity = {.gpu = &gpu};
		p4d_request r = {.gpu = ""};
		p4d_estimate e;
		p4d_layout l;
		p4d_error err;
		set_all(&r, SMALL "framework=megatron te-wgrad=off dropout=off cross-entropy=fused");
		set_all(&r, "global-batch=1 precision=fp8");
		set_all(&r, cases[i].flags);
		e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
		assert_int_equal(p4d_memory_estimate(&l, P4D_METHOD_PLAN, &capacity, &e, &err), 0);
		assert_part(&l, &e, P4D_PART_PARAMS, cases[i].parameters);
		assert_part(&l, &e, P4D_PART_GRADS, 4 * parameters);
		const bool copies = cases[i].optimizer > 12;
		assert_part(&l, &e, P4D_PART_OPTIMIZER,
			    cases[i].optimizer * parameters + (copies ? 2 * 256 * 64 : 0));
		if (!copies)
			assert_part(&l, &e, P4D_PART_ACTIVATIONS, 2 * 32 * cases[i].activations);
	}
}

/* If cp ranks exchange heads within groups, attention's output is stored before and after the exchange. */
static void hierarchy_by_hand(void **state)
{
	uint64_t bytes[2];
	(void)state;

	for (int with = 0; with < 2; with++) {
		p4d_request r = {.gpu = ""};
		p4d_layout l;
		set_all(&r, SMALL "framework=megatron te-wgrad=off dropout=off cross-entropy=fused "
				  "global-batch=1 cp=4");
		if (with)
			set(&r, "cp-heads", "2");
		bytes[with] = estimate(&r, 1, 4, P4D_METHOD_PLAN, &l).peak.part[P4D_PART_ACTIVATIONS];
	}
	/* 8 tokens of 64 columns with 2 bytes, in two layers */
	assert_int_equal(bytes[1] - bytes[0], 2 * 8 * 64 * 2);
}

/* Evaluation needs all states and one forward pass. The pass has the tensors of one layer, or those of the
 * head. */
static void evaluation_of_megatron_by_hand(void **state)
{
	const uint64_t parameters =
	    2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 2 * 256 * 64 + 64;
	const uint64_t hidden = 2 * 2 * 32 * 64, layer = 2 * 32 * 3 * 128, logits = 32 * 256;
	p4d_request r = {.gpu = ""};
	p4d_layout l;

	(void)state;
	set_all(&r, SMALL "framework=megatron te-wgrad=off dropout=off cross-entropy=fused global-batch=1 "
			  "attention-mask=off");
	p4d_estimate e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_phase(&l, &e, P4D_EVALUATION, 18 * parameters + WORKSPACES + hidden + layer);
	/* with bf16 gradients, the update leaves fp32 copies of them */
	set_all(&r, "grad-dtype=bf16");
	e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_phase(&l, &e, P4D_EVALUATION, (16 + 4) * parameters + WORKSPACES + hidden + layer);
	set_all(&r, "grad-dtype=fp32");
	set_all(&r, "cross-entropy=unfused eval-micro-batch=8");
	e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(e.peak.phase, P4D_EVALUATION);
	assert_int_equal(e.peak.allocated_bytes,
			 18 * parameters + WORKSPACES + 8 * (hidden + (2 + 4) * logits));
	assert_phase(&l, &e, P4D_EVALUATION, e.peak.allocated_bytes);
	assert_part(&l, &e, P4D_PART_ACTIVATIONS, 0);
	assert_part(&l, &e, P4D_PART_LOGITS, 8 * (2 + 4) * logits);
	assert_part(&l, &e, P4D_PART_WORKING_SET, 8 * hidden);
	/* recomputation changes nothing, because evaluation has no backward pass */
	set_all(&r, "recompute=full");
	p4d_estimate again = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_int_equal(again.peak.allocated_bytes, e.peak.allocated_bytes);
	/* the unfused scores and softmax of four heads need more than the feed-forward part */
	set_all(&r, "attention=unfused cross-entropy=fused");
	e = estimate(&r, 1, 1, P4D_METHOD_PLAN, &l);
	assert_phase(&l, &e, P4D_EVALUATION,
		     18 * parameters + WORKSPACES + 8 * (hidden + 2 * 32 * (2 * 64 + 2 * 32 + 2 * 4 * 32)));
}

/*
 * The attention mask of the data loader has a byte for each pair of tokens. It exists during the forward
 * pass. If layers are recomputed, there is one for each micro-batch in flight. With context parallelism,
 * it has only the rows of the rank's tokens. Only the first and the last stage have a mask.
 */
static void mask_of_megatron_by_hand(void **state)
{
	static const struct {
		const char *options;
		uint64_t gpus, bytes; /* bytes of the masks at the peak of stage 0 */
	} cases[] = {
	    {"seq-len=32768 recompute=none", 1, UINT64_C(32768) * 32768},
	    {"seq-len=32768 recompute=full", 1, UINT64_C(32768) * 32768},
	    {"seq-len=32768 recompute=full pp=2 global-batch=4", 2, 2 * UINT64_C(32768) * 32768},
	    {"seq-len=32768 recompute=full eval-micro-batch=2", 1, 2 * UINT64_C(32768) * 32768},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t bytes[2];
		for (int with = 0; with < 2; with++) {
			p4d_request r = {.gpu = ""};
			p4d_layout l;
			p4d_stage stage;
			set_all(&r, SMALL "framework=megatron vocab=16 cross-entropy=fused global-batch=1");
			set_all(&r, cases[i].options);
			set_all(&r, with ? "attention-mask=on" : "attention-mask=off");
			estimate(&r, 1, cases[i].gpus, P4D_METHOD_PLAN, &l);
			assert_int_equal(p4d_memory_of_stage(&l, P4D_METHOD_PLAN, NULL, 0, &stage, NULL), 0);
			bytes[with] = stage.allocated_bytes;
			if (i == 2) { /* the middle one of three stages has no mask */
				set_all(&r, "layers=3 pp=3");
				estimate(&r, 1, 3, P4D_METHOD_PLAN, &l);
				assert_int_equal(
				    p4d_memory_of_stage(&l, P4D_METHOD_PLAN, NULL, 1, &stage, NULL), 0);
				assert_true(stage.allocated_bytes < cases[i].bytes);
			}
		}
		/* without masks, the peak may be at another moment, and less than the masks is saved */
		const uint64_t more = bytes[1] - bytes[0];
		assert_true(more <= cases[i].bytes && more > cases[i].bytes - cases[i].bytes / 64);
	}
}

/*
 * With cp-comm=all-gather, keys and values of all ranks and their gradients exist. They count if they are
 * more than the other memory at the peak. Attention's output is stored in two forms. With a ring, the
 * forward pass has buffers for all ranks and the results of all steps.
 */
static void gathered_keys_of_megatron(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;

	(void)state;
	set_all(&r, SMALL "framework=megatron cp=4 ffn=16 vocab=16 cross-entropy=fused attention-mask=off");
	set_all(&r, "global-batch=1");
	const p4d_estimate ring = estimate(&r, 1, 4, P4D_METHOD_PLAN, &l);
	set_all(&r, "cp-comm=all-gather");
	const p4d_estimate all = estimate(&r, 1, 4, P4D_METHOD_PLAN, &l);
	/* at this moment, the feed-forward part's saved tensors are free or not yet allocated */
	const uint64_t ffn = 8 * 3 * 16 + 2 * 8 * 64;
	const uint64_t gathered = 2 * (8 * (4 * 64 + 7 * 4 * 32) - ffn);
	const uint64_t sent = 2 * (8 * (2 * 64 + 4 * 32 + 3 * (64 + 2 * 32)) - ffn);
	assert_int_equal(ring.peak.part[P4D_PART_WORKING_SET], sent);
	assert_int_equal(all.peak.part[P4D_PART_ATTENTION], gathered);
	assert_int_equal(all.peak.allocated_bytes,
			 ring.peak.allocated_bytes + 2 * (2 * 8 * 64) + gathered - sent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(megatron_by_hand),
	    cmocka_unit_test(states_of_megatron_by_hand),
	    cmocka_unit_test(fp8_of_megatron_by_hand),
	    cmocka_unit_test(hierarchy_by_hand),
	    cmocka_unit_test(evaluation_of_megatron_by_hand),
	    cmocka_unit_test(graphs_of_megatron_by_hand),
	    cmocka_unit_test(weight_grad_shapes_count_once),
	    cmocka_unit_test(mask_of_megatron_by_hand),
	    cmocka_unit_test(gathered_keys_of_megatron),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
