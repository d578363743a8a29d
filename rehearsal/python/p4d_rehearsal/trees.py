# SPDX-License-Identifier: Apache-2.0
"""Tensors in nested lists, tuples and dictionaries, as operators take and return them."""
import torch


def tensors(value):
    """All tensors. torch's own function for that is slow."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for inner in value for tensor in tensors(inner)]


def mapped(function, value):
    """VALUE with each of its tensors replaced by function(tensor)."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {name: mapped(function, inner) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(function, inner) for inner in value)
    if isinstance(value, tuple):  # of torch.return_types
        return type(value)([mapped(function, inner) for inner in value])
    return value
