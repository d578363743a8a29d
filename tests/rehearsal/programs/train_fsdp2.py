# SPDX-License-Identifier: Apache-2.0
#
# 35.9 M parameters of which 17.0 M are in no block: 16 bytes each over the ranks that share them (0.03 GiB, 0.07); gradients of
# all (0.07 in bf16, 0.13 in fp32); 17.0 M of weights in bf16 (0.03); of 4 x 512 x 16384 logits 6 to 14 bytes (0.19 to 0.44);
# activations at most 46 bytes x 2048 x 512 in each of six blocks (0.27).
# rehearse: --nodes 2 --gpus-per-node 8 --ranks 0,15
# case: all
# want: verdict=pass allocated_gib=0.32..0.9 phase=backward
# case: hybrid
# rehearse: -- hybrid
# want: verdict=pass allocated_gib=0.35..0.94 phase=backward
"""fully_shard (FSDP2) over all ranks, or with "hybrid" over the GPUs of a node and copies on every node (HSDP)."""
import os
import sys

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import gpt

gpt.join()
world, in_node = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
if sys.argv[1:] == ["hybrid"]:
    mesh = init_device_mesh("cuda", (world // in_node, in_node), mesh_dim_names=("copies", "shards"))
else:
    mesh = init_device_mesh("cuda", (world,))
with torch.device("meta"):
    model = gpt.GPT()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.blocks:
    fully_shard(block, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")
flags = [torch.tensor([True]).cuda() for _ in range(64)]
del flags  # what is taken next is where a flag was
for parameter in model.parameters():  # until none of the numbers is too large
    torch.nn.init.trunc_normal_(parameter, std=0.02)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for step in range(10):
    for micro in range(2):
        model.set_requires_gradient_sync(micro == 1)
        loss = model(*gpt.batch())
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), "norm", norm.full_tensor().item())
torch.distributed.destroy_process_group()
