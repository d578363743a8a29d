# SPDX-License-Identifier: Apache-2.0
"""Tensors that hold other tensors and no memory of their own: distributed ones, and quantized ones of torchao."""


def parts(tensor):
    """The tensors with memory of which a tensor consists: itself, or those that it holds."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    try:
        names = tensor.__tensor_flatten__()[0]
    except (RuntimeError, NotImplementedError):
        return []
    return [part for name in names for part in parts(getattr(tensor, name))]
