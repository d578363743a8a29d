# SPDX-License-Identifier: Apache-2.0
"""Megatron-Core without Transformer Engine, with the model and recipe that p4d's options on the command line describe: hidden=2048
layers=8 tp=2 ... make_rehearsed_memory.py runs it under `p4d rehearse`.

Some modules take the place of what p4d models of Transformer Engine, because Megatron-Core's own ones hold other memory: fused
attention (its own keeps scores), rotary positions that save angles alone (its own save their sines and cosines in each layer), a
norm that sequence parallelism may use (its own refuses), and kernels that clip and update all parameters in place (its own and
PyTorch's make copies)."""
import functools
import os
import sys

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.common.embeddings import rope_utils
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
from megatron.core.optimizer import OptimizerConfig, clip_grads, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
from megatron.core.transformer.transformer_config import TransformerConfig

given = dict(word.split("=") for word in sys.argv[1:])


def number(name, otherwise=1):
    return int(given.get(name, otherwise))


tp, pp, ep, experts = number("tp"), number("pp"), number("ep"), number("experts", 0)
length, micro_batch, micro_batches = number("seq-len"), number("micro-batch"), number("micro-batches")
words = -(-number("vocab") // (128 * tp)) * 128 * tp
sharded = given["optimizer-sharding"] == "on"

class Rotated(torch.autograd.Function):
    @staticmethod
    def forward(context, x, angles):
        context.save_for_backward(angles)
        return Rotated.turned(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))

    @staticmethod
    def backward(context, gradient):
        angles, = context.saved_tensors
        return Rotated.turned(gradient, angles.cos().to(gradient.dtype), -angles.sin().to(gradient.dtype)), None

    @staticmethod
    def turned(x, cosines, sines):
        half = x.shape[-1] // 2
        out = x * cosines
        out[..., :half].addcmul_(x[..., half:], sines[..., :half], value=-1)
        out[..., half:].addcmul_(x[..., :half], sines[..., half:])
        return out


class Attention(torch.nn.Module):
    """Queries, keys and values of (length, rows, heads, columns). Values are a part of the first product, and are copied."""

    def __init__(self, config, **_):
        super().__init__()

    def forward(self, query, key, value, attention_mask, **_):
        parts = [part.contiguous().permute(1, 2, 0, 3) for part in (query, key, value)]
        out = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
        return out.permute(2, 0, 1, 3).flatten(2)


class Norm(torch.nn.RMSNorm):
    def __init__(self, config, hidden_size, eps=1e-5):
        super().__init__(hidden_size, eps)
        self.weight.sequence_parallel = config.sequence_parallel


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
                                         expert_model_parallel_size=ep)
tensor_parallel.model_parallel_cuda_manual_seed(1234)
copies = parallel_state.get_data_parallel_world_size()
init_num_microbatches_calculator(torch.distributed.get_rank(), None, micro_batch * micro_batches * copies, micro_batch, copies)
if not hasattr(moe_utils, "te_general_gemm"):
    moe_utils.te_general_gemm = None  # 0.16 looks at it also where Transformer Engine is missing
moe = dict(num_moe_experts=experts, moe_router_topk=number("experts-per-token"), moe_router_load_balancing_type="aux_loss",
           moe_aux_loss_coeff=1e-2, moe_grouped_gemm=False, moe_ffn_hidden_size=number("expert-ffn"),
           moe_token_dispatcher_type="alltoall") if experts else {}
recompute = {}
if given["recompute"] == "full":
    recompute = dict(recompute_granularity="full", recompute_method="uniform", recompute_num_layers=1)
elif given["recompute"] == "selective":
    recompute = dict(recompute_granularity="selective", recompute_modules=["core_attn"])
config = TransformerConfig(
    num_layers=number("layers"), hidden_size=number("hidden"), num_attention_heads=number("heads"),
    num_query_groups=number("kv-heads"), ffn_hidden_size=number("ffn"), kv_channels=number("head-dim"), bf16=True,
    params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, tensor_model_parallel_size=tp,
    pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, normalization="RMSNorm", gated_linear_unit=True,
    sequence_parallel=given.get("sequence-parallel") == "on", activation_func=torch.nn.functional.silu, add_bias_linear=False,
    hidden_dropout=0.0, attention_dropout=0.0, gradient_accumulation_fusion=False, bias_dropout_fusion=False,
    bias_activation_fusion=given["swiglu"] == "fused", masked_softmax_fusion=False, perform_initialization=False,
    apply_rope_fusion=False, cross_entropy_loss_fusion=False, **moe, **recompute)
config.apply_rope_fusion = True
rope_utils.fused_apply_rotary_pos_emb = lambda x, angles, interleaved=False: Rotated.apply(x, angles)
layer = get_gpt_layer_local_spec(num_experts=experts or None, normalization="RMSNorm")
layer.submodules.self_attention.submodules.core_attention = Attention
layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
torch.optim.AdamW = functools.partial(torch.optim.AdamW, fused=True)
clip_grads.multi_tensor_scale_impl = lambda size, flag, lists, scale: torch._foreach_mul_(lists[1], scale)
model = GPTModel(config, TransformerBlockSubmodules([layer] * get_num_layers_to_build(config), Norm), vocab_size=words,
                 max_sequence_length=length, pre_process=parallel_state.is_pipeline_first_stage(),
                 post_process=parallel_state.is_pipeline_last_stage(), position_embedding_type="rope",
                 share_embeddings_and_output_weights=given["tied"] == "on")
for parameter in model.parameters():
    tensor_parallel.set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
model = Float16Module(config, model.cuda())
overlap = given.get("overlap-dp") == "on"
model = DistributedDataParallel(config, DistributedDataParallelConfig(
    grad_reduce_in_fp32=given["grad-dtype"] == "fp32", overlap_grad_reduce=overlap,
    overlap_param_gather=overlap and sharded, use_distributed_optimizer=sharded,
    bucket_size=max(40000000, 1000000 * copies) if overlap else None), model)
config.finalize_model_grads_func = finalize_model_grads
optimizer = get_megatron_optimizer(OptimizerConfig(
    optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=sharded,
    overlap_param_gather=overlap and sharded, clip_grad=1.0), [model])
config.grad_scale_func = optimizer.scale_loss
config.no_sync_func = model.no_sync


def forward_step(data, model):
    ids = next(data).cuda()
    positions = torch.arange(ids.shape[1], device="cuda").expand_as(ids)
    mask = None
    if parallel_state.is_pipeline_first_stage() or parallel_state.is_pipeline_last_stage():
        mask = torch.ones(len(ids), 1, ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1).cuda()  # as the loader brings it
    losses = model(ids, positions, mask, labels=ids)

    def loss_of(losses):
        loss = losses.float().mean()
        return loss, {"loss": loss.detach()}

    return losses, loss_of


def batches(sequences):
    while True:
        yield torch.randint(0, words, (sequences, length))


run, data = get_forward_backward_func(), batches(micro_batch)


def evaluate(sequences):
    """As training.py of Megatron-LM does."""
    model.eval()
    with torch.no_grad():
        run(forward_step_func=forward_step, data_iterator=batches(sequences), model=model, num_microbatches=micro_batches,
            seq_length=length, micro_batch_size=sequences, forward_only=True)
    model.train()


for step in range(50):
    model.zero_grad_buffer()
    optimizer.zero_grad()
    losses = run(forward_step_func=forward_step, data_iterator=data, model=model, num_microbatches=micro_batches,
                 seq_length=length, micro_batch_size=micro_batch, forward_only=False)
    done, norm, _ = optimizer.step()
    print("step", step, done, norm, flush=True)
    if step == 1:
        evaluate(number("eval-micro-batch"))
