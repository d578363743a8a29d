# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
# needs: transformers
# rehearse: --nodes 2 --gpus-per-node 8 --ranks 0,15
# want: verdict=pass
"""A Llama of transformers under FullyShardedDataParallel, made on the meta device by all ranks but the first, as many
recipes have it; activations are checkpointed by PyTorch's wrapper, and every rank saves nothing."""
import functools
import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (CheckpointImpl, apply_activation_checkpointing,
                                                                        checkpoint_wrapper)
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel as FSDP, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

dist.init_process_group("nccl")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
config = LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=12, num_attention_heads=16,
                     num_key_value_heads=16, max_position_embeddings=2048, use_cache=False)
if rank == 0:
    model = LlamaForCausalLM(config)
else:
    with torch.device("meta"):
        model = LlamaForCausalLM(config)


def materialize(module):
    module.to_empty(device=torch.device("cuda", local), recurse=False)


model = FSDP(model, auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}),
             mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32),
             device_id=local, sync_module_states=True, param_init_fn=None if rank == 0 else materialize,
             backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=True, use_orig_params=True)
apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT),
    check_fn=lambda module: isinstance(module, LlamaDecoderLayer))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
for step in range(100):
    ids = torch.randint(0, 32000, (2, 2048), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    if rank == 0:
        print("step", step, "loss", mean.item(), flush=True)
dist.destroy_process_group()
