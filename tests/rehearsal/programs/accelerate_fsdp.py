# SPDX-License-Identifier: Apache-2.0
#
# needs: transformers accelerate
# rehearse: --nodes 2 --gpus-per-node 8 --ranks 3
# 136.3 M parameters of which 65.5 M are in no layer: 16 bytes each over 16 ranks = 0.13 GiB; gradients of all, in bf16 or fp32,
# while they are summed without communication (0.25 or 0.51); 65.5 M of weights in bf16 (0.12); of at most 2 x 511 x 32000
# logits 14 bytes (0.33 to 0.43); activations at most 46 bytes x 1022 x (1024 + 2816) in each of six layers (1.0).
# With FSDP 2 the forward and the backward pass reach nearly the same peak; the lengths of the texts decide which is larger.
# case: 1
# rehearse: -- 1
# want: verdict=pass allocated_gib=0.83..2.2 phase=backward
# case: 2
# rehearse: -- 2
# want: verdict=pass allocated_gib=0.83..2.2 reserved_gib=1.2..1.5
"""A loop of one's own with accelerate, and its FSDP plugin: accelerate_fsdp.py 1 or 2 (release of FSDP)."""
import sys

import accelerate
import torch
import transformers

import models

plugin = accelerate.FullyShardedDataParallelPlugin(
    fsdp_version=int(sys.argv[1]), auto_wrap_policy="transformer_based_wrap",
    transformer_cls_names_to_wrap=["LlamaDecoderLayer"], state_dict_type="SHARDED_STATE_DICT")
accelerator = accelerate.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2, fsdp_plugin=plugin)
model = models.make(models.llama())
if sys.argv[1] == "1":
    model = accelerator.prepare(model)  # makes new parameters
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 2, 10)
data = torch.utils.data.DataLoader(models.Texts(), batch_size=2, shuffle=True, collate_fn=models.collator())
if sys.argv[1] == "1":
    optimizer, data, schedule = accelerator.prepare(optimizer, data, schedule)
else:
    model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
for rows in data:
    with accelerator.accumulate(model):
        loss = model(**rows).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    accelerator.print("loss", accelerator.gather(loss.detach()).mean().item())
