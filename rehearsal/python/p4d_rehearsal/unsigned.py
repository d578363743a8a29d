# SPDX-License-Identifier: Apache-2.0
"""In PyTorch 2.4 and 2.7, a dispatch mode cannot pass on a uint64 of 2**63 or more that item() reads, such as a seed.
tolist() can."""
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Passing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        return function(*arguments, **named or {})


def install():
    if not hasattr(torch, "uint64"):
        return
    largest = torch.tensor([255] * 8, dtype=torch.uint8).view(torch.uint64)
    try:
        with _Passing():
            largest.item()
    except RuntimeError:
        item = torch.Tensor.item
        torch.Tensor.item = lambda tensor: tensor.reshape(()).tolist() if tensor.dtype is torch.uint64 else item(tensor)
