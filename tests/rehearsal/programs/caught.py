# SPDX-License-Identifier: Apache-2.0
#
# torch: 2.4 today
# want: verdict=incomplete reason=status
"""A program that catches that it ran out of memory, goes on, and ends for a mistake of its own."""
import torch

layer = torch.nn.Linear(1024, 1024).cuda()
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("takes less")
raise KeyError("a column that is not there")
