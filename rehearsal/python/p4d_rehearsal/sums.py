# SPDX-License-Identifier: Apache-2.0
"""Sums of gradients.

If a tensor is used more than once, autograd adds the gradients of its uses. It adds in place if no other code holds
the first of them. The gradient of a selection, such as gather or index_select, is a tensor of zeros to which autograd
adds the selected gradients, in place. While a dispatch mode is on, PyTorch does both out of place, so a rehearsal
would hold one gradient more than a GPU does."""
import sys
import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef

aten = torch.ops.aten
WRAPPERS = ("_compile.py", "eval_frame.py")  # base class of dispatch modes in some releases
# References to a gradient that no other code holds: the engine's list, and the frames that pass it to the mode.
HOLDERS = 4
_local = threading.local()
count_of_storage = getattr(torch._C, "_storage_Use_Count", None)


def _holders(tensor):
    return count_of_storage(StorageWeakRef(tensor.untyped_storage()).cdata)


ALONE = _holders(torch.empty(1)) if count_of_storage else 0  # 2 in releases whose storages own their Python objects
NAMES = 2 + ALONE  # references to the tensor's Python object: the call's arguments, and the list that the mode makes of them


def _engine_calls():
    """Whether autograd itself called the operator: either no Python function did, or the one that started autograd."""
    frame = sys._getframe(2)
    while frame and (frame.f_globals.get("__package__") == "p4d_rehearsal"
                     or frame.f_code.co_filename.endswith(WRAPPERS)):
        frame = frame.f_back
    return frame is None or frame.f_code.co_name == "_engine_run_backward"


def _are_in_place(function, arguments):
    if function is not aten.add.Tensor or not ALONE or torch.is_grad_enabled() or torch._C._current_graph_task_id() < 0:
        return False
    if sys.getrefcount(arguments[0]) != NAMES or arguments[0]._use_count() != HOLDERS:
        return False
    old, new = arguments
    return (isinstance(new, torch.Tensor) and old.shape == new.shape and old.dtype == new.dtype and old.device == new.device
            and _holders(old) == ALONE and _engine_calls() and aten.is_non_overlapping_and_dense(old))


# Operators by which autograd writes the gradient of a selection, and the operators that they call without a dispatch
# mode.
SCATTERS = {aten.index_add.default: aten.index_add_.default, aten.scatter_add.default: aten.scatter_add_.default,
            aten.index_put.default: aten.index_put_.default, aten.masked_scatter.default: aten.masked_scatter_.default,
            aten.scatter.src: aten.scatter_.src}
ZEROS = {aten.new_zeros.default, aten.zeros_like.default, aten.zeros.default}


def note(function, result):
    """An operator ran. Zeros made by a formula of autograd are written by the next operator that the formula calls."""
    is_one = function in ZEROS and torch._C._current_graph_task_id() >= 0 and _engine_calls()
    _local.zeros = StorageWeakRef(result.untyped_storage()) if is_one else None


def _are_zeros(tensor):
    """Whether a formula of autograd made the tensor, with the previous operator."""
    zeros = getattr(_local, "zeros", None)
    return zeros is not None and zeros.cdata == tensor.untyped_storage()._cdata


def in_place(function, arguments):
    """The operator that would run on a GPU."""
    if function in SCATTERS and _are_zeros(arguments[0]) and _engine_calls():
        return SCATTERS[function]
    return aten.add_.Tensor if _are_in_place(function, arguments) else function
