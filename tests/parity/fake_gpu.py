# SPDX-License-Identifier: Apache-2.0
"""The counted GPU (counted_gpu.py) for programs that need true "cuda" tensors: FSDP2, DTensor, DeepSpeed.

Tensors are PyTorch's fake ones: they have a device, but no content. A CUDA build of PyTorch asks the driver about its
context when autograd runs on such tensors; where there is no driver, that one question is answered with no.
"""
import contextlib
import ctypes
import os

import counted_gpu
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

aten = torch.ops.aten
RANDOM = {aten.uniform_.default, aten.normal_.default, aten.bernoulli_.float, aten.random_.default}
ENTRIES, HAS_PRIMARY_CONTEXT = 72, 6  # of the table of virtual functions of at::CUDAHooksInterface, PyTorch 2.15


def _answer_no():
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    hooks_of = library._ZN2at6detail12getCUDAHooksEv
    hooks_of.restype = ctypes.c_void_p
    hooks = ctypes.cast(hooks_of(), ctypes.POINTER(ctypes.c_void_p))
    true_table = ctypes.cast(hooks[0] - 2 * ctypes.sizeof(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p))
    table = (ctypes.c_void_p * ENTRIES)(*true_table[:ENTRIES])
    no = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_byte)(lambda *_: False)
    table[HAS_PRIMARY_CONTEXT] = ctypes.cast(no, ctypes.c_void_p).value
    hooks[0] = ctypes.addressof(table) + 2 * ctypes.sizeof(ctypes.c_void_p)
    _answer_no.kept = table, no


class Ledger(counted_gpu.Ledger):
    """Counts fake tensors on cuda. Storages keep their class when FSDP frees and refills them."""

    quiet = 0  # depth of what DTensor asks for shapes of whole tensors, which nobody allocates

    def on_gpu(self, tensor):
        return tensor.device.type == "cuda"

    def _site(self, what):
        return f"{what} {self.phase}" if self.sites else ""

    def reads_back(self, operation, args):
        return operation is aten._local_scalar_dense.default and self.on_gpu(args[0])

    def scratch_of(self, operation, args):
        """What a kernel takes from the allocator while it runs."""
        if operation is aten._scaled_dot_product_flash_attention_backward.default:
            gradient, query, key = args[0], args[1], args[2]
            batch, heads, length, size = query.shape
            rows, columns = -(-length // 128) * 128, -(-size // 32) * 32
            sums = 4 * batch * heads * rows * (columns + 1)
            grouped = key.shape[1] != heads
            return sums + (2 * batch * heads * key.shape[2] * size * gradient.element_size() if grouped else 0)
        if operation is aten.embedding_dense_backward.default:
            return 4 * 8 * args[1].numel()  # indices are sorted
        return 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if any(t.__name__ in ("DTensor", "AsyncCollectiveTensor") for t in types):
            return NotImplemented
        if operation.__name__.startswith("record_"):
            return None
        if operation in RANDOM or operation is torch.ops._c10d_functional.wait_tensor.default:
            return args[0]  # the kernel waits, and gives what it was given
        if self.reads_back(operation, args):
            return 0.0 if args[0].dtype.is_floating_point else 0
        if self.quiet:
            return operation(*args, **(kwargs or {}))
        if operation in counted_gpu.PRODUCTS and "cublas" not in self.by_class and self.on_gpu(args[0]):
            self.hold(counted_gpu.CUBLAS_WORKSPACE, "cublas")
        taken = self.scratch_of(operation, args)
        self._change(taken, "scratch")
        result = operation(*args, **(kwargs or {}))
        self.events += 1
        self._count_all(result, operation)
        self._change(-taken, "scratch")
        return result

    def _count_all(self, result, operation):
        if isinstance(result, torch.Tensor):
            self.count(result, operation)
        elif isinstance(result, (tuple, list)):
            for item in result:
                self._count_all(item, operation)


def _attention():
    """The flash kernel, which a driver would have been asked for."""

    def fused(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        size = query.shape[-1]
        scale = size ** -0.5 if scale is None else scale
        if size % 8:
            query, key, value = (F.pad(x, (0, 8 - size % 8)) for x in (query, key, value))
        if attn_mask is None and query.dtype != torch.float32 and size <= 256 and value.shape[-1] == size:
            kernel = aten._scaled_dot_product_flash_attention
            return kernel(query, key, value, dropout_p, is_causal, scale=scale)[0][..., :size]
        if enable_gqa:
            key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        if attn_mask is not None:
            attn_mask = attn_mask.to(query.dtype).expand(*query.shape[:3], key.shape[2])
        kernel = aten._scaled_dot_product_efficient_attention
        return kernel(query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale)[0][..., :value.shape[-1]]

    F.scaled_dot_product_attention = fused


def _apply(self, function, recurse=True):
    """nn.Module._apply, whose swap of tensors fake ones do not survive."""
    for child in self.children():
        child._apply(function)
    for name, old in self._parameters.items():
        if old is None:
            continue
        new = function(old.detach())
        if (new.dtype, new.device) != (old.dtype, old.device):
            self._parameters[name] = torch.nn.Parameter(new, old.requires_grad)
            for key, value in old.__dict__.items():
                self._parameters[name].__dict__.setdefault(key, value)
    for name, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[name] = function(buffer)
    return self


def _shapes_are_not_memory(ledger):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    def quietly(function, real):
        def call(*args, **kwargs):
            ledger.quiet += 1
            try:
                with unset_fake_temporarily() if real else contextlib.nullcontext():
                    return function(*args, **kwargs)
            finally:
                ledger.quiet -= 1
        return call

    for name in ("__init__", "_concatenate", "_flatten", "__getitem__"):
        setattr(DeviceMesh, name, quietly(getattr(DeviceMesh, name), True))
    for name in ("_propagate_tensor_meta_non_cached", "propagate_op_sharding_non_cached"):
        setattr(ShardingPropagator, name, quietly(getattr(ShardingPropagator, name), False))


def _fsdp(ledger):
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
    outputs, after = FSDPParam.init_all_gather_outputs, FSDPParamGroup.post_backward

    def init_all_gather_outputs(self, *args, **kwargs):
        outputs(self, *args, **kwargs)
        for tensor in self.all_gather_outputs:
            ledger.classify(tensor, "gathered")

    def post_backward(self, *args, **kwargs):
        after(self, *args, **kwargs)
        for parameter in self.fsdp_params:
            if parameter.sharded_param.grad is not None:
                ledger.classify_local(parameter.sharded_param.grad, "gradients")

    FSDPParam.init_all_gather_outputs = init_all_gather_outputs
    FSDPParamGroup.post_backward = post_backward


def install(sites=False):
    """Replaces torch's CUDA in this process. Returns the ledger and the mode of fake tensors (context managers)."""
    FakeTensorMode.avoid_device_init = True
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    _answer_no()
    ledger = Ledger(sites)
    ledger.classify_local = lambda t, kind: ledger.classify(getattr(t, "_local_tensor", t), kind)
    counted_gpu._cuda()
    torch.cuda.get_rng_state = torch.cuda.set_rng_state = lambda *_, **__: None
    torch.nn.Module._apply = _apply
    resize = torch.UntypedStorage.resize_

    def resize_(storage, size):
        result = resize(storage, size)
        ledger.resized(storage)
        return result

    torch.UntypedStorage.resize_ = resize_
    _attention()
    _shapes_are_not_memory(ledger)
    _fsdp(ledger)
    return ledger, fake
