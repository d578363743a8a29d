# SPDX-License-Identifier: Apache-2.0
"""Operators of linear algebra, which read on the host whether they succeeded.

The stand-in of cuSOLVER writes a success. PyTorch reduces it to one flag with a kernel, which writes nothing here, so
the flag is the previous content of that memory. That content must be 0."""
import ctypes
import functools

import torch


@functools.lru_cache(maxsize=None)
def _checks_itself(function):
    name = function.name()
    return "linalg_" in name or "cholesky" in name


def prepare(function):
    """Fills with zeros the memory that PyTorch's allocator will use for small tensors, before an operator that reads
    whether it succeeded."""
    if not _checks_itself(function):
        return
    clear = ctypes.CDLL(None).cudaMemset
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"] if segment["segment_type"] == "small" else ():
            if block["state"] != "active_allocated":
                clear(ctypes.c_void_p(address), 0, ctypes.c_size_t(block["size"]))
            address += block["size"]
