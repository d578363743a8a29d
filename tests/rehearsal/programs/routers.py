# SPDX-License-Identifier: Apache-2.0
#
# 71.6 M parameters, of which the experts have 4 x 8 x 1.57 M = 50.3 M: weights, two states and gradients = 1.07 GiB. When the
# backward pass begins, there are no gradients, but of 4 x 512 x 16384 logits 6 to 14 bytes (0.19 to 0.44) and the activations of
# four blocks: at most 0.3. Experts without tokens would have no gradients and no states: 0.45 GiB, with logits at most 0.95.
# case: argmax
# torch: 2.4 today
# rehearse: -- argmax
# want: verdict=pass allocated_gib=1.07..1.6
# case: max
# rehearse: -- max
# want: verdict=pass allocated_gib=1.07..1.6
# case: sort
# torch: 2.4 today
# rehearse: -- sort
# want: verdict=pass allocated_gib=1.07..1.6
# case: draw
# rehearse: -- draw
# want: verdict=pass allocated_gib=1.07..1.6
# case: own
# torch: 2.4 today
# rehearse: -- own
# want: verdict=warn reason="the program read 1 values"
"""Experts whose router is the program's own: routers.py argmax|max|sort|draw|own. "own" computes the expert's number."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

import gpt

way = sys.argv[1]


def choose(scores):
    """The numbers of each token's experts, and their shares."""
    if way == "argmax":
        chosen = scores.argmax(-1, keepdim=True)
    elif way == "max":
        return scores.max(-1, keepdim=True)[::-1]
    elif way == "sort":
        chosen = scores.argsort(-1, descending=True)[:, :2]
    elif way == "draw":
        chosen = torch.multinomial(scores, 2)
    else:
        chosen = (scores[:, :1] * scores.shape[1]).long().clamp(max=scores.shape[1] - 1)
    return chosen, scores.gather(1, chosen)


class Experts(nn.Module):
    def __init__(self, width, count=8):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)) for _ in range(count))

    def forward(self, x):
        rows = x.flatten(0, 1)
        chosen, shares = choose(self.router(rows).float().softmax(-1))
        out = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            tokens, places = torch.where(chosen == number)
            if len(tokens):
                out = out.index_add(0, tokens, (expert(rows[tokens]) * shares[tokens, places, None]).to(rows.dtype))
        return out.view(x.shape)


shape = gpt.Shape(layers=4)
model = gpt.GPT(shape)
for block in model.blocks:
    block.feed = Experts(shape.width)
model.cuda()
print(sum(p.numel() for p in model.parameters()), "parameters")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
scaler = torch.amp.GradScaler()
for step in range(10):
    with torch.autocast("cuda", torch.float16):
        loss = model(*gpt.batch(shape))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    assert scaler.state_dict()["_growth_tracker"] == step + 1  # known, as finite gradients count up
