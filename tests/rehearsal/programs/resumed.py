# SPDX-License-Identifier: Apache-2.0
#
# torch: 2.4 today
# want: verdict=pass
"""A program that saves where an earlier run did: the earlier file stays as it is, and a new one is written."""
import os

import torch

with open("latest.pt", "wb") as out:
    out.write(b"weights")
os.utime("latest.pt", (1, 1))
layer = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(2):
    layer(torch.randn(8, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    for name in ("latest.pt", "step.pt"):
        torch.save(layer.state_dict(), name)
    with open("latest.pt", "rb") as kept:
        assert kept.read() == b"weights"
    assert set(torch.load("step.pt")) == {"weight", "bias"}
