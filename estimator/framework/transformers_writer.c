/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a tape of transformers' or LitGPT's modules: types and sizes of the layers' inputs. */
#include "framework/transformers.h"

/* DeepSpeed's linear function keeps its input for the weight's gradient, even if that is not needed
 * (runtime/zero/linear.py, LinearFunctionForZeroStage3). Falcon and GPT-2 have layers that do not call it. */
static bool keeps_frozen(const p4d_layout *l)
{
	return p4d_framework_shares(l, P4D_SHARES_BY_STAGE) && l->zero_stage == 3 &&
	       !l->architecture->own_linear;
}

p4d_tape_writer p4d_transformers__writer(const p4d_layout *l, p4d_tape *tape)
{
	/* whether parameters stay in fp32; DeepSpeed casts parameters of any type to its own precision */
	const bool stored =
	    l->torch.param_dtype == P4D_PARAM_FP32 && !p4d_framework_shares(l, P4D_SHARES_BY_STAGE);
	const unsigned weight = l->precision == P4D_FP32 || stored ? 4 : 2;
	/* with FSDP2, parameters are gathered in the type of mixed precision */
	const unsigned computed =
	    p4d_framework_shares(l, P4D_SHARES_UNITS) && l->precision != P4D_FP32 ? 2 : weight;

	/* with FSDP2, accelerate does not cast either */
	const bool casts = !p4d_framework_shares(l, P4D_SHARES_UNITS) || l->fsdp.flat;
	const bool autocast = l->torch.autocast && l->precision != P4D_FP32 && casts;
	/* the last operation before the layers is a norm, which is computed in fp32 */
	const bool norms = l->architecture->kind == P4D_ENCODER || l->architecture->embedding_norm;
	/* an image's patches have a class token before them */
	const uint64_t length = l->seq_len + (l->architecture->kind == P4D_VISION);

	return (p4d_tape_writer){
	    .tape = tape,
	    .code =
		l->torch.model_code == P4D_MODEL_CODE_LITGPT ? &p4d_litgpt__tapes : &p4d_transformers__tapes,
	    .layout = l,
	    .rows = l->micro_batch,
	    .length = length,
	    .tokens = l->micro_batch * length,
	    .heads = l->heads,
	    .kv_heads = l->kv_heads,
	    .weight = computed,
	    .stream = computed,
	    .between = norms && autocast ? 4 : computed,
	    .autocast = autocast,
	    .trains = l->finetune == P4D_TUNE_FULL,
	    .keeps_frozen = keeps_frozen(l),
	    .gathers = p4d_transformers__gathers_experts(l),
	    .masked = (l->architecture->always_masked || (!l->torch.packing && l->micro_batch > 1)) &&
		      l->flash_attention && l->architecture->kind != P4D_VISION,
	};
}
