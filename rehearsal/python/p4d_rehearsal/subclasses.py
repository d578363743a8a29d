# SPDX-License-Identifier: Apache-2.0
"""Tensors that hold other tensors and no memory of their own: distributed and sparse ones, those of torch.func, and
quantized ones of torchao."""
import torch

_functions = torch._C._functorch


def stored(tensor):
    """The tensors that hold what a tensor without a class of its own stores. A nested one does not say."""
    if tensor.layout is torch.strided:
        return [] if tensor.is_nested else [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def parts(tensor):
    """The tensors with memory of which a tensor consists: itself, or those that it holds. Another object has none."""
    if not isinstance(tensor, torch.Tensor):
        return []
    if hasattr(tensor, "__tensor_flatten__"):
        try:
            names = tensor.__tensor_flatten__()[0]
        except (RuntimeError, NotImplementedError):
            return []
        return [part for name in names for part in parts(getattr(tensor, name))]
    while _functions.is_functorch_wrapped_tensor(tensor):
        tensor = _functions.get_unwrapped(tensor)
    return stored(tensor)
