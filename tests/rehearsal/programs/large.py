# SPDX-License-Identifier: Apache-2.0
#
# needs: transformers
# case: 8b
# rehearse: -- 8b
# want: verdict=pass allocated_gib=59.8..60.1 reserved_gib=61..63.5 phase=backward cpu_s=0..60 host_gib=0..6
# case: 70b
# rehearse: --nodes 8 --gpus-per-node 8 --ranks 0 -- 70b
# want: verdict=pass allocated_gib=24.2..24.4 reserved_gib=30..35 phase=backward cpu_s=0..180
"""Models as large as jobs train: large.py 8b (one GPU) or 70b (fully_shard over all ranks), made on the meta device."""
import os
import sys

import torch
import transformers

SHAPES = {"8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32),
          "70b": dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64)}
config = transformers.LlamaConfig(vocab_size=128256, num_key_value_heads=8, max_position_embeddings=8192,
                                  rope_theta=500000.0, **SHAPES[sys.argv[1]])
with torch.device("meta"):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
if "RANK" in os.environ:
    from torch.distributed.fsdp import fully_shard
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
model.to_empty(device="cuda")
model.init_weights()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for step in range(10):
    ids = torch.randint(128256, (1, 4096), device="cuda")
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
