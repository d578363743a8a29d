# SPDX-License-Identifier: Apache-2.0
#
# 35.9 M parameters: weights and two states = 0.4 GiB; of 4 x 512 x 16384 logits 14 bytes = 0.44; activations at most 46 bytes x
# 2048 x 512 in each of six blocks, and weights cast to bf16: 0.34.
# want: verdict=pass allocated_gib=0.84..1.18
"""A whole step as a CUDA graph, which later steps replay."""
import torch

import gpt

model = gpt.GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
ids, targets = gpt.batch()


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        loss = model(ids, targets)
    loss.backward()
    optimizer.step()
    return loss


aside = torch.cuda.Stream()
aside.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(aside):
    step()
torch.cuda.current_stream().wait_stream(aside)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for number in range(4):
    for old, new in zip((ids, targets), gpt.batch()):
        old.copy_(new)
    graph.replay()
    print("step", number, "loss", loss.item())
