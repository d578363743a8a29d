# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch, which takes the kernel that the GPU has: a V100 has no flash attention."""
import torch
import torch.nn.functional as F

heads, length, width = 16, 4096, 64
project = torch.nn.Linear(heads * width, 3 * heads * width).to("cuda", torch.float16)
optimizer = torch.optim.SGD(project.parameters(), lr=1e-4)
for step in range(3):
    x = torch.randn(2, length, heads * width, dtype=torch.float16, device="cuda")
    q, k, v = (t.view(2, length, heads, width).transpose(1, 2) for t in project(x).chunk(3, dim=-1))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
