# SPDX-License-Identifier: Apache-2.0
"""A small GPT in the style of many people's own model.py. Other programs here train it."""
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    layers: int = 6
    heads: int = 8
    width: int = 512
    words: int = 16384
    length: int = 512


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(2))
        self.attention = Attention(shape)
        self.feed = nn.Sequential(nn.Linear(shape.width, 4 * shape.width), nn.GELU(),
                                  nn.Linear(4 * shape.width, shape.width))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.feed(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, shape=Shape()):
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.words, shape.width)
        self.places = nn.Embedding(shape.length, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)

    def forward(self, ids, targets):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def batch(shape=Shape(), size=4):
    """Token ids and what follows each, on this rank's GPU."""
    tokens = torch.randint(shape.words, (size, shape.length + 1))
    tokens = tokens.pin_memory().to("cuda", non_blocking=True)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def join():
    """Joins the other ranks, as torchrun describes them."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
