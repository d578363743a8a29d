# SPDX-License-Identifier: Apache-2.0
"""Detects when a program saves, and keeps large files off the disk.

Functions of PyTorch, safetensors, Hugging Face, DeepSpeed and Lightning that save begin the phase "save". A file of
more than LARGE bytes, and any file of torch.distributed.checkpoint, has its real length, but holes in place of large
tensors. If evaluation and saving are requested, Hugging Face's Trainer evaluates and saves right after the last step
of the rehearsal, instead of at its own interval. A file of weights that existed before the rehearsal is not
overwritten, because the new content would be worthless."""
import contextlib
import functools
import json
import os
import sys
import time

BEGAN = time.time()
LARGE = 64 << 20
PIECE = 1 << 20  # larger tensors are not stored in a stream; the stand-ins do not copy them either
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
          "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3",
          "float8_e5m2": "F8_E5M2"}

# module: class (None: functions of the module), and its functions that save or gather
GATHERS = {
    "torch.distributed.checkpoint.state_dict": (
        None, ("get_state_dict", "get_model_state_dict", "get_optimizer_state_dict")),
    "torch.distributed.checkpoint.state_dict_saver": (None, ("save", "async_save", "save_state_dict")),
    "torch.distributed.fsdp.fully_sharded_data_parallel": (
        "FullyShardedDataParallel", ("state_dict", "optim_state_dict", "full_optim_state_dict")),
    "deepspeed.runtime.engine": (
        "DeepSpeedEngine", ("save_checkpoint", "save_16bit_model", "_zero3_consolidated_16bit_state_dict")),
    "accelerate.accelerator": ("Accelerator", ("save_state", "save_model", "get_state_dict")),
    "transformers.trainer": ("Trainer", ("save_model", "_save_checkpoint")),
    "transformers.modeling_utils": ("PreTrainedModel", ("save_pretrained",)),
    "peft.peft_model": ("PeftModel", ("save_pretrained",)),
    "pytorch_lightning.trainer.trainer": ("Trainer", ("save_checkpoint",)),
    "lightning.pytorch.trainer.trainer": ("Trainer", ("save_checkpoint",)),
}


def _phases():
    from p4d_rehearsal import phases
    return phases.current


def _as_save(inner, wrote=True):
    @functools.wraps(inner)
    def save(*arguments, **named):
        phases = _phases()
        if not phases:
            return inner(*arguments, **named)
        phases.save_began()
        try:
            result = inner(*arguments, **named)
            if wrote:
                phases.saved()
            return result
        finally:
            phases.save_ended()

    return save


def _after_gathers(module):
    owner, names = GATHERS[module.__name__]
    owner = getattr(module, owner, None) if owner else module
    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, _as_save(getattr(owner, name), "save" in name))
    if module.__name__ == "transformers.trainer" and owner:
        _hurry(owner)


def _hurry(trainer):
    """The Trainer evaluates and saves after the last step of the rehearsal."""
    inner = getattr(trainer, "_maybe_log_save_evaluate", None)
    if not inner:
        return

    @functools.wraps(inner)
    def log_save_evaluate(self, *arguments, **named):
        phases = _phases()
        if phases and phases.is_late():
            if "eval" in phases.wanted and self.eval_dataset is not None:
                self.control.should_evaluate = True
            if "save" in phases.wanted:
                self.control.should_save = True
        return inner(self, *arguments, **named)

    trainer._maybe_log_save_evaluate = log_save_evaluate


class _Sink:
    """A file that only keeps its length."""

    def __init__(self):
        self.bytes = 0

    def write(self, data):
        self.bytes += len(data)
        return len(data)

    def flush(self):
        pass


class _Sparse:
    """A file that stores large pieces as holes."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def write(self, data):
        size = memoryview(data).nbytes
        if size <= PIECE:
            return self.inner.write(data)
        self.inner.seek(size, os.SEEK_CUR)
        return size

    def close(self):
        if not self.inner.closed:
            self.inner.truncate(self.inner.tell())  # a hole at the end is a part of the file
        self.inner.close()


def _after_filesystem(module):
    """torch.distributed.checkpoint writes a stream of tensors."""
    inner = module.FileSystem.create_stream

    @contextlib.contextmanager
    def create_stream(self, path, mode):
        with inner(self, path, mode) as stream:
            if "w" not in mode:
                yield stream
                return
            sparse = _Sparse(stream)
            yield sparse
            sparse.close()

    module.FileSystem.create_stream = create_stream


def _is_older(path):
    """Whether the file existed before this program: it has the weights of a real run."""
    try:
        older = os.stat(path).st_mtime < BEGAN - 1
    except OSError:
        return False
    if older:
        print("p4d: %s already exists, so p4d does not write it" % path, file=sys.stderr)
    return older


def _hole(path, bytes_, start=b""):
    with open(path, "wb") as out:
        out.write(start)
        out.truncate(bytes_)


def _bytes(tree):
    import torch
    from p4d_rehearsal import subclasses
    seen = {}
    for leaf in (part for leaf in torch.utils._pytree.tree_flatten(tree)[0] for part in subclasses.parts(leaf)):
        if leaf.device.type != "meta":
            storage = leaf.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
    return sum(seen.values())


def _sparse_save(inner):
    @functools.wraps(inner)
    def save(obj, f, *arguments, **named):
        if isinstance(f, (str, os.PathLike)) and _is_older(f):
            with open(os.devnull, "wb") as nothing:
                return inner(obj, nothing, *arguments, **named)
        zipped = named.get("_use_new_zipfile_serialization", True)
        if not isinstance(f, (str, os.PathLike)) or not zipped or _bytes(obj) <= LARGE:
            return inner(obj, f, *arguments, **named)
        sink = _Sink()
        inner(obj, sink, *arguments, **named)
        _hole(f, sink.bytes)

    return save


def _sparse_save_file(inner):
    @functools.wraps(inner)
    def save_file(tensors, filename, metadata=None, **named):
        older = _is_older(filename)
        if not older and _bytes(tensors) <= LARGE:
            return inner(tensors, filename, metadata=metadata, **named)
        on_host = [t.cpu() for t in tensors.values()]  # as the real function copies them
        if older:
            return
        header, at = {"__metadata__": metadata} if metadata else {}, 0
        for name, tensor in zip(tensors, on_host):
            end = at + tensor.numel() * tensor.element_size()
            header[name] = {"dtype": DTYPES.get(str(tensor.dtype).split(".")[-1], "U8"), "shape": list(tensor.shape),
                            "data_offsets": [at, end]}
            at = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        _hole(filename, 8 + len(text) + at, len(text).to_bytes(8, "little") + text)

    return save_file


def after_torch(torch):
    torch.save = _as_save(_sparse_save(torch.save))
    torch.serialization.save = torch.save


def _after_safetensors(module):
    module.save_file = _as_save(_sparse_save_file(module.save_file))


AFTER = dict.fromkeys(GATHERS, _after_gathers)
AFTER["safetensors.torch"] = _after_safetensors
AFTER["torch.distributed.checkpoint.filesystem"] = _after_filesystem
