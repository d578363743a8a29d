# SPDX-License-Identifier: Apache-2.0
#
# 35.9 M parameters: weights, gradients and states 16 bytes each = 0.53 GiB; of 4 x 512 x 16384 logits 2 bytes at least = 0.06,
# at most 14 = 0.44; activations of a layer at most 46 bytes x 2048 x 512, of six 0.27 GiB. What stays unused is no hole that
# the largest block, of logits in fp32, fits into, and two steps of 20 MiB.
# want: verdict=pass allocated_gib=0.59..1.24
# case: cuda
# torch: 2.4 today
# rehearse: -- PYTORCH_CUDA_ALLOC_CONF
# case: any
# torch: today
# rehearse: -- PYTORCH_ALLOC_CONF
"""Texts of other lengths in each step, with expandable segments: segments.py NAME (of the variable that has the setting)."""
import os
import sys

os.environ[sys.argv[1]] = "expandable_segments:True"

import torch  # noqa: E402: the setting has to be there before

import gpt  # noqa: E402

model = gpt.GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for step in range(10):
    for length in (512, 200, 480, 312):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(*gpt.batch(gpt.Shape(length=length)))
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    segments = torch.cuda.memory_snapshot()
    assert segments and all(s["is_expandable"] for s in segments if s["total_size"]), segments
    unused = torch.cuda.max_memory_reserved() - torch.cuda.max_memory_allocated()
    assert unused <= 4 * 512 * 16384 * 4 + (40 << 20), unused
    print("step", step, "loss", loss.item())
