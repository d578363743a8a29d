/* SPDX-License-Identifier: Apache-2.0 */
/* Models that p4d-train can compute, and checks of their layouts. */
#include "framework/p4d_check.h"

#include <inttypes.h>

#include "framework/p4d_fp8.h"
#include "plan/nf4.h"
#include "plan/offload.h"
#include "plan/parameters.h"
#include "plan/shared_sizes.h"
#include "request/architecture.h"

static const p4d_option none = P4D_OPTIONS;

/* Returns the first feature of the model that p4d-train does not support. */
static p4d_option difference(const p4d_request *r)
{
	const p4d_architecture *a = p4d_architecture_of(r);
	const bool blocks = !p4d_is_set(r, P4D_LAYER_PATTERN) && !p4d_is_set(r, P4D_LAYER_GROUPS) &&
			    !p4d_is_set(r, P4D_EXPERTS) && !p4d_is_set(r, P4D_KV_LORA_RANK) &&
			    a->kind == P4D_DECODER && !a->single_blocks && !a->parallel;
	const bool around = !a->embedding_norm && !a->head_bias && !a->head_transform && !a->position_offset;
	/* if the model's code rotates in fp32, it rotates neighbouring elements together instead of elements
	 * of the two halves */
	const bool inside = !p4d_architecture_turns_part(a) && !a->attention_sinks && !a->unrotated_full &&
			    !a->gated_attention && !a->norms_rotated && !a->rotates_in_fp32;
	/* models like OLMo 3, which nobody compared with transformers */
	const bool unknown = a->plain_windows && a->window_theta <= 0;
	const bool joins = a->fused_gate_up || a->fused_qkv;
	const bool others = !(joins && a->modules == P4D_MODULES_LLAMA) && !a->unvalidated && !unknown;
	const struct {
		bool differs;
		p4d_option option;
	} all[] = {
	    {!blocks || !around || !inside || !others, P4D_ARCHITECTURE},
	    {r->value[P4D_NORM] > P4D_LAYERNORM, P4D_NORM},
	    {r->value[P4D_NORM] == P4D_LAYERNORM && (a->unit_norms || a->place != P4D_NORMS_BEFORE),
	     P4D_NORM},
	    {r->value[P4D_ACTIVATION] > P4D_GELU, P4D_ACTIVATION},
	    {r->value[P4D_POSITIONS] > P4D_LEARNED, P4D_POSITIONS},
	    {r->value[P4D_QK_NORM] == P4D_QK_NORM_WIDE &&
		 p4d_biased((int)r->value[P4D_BIAS]) & P4D_BIASED_QKV,
	     P4D_BIAS},
	    {p4d_is_set(r, P4D_RESIDUAL_SCALE) && a->place != P4D_NORMS_BEFORE, P4D_RESIDUAL_SCALE},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i].differs)
			return all[i].option;
	return none;
}

/*
 * Checks preference learning (DPO). p4d-train has no copy of the model, so the reference's log-probabilities
 * must be computed before training.
 */
static int check_pairs(const p4d_request *r, p4d_error *err)
{
	if (!p4d_framework_trains_pairs(r) || !p4d_is_stated(r, P4D_REFERENCE))
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "reference has no effect with p4d-train, which computes the reference before training and "
		 "keeps no copy of the model");
	return p4d_fix(err, "leave out --p4d-reference");
}

static int check_precision(const p4d_request *r, p4d_error *err)
{
	if (r->value[P4D_PRECISION] != P4D_FP16)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "precision=fp16: p4d-train has bf16, fp32 and fp8");
	return p4d_fix(err, "--p4d-precision=bf16");
}

int p4d_framework__p4d_model(const p4d_request *r, p4d_error *err)
{
	if (check_pairs(r, err) < 0 || check_precision(r, err) < 0)
		return -1;
	const p4d_option other = difference(r);
	char value[64];

	if (p4d_framework__fp8_model(r, err) < 0)
		return -1;
	if (r->untrained[0])
		return p4d_fail(err, P4D_E_UNMODELLED, "%.200s: p4d-train does not compute %.150s", r->model,
				r->untrained);
	if (other == none)
		return 0;
	return p4d_fail(err, P4D_E_UNMODELLED,
			"framework p4d trains models like Llama, GPT-2 and Gemma 2 (see p4d-train(1)), which "
			"%s is not (%s=%s)",
			r->model, p4d_request_option_info(other)->name,
			p4d_request_value_text(r, other, value, sizeof(value)));
}

/*
 * Checks tp-comm-overlap, which exchanges the tokens of a micro-batch in two halves: each rank needs equally
 * many tokens of both.
 */
static int check_halves(const p4d_layout *l, p4d_error *err)
{
	const uint64_t tokens = l->micro_batch * (l->seq_len / l->cp), unit = P4D_TP_PARTS * l->tp;

	if (!l->tp_comm_overlap)
		return 0;
	if (l->precision == P4D_FP8)
		p4d_fail(err, P4D_E_VALUE, "tp-comm-overlap=on: p4d-train does not combine it with FP8");
	else if (tokens % unit)
		p4d_fail(err, P4D_E_VALUE,
			 "tp-comm-overlap=on: the %" PRIu64
			 " tokens of a rank's micro-batch cannot be split into two halves that tp=%" PRIu64
			 " divides",
			 tokens, l->tp);
	else
		return 0;
	return p4d_fix(err, "--p4d-tp-comm-overlap=off");
}

/* Refuses a shard-degree if nothing is sharded. */
static int check_degree(const p4d_layout *l, p4d_error *err)
{
	if (!l->shard_degree || l->optimizer_sharding)
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "shard-degree=%" PRIu64 " needs optimizer-sharding: without it, ranks do not shard anything",
		 l->shard_degree);
	return p4d_fix(err, "--p4d-optimizer-sharding=states");
}

/* Checks --offload activations, which only works if one backward pass of a layer follows its forward pass. */
static int check_swap(const p4d_layout *l, p4d_error *err)
{
	const struct {
		bool asked;
		const char *why, *fix;
	} refused[] = {
	    {l->recompute == P4D_RECOMPUTE_FULL, "with recompute=full, layers store only their inputs",
	     "--p4d-offload=none"},
	    {p4d_is_split(l->schedule), "this schedule uses activations a second time, for weight gradients",
	     "--p4d-schedule=1f1b --p4d-vpp=1"},
	    {l->slices > 1, "each token slice needs the keys and values of earlier slices",
	     "--p4d-token-slices=1"},
	};

	for (size_t i = 0; p4d_swaps_activations(l) && i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].asked) {
			p4d_fail(err, P4D_E_UNMODELLED, "offload=activations: %s", refused[i].why);
			return p4d_fix(err, "%s", refused[i].fix);
		}
	return 0;
}

static int check_offload(const p4d_layout *l, p4d_error *err)
{
	const bool params = l->offload & P4D_OFFLOAD_PARAMS, whole = !p4d_shards_parameters(l);

	if (params && l->local_loss) {
		p4d_fail(
		    err, P4D_E_UNMODELLED,
		    "offload=params cannot be combined with local-loss: the heads of stages stay on the GPU");
		return p4d_fix(err, "--p4d-offload=optimizer");
	}
	if (params && whole && p4d_optimizer_shards(l) > 1) {
		p4d_fail(
		    err, P4D_E_VALUE,
		    "offload=params: %" PRIu64
		    " ranks share optimizer states, so each rank's host has only a part of the parameters",
		    p4d_optimizer_shards(l));
		return p4d_fix(err, "--p4d-optimizer-sharding=parameters");
	}
	if (l->resident_layers && whole && !params) {
		p4d_fail(err, P4D_E_VALUE,
			 "resident-layers=%" PRIu64
			 ": all layers are on the GPU unless parameters are sharded or on the host",
			 l->resident_layers);
		return p4d_fix(err, "--p4d-offload=params");
	}
	return 0;
}

/* Features that p4d-train does not combine with two- or three-dimensional tensor parallelism. */
static int check_grid(const p4d_layout *l, p4d_error *err)
{
	const bool splits_features = l->tp_y > 1;
	const struct {
		bool asked;
		const char *why, *fix;
	} refused[] = {
	    {l->vocab_parallel != P4D_VOCAB_OFF, "vocab-parallel needs Y = Z = 1",
	     "--p4d-vocab-parallel=off"},
	    {l->local_loss, "local-loss needs Y = Z = 1", "--p4d-local-loss=off"},
	    {l->zero_stage > 1, "with Y or Z, p4d-train shards only optimizer states",
	     "--p4d-optimizer-sharding=states"},
	    {l->offload != 0, "offloading needs Y = Z = 1", "--p4d-offload=none"},
	    {l->slices > 1, "token-slices needs Y = Z = 1", "--p4d-token-slices=1"},
	    {l->tp_comm_overlap, "tp-comm-overlap needs Y = Z = 1", "--p4d-tp-comm-overlap=off"},
	    {l->precision == P4D_FP8, "FP8 needs Y = Z = 1", "--p4d-precision=bf16"},
	    {l->finetune != P4D_TUNE_FULL, "adapters need Y = Z = 1", "--p4d-finetune=full"},
	    {splits_features && l->norm_tensors > 1, "LayerNorm needs Y = 1", NULL},
	};

	if (l->tp_y == 1 && l->tp_z == 1)
		return 0;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		if (!refused[i].asked)
			continue;
		p4d_fail(err, P4D_E_UNMODELLED, "tp-grid=%" PRIu64 ",%" PRIu64 ",%" PRIu64 ": %s", l->tp,
			 l->tp_y, l->tp_z, refused[i].why);
		if (refused[i].fix)
			return p4d_fix(err, "%s", refused[i].fix);
		return p4d_layout_fix_grid(l, p4d_tp_ranks(l), err);
	}
	return 0;
}

/* Whether the blocks of FP8 scales on a rank are whole blocks of the unsharded tensors. */
static bool has_whole_blocks(const p4d_layout *l)
{
	for (unsigned i = 0; l->tp > 1 && i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted of = p4d_adapted_of(l, i);
		if (of.out && of.in % P4D_NF4_BLOCK)
			return false;
	}
	return true;
}

/* Whether each part of a fused matrix (such as query, key and value) begins with a new block of scales. */
static bool has_whole_parts(const p4d_layout *l)
{
	return l->hidden * l->head_dim % P4D_NF4_BLOCK == 0 && l->hidden * l->ffn % P4D_NF4_BLOCK == 0;
}

static int check_quantized(const p4d_layout *l, p4d_error *err)
{
	const bool joins = l->architecture->fused_qkv || l->architecture->fused_gate_up;
	const struct {
		bool asked;
		const char *why, *fix;
	} refused[] = {
	    {p4d_streams_parameters(l),
	     "quantized weights stay on the GPU, so --offload=params is not possible", "--p4d-offload=none"},
	    {p4d_shards_parameters(l),
	     "every data-parallel rank stores all quantized weights, so they cannot be sharded with "
	     "optimizer-sharding=parameters",
	     "--p4d-optimizer-sharding=gradients"},
	    {l->tp > 1 && joins,
	     "tp cannot split this model's fused matrices, each of which is quantized as one tensor",
	     "--p4d-tp=1"},
	    {joins && !has_whole_parts(l),
	     "the parts of this model's fused matrices are not multiples of 64 elements",
	     "--p4d-finetune=lora"},
	    {!has_whole_blocks(l),
	     "the input features of a tensor-parallel rank are not whole blocks of 64, which share a scale",
	     "--p4d-tp=1"},
	};

	for (size_t i = 0; l->finetune == P4D_TUNE_QLORA && i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].asked) {
			p4d_fail(err, P4D_E_UNMODELLED, "finetune=qlora: %s", refused[i].why);
			return p4d_fix(err, "%s", refused[i].fix);
		}
	return 0;
}

/*
 * In preference learning, the gradient of each token depends on both answers of a pair. So the losses of both
 * are computed before any gradient.
 */
static int check_whole_pairs(const p4d_layout *l, p4d_error *err)
{
	const struct {
		bool asked;
		const char *why, *fix;
	} refused[] = {
	    {l->slices > 1, "token slices need the gradients of a slice before the whole pair has a loss",
	     "--p4d-token-slices=1"},
	    {l->local_loss, "local-loss has no loss for pairs", "--p4d-local-loss=off"},
	};

	for (size_t i = 0; l->pairs && i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].asked) {
			p4d_fail(err, P4D_E_UNMODELLED, "workload=preference: %s", refused[i].why);
			return p4d_fix(err, "%s", refused[i].fix);
		}
	return 0;
}

/* Checks optimizers other than AdamW: p4d-train supports them only with some other options. */
static int check_optimizer(const p4d_layout *l, p4d_error *err)
{
	const bool bytes = l->optimizer == P4D_ADAMW_8BIT, muon = l->optimizer == P4D_MUON;
	const bool other = l->optimizer != P4D_ADAMW, grid = l->tp_y > 1 || l->tp_z > 1;
	const struct {
		bool asked;
		const char *why, *fix;
	} refused[] = {
	    {other && !bytes && !muon, "p4d-train has adamw, adamw-8bit and muon", "--p4d-optimizer=adamw"},
	    {other && l->half_moments, "optimizer-dtype=bf16 is for AdamW", "--p4d-optimizer-dtype=fp32"},
	    {other && l->offload & (P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS),
	     "offload=optimizer and offload=params update subgroups of the shard with AdamW",
	     "--p4d-offload=none"},
	    {bytes && grid, "adamw-8bit needs Y = Z = 1", "--p4d-optimizer=adamw"},
	    {muon && grid, "Muon needs Y = Z = 1, because it updates whole matrices",
	     "--p4d-optimizer=adamw"},
	    {muon && l->finetune != P4D_TUNE_FULL,
	     "Muon needs finetune=full, because it updates whole matrices of layers",
	     "--p4d-optimizer=adamw"},
	    {bytes && !p4d_byte_blocks_are_whole(l),
	     "the part of a tensor that a tensor-parallel rank has is not whole blocks of 256, which share a "
	     "scale",
	     "--p4d-optimizer=adamw"},
	};

	for (size_t i = 0; !l->evaluates && i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].asked) {
			p4d_fail(err, P4D_E_UNMODELLED, "optimizer=%s: %s", p4d_optimizer_of(l)->name,
				 refused[i].why);
			return p4d_fix(err, "%s", refused[i].fix);
		}
	return 0;
}

int p4d_framework__p4d_layout(const p4d_layout *l, p4d_error *err)
{
	if (check_optimizer(l, err) < 0)
		return -1;
	if (check_grid(l, err) < 0 || check_degree(l, err) < 0 || check_halves(l, err) < 0 ||
	    check_offload(l, err) < 0 || check_swap(l, err) < 0 || check_quantized(l, err) < 0 ||
	    check_whole_pairs(l, err) < 0)
		return -1;
	return p4d_framework__fp8_check(l, err);
}
