# SPDX-License-Identifier: Apache-2.0
#
# torch: 2.4 today
# 23.3 M parameters: weights and two states = 0.26 GiB; of 4 x 512 x 16384 logits 2 to 14 bytes (0.06 to 0.44), as Inductor
# joins kernels; activations at most 46 bytes x 2048 x 512 in each of two blocks, and weights cast to bf16: 0.14.
# want: verdict=pass allocated_gib=0.32..0.84
"""torch.compile: compiled.py [mode]. Inductor writes kernels with Triton."""
import sys

import torch

import gpt

torch.manual_seed(2**64 - 5)
seed = torch.get_rng_state()[:8].cuda()  # as torchtitan reads it
assert seed.view(torch.uint64).item() == 2**64 - 5
shape = gpt.Shape(layers=2)
model = torch.compile(gpt.GPT(shape).cuda(), mode=sys.argv[1] if sys.argv[1:] else None)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for step in range(10):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(*gpt.batch(shape))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item())
