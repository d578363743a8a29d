# SPDX-License-Identifier: Apache-2.0
# want: verdict=warn reason="the program starts 2 processes itself"
"""A program that starts processes by itself, with torch.multiprocessing, each of which trains."""
import torch

import gpt


def train(rank):
    shape = gpt.Shape(layers=1)
    model = gpt.GPT(shape).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(10):
        model(*gpt.batch(shape)).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, nprocs=2)
