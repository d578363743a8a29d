# SPDX-License-Identifier: Apache-2.0
"""Bytes that an absent rank broadcasts.

They are unknown. Zeros would be wrong, for instance as the state of a random generator, but the bytes that this rank
already holds are a valid state. So they stay unchanged. Whether the program uses them as a state or takes a size from
them becomes known when it reads them, which may be on the host."""
import functools

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from p4d_rehearsal import reads

PLAIN = (torch.Tensor, torch.nn.Parameter)

kept = {}  # address of a storage, of the device or the host -> that storage


def _address(tensor):
    return tensor.untyped_storage().data_ptr()


def note(tensor):
    kept[_address(tensor)] = StorageWeakRef(tensor.untyped_storage())


def forget(address):
    kept.pop(address, None)


def has(tensor):
    storage = kept.get(_address(tensor))
    return storage is not None and storage.cdata == tensor.untyped_storage()._cdata


def _is_on_host(tensor):
    return type(tensor) in PLAIN and not tensor.is_cuda and tensor.layout == torch.strided and not tensor.is_nested


def note_on_host(tensor):
    if _is_on_host(tensor) and tensor.numel():
        _count_reads_on_host()
        note(tensor)


def follow(operator, is_read, tensors, results):
    """An operator ran on the host. Results computed from such bytes are as unknown as they are."""
    if not kept or not any(_is_on_host(tensor) and has(tensor) for tensor in tensors):
        return
    if is_read:
        reads.note_read(operator)
    for tensor in results():
        note_on_host(tensor)


@functools.cache
def _count_reads_on_host():
    """PyTorch does not dispatch these functions for tensors on the host."""
    def counted(plain):
        @functools.wraps(plain)
        def read(tensor, *arguments, **named):
            if _is_on_host(tensor) and has(tensor):
                reads.note_read(plain)
            return plain(tensor, *arguments, **named)
        return read

    for name in ("tolist", "numpy"):
        setattr(torch.Tensor, name, counted(getattr(torch.Tensor, name)))
