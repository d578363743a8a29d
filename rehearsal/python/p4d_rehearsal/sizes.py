# SPDX-License-Identifier: Apache-2.0
"""Operators whose result sizes depend on values.

The GPU's kernels would leave such a size in memory that nobody wrote. Known masks are turned into indices on the
host. For unknown masks, every element counts as set, and unknown values count as different from each other. An
unknown number is 1, or 0 if it is a floating-point number or a flag (such as overflow). A training without faults
computes finite numbers, and no unknown integer equals another: texts that a model writes do not end early."""
import math
import operator as python

import torch

aten = torch.ops.aten
LARGEST = 1 << 24  # maximum number of elements that are computed on the host to find the size of a result
FOLLOWED = 1 << 26  # maximum number of integers: the routing of 32768 tokens to 8 of 128 experts

MASKED = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index,
          aten._unsafe_index_put}
MASKS = (torch.bool, torch.uint8)
FILLING = {aten.index_put, aten.index_put_, aten._index_put_impl_}
# Operators that make as many elements as the first list among their arguments gives.
LISTED = {aten.zeros, aten.ones, aten.full, aten.rand, aten.randn, aten.randint, aten.new_zeros, aten.new_ones, aten.new_full,
          aten.repeat}
# Operators that search for set elements before a result whose size is an argument; value: position of that argument.
SIZED = {aten.masked_scatter_backward: 2}
ZEROS = {aten.zeros, aten.zeros_like, aten.new_zeros}
WHOLE = (torch.bool, torch.int16, torch.int32, torch.int64)
FINITE = {aten.isnan: False, aten.isinf: False, aten.isfinite: True, aten.isposinf: False, aten.isneginf: False}
COMPARED = {aten.lt: python.lt, aten.le: python.le, aten.gt: python.gt, aten.ge: python.ge}


# Operators whose result is decided by one value, whatever the other operand is.
ABSORBING = {aten.logical_or: True, aten.bitwise_or: True, aten.logical_and: False, aten.bitwise_and: False}


def absorbed(operator, arguments, is_known, on_host):
    """The result of "or" or "and" if a known operand decides every flag; None: it does not."""
    if operator not in ABSORBING or not all(isinstance(a, torch.Tensor) for a in arguments[:2]):
        return None
    decides = ABSORBING[operator]
    if operator is aten.bitwise_or and any(a.dtype != torch.bool for a in arguments[:2]):
        return None  # the bits of an integer
    shape = torch.broadcast_shapes(arguments[0].shape, arguments[1].shape)
    for flags in arguments[:2]:
        if flags.is_cuda and is_known(flags) and flags.shape == shape and bool((on_host(flags).bool() == decides).all()):
            return decides
    return None


def compared(operator, arguments, named):
    """The answer to a comparison with an unknown value; None: there is none."""
    if operator in FINITE:
        return FINITE[operator]
    if operator in COMPARED and isinstance(arguments[1], (int, float)):
        single = arguments[0].numel() == 1 and arguments[0].is_floating_point()  # a norm, which is read as 0
        return COMPARED[operator](number(arguments[0]), arguments[1]) if single else None
    if operator is aten.isin:
        return bool(named.get("invert", False)) if isinstance(arguments[0], torch.Tensor) else None
    if operator not in (aten.eq, aten.ne) or len(arguments) < 2:
        return None
    same = arguments[1] is arguments[0]  # x == x is true for all values except NaN
    infinite = isinstance(arguments[1], float) and math.isinf(arguments[1])
    if not same and not infinite and arguments[0].dtype not in WHOLE[1:]:
        return None
    return (operator is aten.eq) == same


def number(tensor):
    """The value that an unknown number is read as."""
    return 0 if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype in MASKS else 1


def _of_arange(arguments):
    numbers = [a for a in arguments if isinstance(a, (int, float))]
    start, end, step = ([0] + numbers if len(numbers) == 1 else numbers) + [1] * (3 - max(len(numbers), 2))
    return (end - start) / step if step else 0


def elements(function, arguments, tensors):
    """Number of elements of the result, as far as shapes and arguments give it; 0 if they do not."""
    operator = function.overloadpacket
    if operator in LISTED:
        size = next((a for a in arguments if isinstance(a, (list, tuple))), ())
        return math.prod(size) * (tensors[0].numel() if operator is aten.repeat else 1)
    if operator is aten.arange:
        return _of_arange(arguments)
    if operator is aten.randperm:
        return arguments[0]
    if tensors and torch.Tag.pointwise in function.tags:
        try:
            return math.prod(torch.broadcast_shapes(*(t.shape for t in tensors)))
        except RuntimeError:
            return 0  # lists of tensors
    return 0


def is_whole(tensors, named):
    """Whether the result consists of integers or flags, as far as arguments give it."""
    if named.get("dtype") is not None:
        return named["dtype"] in WHOLE
    return bool(tensors) and all(t.dtype in WHOLE for t in tensors)


def are_brought(source, named):
    """Whether integers are copied to the device from the host, where they are known: indices and masks may be large."""
    dtype = named.get("dtype") or source.dtype
    return not source.is_cuda and dtype in WHOLE and source.numel() <= LARGEST


def fills(operator, arguments, named):
    """Whether this is x[mask] = number: PyTorch then fills under the mask, and does not search for set elements."""
    if operator not in FILLING or len(arguments) < 3:
        return False
    masks = [i for i in arguments[1] if isinstance(i, torch.Tensor)]
    adds = arguments[3] if len(arguments) > 3 else named.get("accumulate", False)
    return (not adds and len(masks) == 1 and masks[0].dtype in MASKS and masks[0].device == arguments[0].device
            and arguments[2].numel() == 1 and not arguments[2].is_cuda)


def has_mask(arguments):
    indices = arguments[1] if len(arguments) > 1 else ()
    return any(isinstance(i, torch.Tensor) and i.dtype in MASKS for i in indices)


def _columns(mask, known, on_host, wanted):
    """The positions of a mask's set elements, one row of the result per dimension, on the mask's device."""
    if not known and mask.numel() > LARGEST:
        count = mask.numel() if wanted is None else min(mask.numel(), wanted)
        return torch.empty((mask.dim(), count), dtype=torch.int64, device=mask.device), None
    source = on_host(mask) if known else torch.ones(mask.shape, dtype=torch.bool)
    places = source.nonzero().t()
    if wanted is not None and not known:
        places = places[:, :wanted]
    columns = torch.empty(places.shape, dtype=torch.int64, device=mask.device)
    return columns, places


def indices_of(arguments, is_known, on_host, put, note):
    """The arguments with indices instead of masks; `put(tensor, values)` writes small known values."""
    values = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], torch.Tensor) else None
    wanted = values.shape[0] if values is not None and values.dim() and values.shape[0] > 1 else None
    plain = []
    for index in arguments[1]:
        if not isinstance(index, torch.Tensor) or index.dtype not in MASKS:
            plain.append(index)
            continue
        known = is_known(index)
        if not known:
            note()
        columns, places = _columns(index, known, on_host, wanted)
        if places is not None:
            put(columns, places)
        plain += columns.unbind(0)
    return (arguments[0], plain) + tuple(arguments[2:])


def substitute(operator, arguments):
    """Arguments on the host whose result has the assumed size of an unknown one; None: there are none."""
    first = arguments[0]
    if operator is aten.bincount:  # the largest value decides, if it is not below minlength
        weights = [None if w is None else torch.zeros(1, dtype=w.dtype) for w in arguments[1:2]]
        return (torch.zeros(1, dtype=torch.int64), *weights, *arguments[2:])
    if first.numel() > LARGEST:
        return None
    if operator in (aten.nonzero, aten.repeat_interleave):
        return (torch.ones(first.shape, dtype=first.dtype),) + tuple(arguments[1:])
    if operator is aten.masked_select:
        return torch.empty(first.shape, dtype=first.dtype), torch.ones(arguments[1].shape, dtype=torch.bool)
    if operator in (aten._unique2, aten.unique_dim, aten.unique_consecutive):
        return (torch.arange(first.numel()).view(first.shape),) + tuple(arguments[1:])
    return None


def coalesced(sparse, is_known, on_host, note):
    """A sparse tensor with each index once: a kernel would count the different ones."""
    indices, values = sparse._indices(), sparse._values()
    count = indices.shape[1]
    if is_known(indices):
        count = torch.unique(on_host(indices), dim=1).shape[1]
    else:
        note()
    places = torch.empty((indices.shape[0], count), dtype=indices.dtype, device=indices.device)
    return aten._sparse_coo_tensor_with_dims_and_tensors(
        sparse.sparse_dim(), sparse.dense_dim(), sparse.shape, places, values.new_empty((count, *values.shape[1:])),
        dtype=values.dtype, layout=torch.sparse_coo, device=values.device, is_coalesced=True)
