# SPDX-License-Identifier: Apache-2.0
"""Experts that a router chooses by scores that only a GPU computes.

Each expert gets the same number of tokens, whether the router takes the largest scores (topk, max, argmax, sort) or
draws experts at random (multinomial). A router may also compute an expert's number by itself. Such a number is unknown
and differs from that of every expert, so no expert would get a token. The verdict says so."""
import torch
from torch.multiprocessing.reductions import StorageWeakRef

aten = torch.ops.aten
arange = torch.arange  # DeepSpeed's zero.Init replaces it
CHOOSING = {aten.topk.default, aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim, aten.sort.default,
            aten.sort.stable, aten.multinomial.default}
EXPERTS = 512  # of more scores, only topk chooses experts: argmax() and multinomial() then choose words
# Operators with as many results as there are set flags.
COUNTS_FLAGS = {aten.nonzero, aten.masked_select, aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}

assumed = {}  # address of a storage -> that storage, of flags that say which unknown integers equal a number


def dimension(function, arguments, named):
    """The dimension of the scores among which an operator of CHOOSING chooses; None: all."""
    for position, argument in enumerate(function._schema.arguments):
        if argument.name == "dim":
            return arguments[position] if position < len(arguments) else named.get("dim", argument.default_value)
    return -1


def chooses(function, arguments, named):
    """Whether the operator may choose experts."""
    if function not in CHOOSING or not arguments[0].dim():
        return False
    dim = dimension(function, arguments, named)
    return function is aten.topk.default or (
        dim is not None and arguments[0].is_floating_point() and 0 < arguments[0].shape[dim] <= EXPERTS)


def run(function, arguments, named):
    """Runs an operator of CHOOSING on unknown scores. multinomial() of older releases would read whether they are valid, so
    this allocates what multinomial() allocates."""
    if function is not aten.multinomial.default:
        return function(*arguments, **named)
    scores, count = arguments[:2]
    noise = torch.empty_like(scores)  # held while the result is allocated
    result = torch.empty((*scores.shape[:-1], count), dtype=torch.int64, device=scores.device)
    del noise
    return result


def even_indices(scores, k, dim):
    """Assigns experts in turn, so that each gets at most the average number of tokens, rounded up. If all experts are
    sorted (k is their number), this is true of any number of first ones."""
    n = scores.shape[dim]
    rest = list(scores.shape)
    del rest[dim]
    first = arange(scores.numel() // n).mul_(k if k < n else 1)
    indices = (first[:, None] + arange(k)).remainder_(n)
    return indices.view(*rest, k).movedim(-1, dim).contiguous()


def note_assumed(flags):
    if isinstance(flags, torch.Tensor) and flags.numel() > 1 and flags.layout is torch.strided:
        assumed[flags.untyped_storage().data_ptr()] = StorageWeakRef(flags.untyped_storage())


def forget(address):
    assumed.pop(address, None)


def sizes_by_assumed(operator, tensors):
    """Whether such flags give the size of the operator's result."""
    if not assumed or operator not in COUNTS_FLAGS:
        return False
    flags = [t.untyped_storage() for t in tensors if t.dtype == torch.bool]
    return any(s.data_ptr() in assumed and assumed[s.data_ptr()].cdata == s._cdata for s in flags)
