# SPDX-License-Identifier: Apache-2.0
#
# rehearse: --nodes 2 --gpus-per-node 8 --ranks 0,15
# want: verdict=pass allocated_gib=0.5..0.52 reserved_gib=0.6..0.75 phase=backward
"""FullyShardedDataParallel (FSDP1): parameters sharded block by block, bf16, gradients summed without communication."""
import contextlib
import functools

import torch
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

import gpt

gpt.join()
bf16 = torch.bfloat16
model = FullyShardedDataParallel(
    gpt.GPT(), device_id=torch.cuda.current_device(), sync_module_states=True,
    sharding_strategy=ShardingStrategy.FULL_SHARD,
    mixed_precision=MixedPrecision(param_dtype=bf16, reduce_dtype=bf16, buffer_dtype=bf16),
    auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={gpt.Block}))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(10):
    for micro in range(2):
        with model.no_sync() if micro == 0 else contextlib.nullcontext():
            loss = model(*gpt.batch())
            loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
    torch.distributed.all_reduce(loss.detach())
    if torch.distributed.get_rank() == 0:
        print("step", step, "loss", loss.item())
torch.distributed.destroy_process_group()
