# SPDX-License-Identifier: Apache-2.0
#
# case: today
# want: verdict=pass allocated_gib=0.46..0.5 reserved_gib=0.48..0.56
# case: older
# torch: 2.4
# want: verdict=pass allocated_gib=0.76..0.79
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
