# SPDX-License-Identifier: Apache-2.0
# needs: megatron-core==0.16.1 einops
# rehearse: --gpus-per-node 8
#
# 11.3 M parameters in a layer of which 8.7 M are an expert's if there are experts, 32.8 M in each end. Weights 2 bytes,
# gradients 4, and 12 over the data-parallel ranks. Attention keeps 2 to 8 bytes of every score: 2 x 16 heads x 1024 x 1024 in a
# layer. Other activations: at most 0.07 GiB in a layer; 14 bytes of 2048 x 32000 logits = 0.85 GiB. tp: 77.8 M x 9 bytes = 0.65
# GiB, scores of 8 heads in 8 layers 0.25 to 1.0, the rest at most 1.0. pp: 38.9 M x 12 bytes = 0.43 GiB, scores of 4 layers
# 0.12 to 0.5 for one or two micro-batches, the rest at most 1.0. pp-lengths: 55.3 M x 12 bytes = 0.62, scores of 2 layers 0.12
# to 0.5 for one to four micro-batches, the rest at most 1.4. experts: 86.5 M x 7.5 bytes and 138.4 M x 12 bytes = 2.15 GiB,
# scores 0.5 to 2.0, two rows for each token 1.1, logits 0.85.
# case: tp
# rehearse: --ranks 0 -- --tp=2
# want: verdict=pass allocated_gib=0.9..2.7
# case: pp
# rehearse: --ranks first,last -- --tp=2 --pp=2
# want: verdict=pass allocated_gib=0.55..2.5
# case: pp-lengths
# rehearse: --ranks 0,2,6 -- --pp=4 --lengths=vary
# want: verdict=pass allocated_gib=0.74..4
# case: experts
# rehearse: --ranks 0 -- --ep=4 --experts=8
# want: verdict=pass allocated_gib=2.65..6.1
"""Megatron-Core without Transformer Engine, in the style of a pretrain script of one's own: parallel_state, GPTModel with
the local layer specification, its schedules for pipelines, its DistributedDataParallel and distributed optimizer."""
import os
import sys

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_config import TransformerConfig

given = dict(word[2:].split("=") for word in sys.argv[1:])
tp, pp, ep, experts = (int(given.get(name, otherwise)) for name, otherwise in (("tp", 1), ("pp", 1), ("ep", 1), ("experts", 0)))
length, micro_batch, micro_batches, words = 1024, 2, 4, 32000
vary = given.get("lengths") == "vary"

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
                                         expert_model_parallel_size=ep)
tensor_parallel.model_parallel_cuda_manual_seed(1234)
init_num_microbatches_calculator(torch.distributed.get_rank(), None,
                                 micro_batch * micro_batches * parallel_state.get_data_parallel_world_size(), micro_batch,
                                 parallel_state.get_data_parallel_world_size())
if not hasattr(moe_utils, "te_general_gemm"):
    moe_utils.te_general_gemm = None  # 0.16 looks at it also where Transformer Engine is missing
moe = dict(num_moe_experts=experts, moe_router_topk=2, moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=1e-2,
           moe_grouped_gemm=False) if experts else {}
config = TransformerConfig(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_query_groups=4, ffn_hidden_size=2816, bf16=True,
    params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
    expert_model_parallel_size=ep, normalization="RMSNorm", gated_linear_unit=True,
    activation_func=torch.nn.functional.silu, add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0,
    variable_seq_lengths=vary, moe_token_dispatcher_type="alltoall", gradient_accumulation_fusion=False,
    bias_dropout_fusion=False, **moe)
model = GPTModel(config, get_gpt_layer_local_spec(num_experts=experts or None, normalization="RMSNorm"), vocab_size=words,
                 max_sequence_length=length, pre_process=parallel_state.is_pipeline_first_stage(),
                 post_process=parallel_state.is_pipeline_last_stage(), position_embedding_type="rope").cuda().bfloat16()
model = DistributedDataParallel(config, DistributedDataParallelConfig(
    grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=True), model)
config.finalize_model_grads_func = finalize_model_grads
optimizer = get_megatron_optimizer(OptimizerConfig(lr=1e-4, bf16=True, use_distributed_optimizer=True, clip_grad=1.0), [model])
config.grad_scale_func = optimizer.scale_loss


def forward_step(data, model):
    ids = next(data).cuda()
    positions = torch.arange(ids.shape[1], device="cuda").expand_as(ids)
    mask = torch.ones(1, 1, ids.shape[1], ids.shape[1], dtype=torch.bool, device="cuda").triu(1)
    losses = model(ids, positions, mask, labels=ids)

    def loss_of(losses):
        loss = losses.float().mean()
        return loss, {"loss": loss.detach()}

    return losses, loss_of


def batches():
    step = 0
    while True:
        n = length - 128 * (step % 2) if vary else length
        yield torch.randint(0, words, (micro_batch, n))
        step += 1


run, data = get_forward_backward_func(), batches()
for step in range(10):
    model.zero_grad_buffer()
    optimizer.zero_grad()
    losses = run(forward_step_func=forward_step, data_iterator=data, model=model, num_microbatches=micro_batches,
                 seq_length=length, micro_batch_size=micro_batch, forward_only=False)
    done, norm, _ = optimizer.step()
    print("step", step, done, norm, [loss["loss"].item() for loss in losses], flush=True)
