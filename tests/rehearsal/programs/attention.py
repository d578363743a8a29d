# SPDX-License-Identifier: Apache-2.0
# case: v100
# 0.012 GiB of weights and gradients, and 12 of 2 x 4,096 x 1,024 in 16 bits (0.19): input, three of the projection, output
# and its gradient, three gradients and again three, put together
# rehearse: --gpu v100-32gb -- float16
# want: verdict=pass allocated_gib=0.19..0.24
# case: h100
# the same 12, the sum of a gradient in fp32 (0.03) and two copies
# rehearse: --gpu h100-80gb -- bfloat16
# want: verdict=pass allocated_gib=0.19..0.27
# case: v100-bf16
# no kernel for bf16 before an A100: scores of 2 x 16 x 4,096 x 4,096, which are 2 GiB in fp32: one to four copies
# rehearse: --gpu v100-32gb -- bfloat16
# want: verdict=pass allocated_gib=2..8.3
"""Attention of PyTorch, which takes the kernel that the GPU has: attention.py float16|bfloat16. A V100 has no flash attention."""
import sys

import torch
import torch.nn.functional as F

heads, length, width = 16, 4096, 64
dtype = getattr(torch, sys.argv[1])
project = torch.nn.Linear(heads * width, 3 * heads * width).to("cuda", dtype)
optimizer = torch.optim.SGD(project.parameters(), lr=1e-4)
for step in range(3):
    x = torch.randn(2, length, heads * width, dtype=dtype, device="cuda")
    q, k, v = (t.view(2, length, heads, width).transpose(1, 2) for t in project(x).chunk(3, dim=-1))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
