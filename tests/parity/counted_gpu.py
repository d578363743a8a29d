# SPDX-License-Identifier: Apache-2.0
"""A GPU that only counts: PyTorch programs run on it without a driver, and every byte they allocate is known.

Tensors on "cuda" become meta tensors, which have shapes and storages but no content. A dispatch mode sees each
operation; a storage is counted from its first appearance until Python and autograd have dropped it, in blocks of
512 bytes as CUDACachingAllocator hands them out. Nothing is computed, so values that a program reads back are 0.
"""
import contextlib
import os
import sys
import weakref

os.environ["TORCHDYNAMO_DISABLE"] = "1"
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

import torch
import torch._dynamo  # noqa: F401  it registers functions that are replaced below
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
META = torch.device("meta")
GPU = torch.device("cuda", 0)
device_of = torch._C.TensorBase.device.__get__  # Python is told that meta tensors are on the GPU
CUBLAS_WORKSPACE = 32 << 20  # CUDAContextLight / CublasHandlePool.cpp on Hopper, from the first product on
HOLDERS = {"DTensor", "AsyncCollectiveTensor", "Float8Tensor", "Float8BlockwiseQTensor", "MXFP8Tensor"}
PRODUCTS = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.mm.out}


class Ledger(TorchDispatchMode):
    """What is allocated, by class, and the most that ever was."""

    inside = 0
    workspace = None  # of an operation and its arguments, the bytes that its kernel takes beside its results

    def __init__(self, sites=False):
        super().__init__()
        self.phase = "build"
        self.live = {}  # id of a storage -> [weak reference, bytes, class, site]
        self.total, self.events = 0, 0
        self.by_class = {}
        self.selected = 0  # elements that a selection by a mask has
        self.fused = 0  # depth of helpers that are one kernel in reality
        self.sites = sites
        self.forget_peak()

    def forget_peak(self):
        self.peak, self.peak_phase, self.peak_classes, self.peak_live = 0, "", {}, []

    def _change(self, size, kind):
        self.total += size
        self.by_class[kind] = self.by_class.get(kind, 0) + size
        if self.total > self.peak:
            self.peak, self.peak_phase = self.total, self.phase
            self.peak_classes = dict(self.by_class)
            if self.sites:
                self.peak_live = [tuple(entry[1:]) for entry in self.live.values()]

    def _site(self, what):
        if not self.sites:
            return ""
        names, frame = [], sys._getframe(3)
        while frame and len(names) < 6:
            path = frame.f_code.co_filename
            if "megatron" in path or "transformer_engine" in path or "te_kernels" in path:
                names.append(f"{os.path.basename(path)}:{frame.f_lineno}")
            frame = frame.f_back
        return f"{what} " + " < ".join(names)

    def on_gpu(self, tensor):
        return device_of(tensor) == META

    def count(self, tensor, what="", kind=None):
        """Counts the storage of a tensor, if it is on the GPU and new."""
        if not self.on_gpu(tensor) or type(tensor).__name__ in HOLDERS:
            return
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self.live:
            return
        size = -(-storage.nbytes() // 512) * 512
        kind = kind or ("activations" if self.phase == "forward" else self.phase)
        reference = weakref.ref(storage, lambda _, key=key: self._gone(key))
        self.live[key] = [reference, size, kind, f"{tuple(tensor.shape)} {tensor.dtype} {self._site(what)}"]
        self._change(size, kind)

    def _gone(self, key):
        _, size, kind, _ = self.live.pop(key)
        self._change(-size, kind)

    def resized(self, storage):
        entry = self.live.get(id(storage))
        if entry:
            size = -(-storage.nbytes() // 512) * 512
            change, entry[1] = size - entry[1], size
            self._change(change, entry[2])

    def classify(self, tensor, kind):
        entry = self.live.get(id(tensor.untyped_storage()))
        if entry and entry[2] != kind:
            self.by_class[entry[2]] -= entry[1]
            entry[2] = kind
            self._change(0, kind)
            self.by_class[kind] += entry[1]

    def scratch(self, size):
        """A workspace that a kernel takes and gives back."""
        size = -(-int(size) // 512) * 512
        self._change(size, "scratch")
        self._change(-size, "scratch")

    def hold(self, size, kind):
        self._change(size, kind)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():  # function modes would answer for the tensors that are looked at
            return self._run(operation, types, args, kwargs or {})

    def _run(self, operation, types, args, kwargs):
        if any(t.__name__ in HOLDERS for t in types):
            return NotImplemented  # they come again with the tensors that they hold
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            kwargs = {**kwargs, "device": META}
        elif device is not None and torch.device(device).type == "meta" and operation is not aten._to_copy.default:
            return operation(*args, **kwargs)  # shapes alone, as the program wanted; used, it would be counted
        if operation is aten._local_scalar_dense.default and device_of(args[0]) == META:
            return 0.0 if args[0].dtype.is_floating_point else 0
        if operation is aten._to_copy.default and device_of(args[0]) == META and kwargs.get("device"):
            if torch.device(kwargs["device"]).type == "cpu":
                return torch.zeros(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        if operation is aten.copy_.default and device_of(args[1]) == META and device_of(args[0]) != META:
            return args[0]  # nothing was computed that the host could get
        if operation.__name__.startswith("record_stream"):
            return None
        if operation is aten.masked_select.default and device_of(args[0]) == META:
            operation, args, kwargs = aten.empty.memory_format, ((self.selected,),), dict(dtype=args[0].dtype, device=META)
        if operation in PRODUCTS and "cublas" not in self.by_class and device_of(args[0]) == META:
            self.hold(CUBLAS_WORKSPACE, "cublas")
        Ledger.inside += 1  # operations written in Python see the true device
        try:
            result = operation(*args, **kwargs)
        finally:
            Ledger.inside -= 1
        if not self.fused:
            self.events += 1
            if isinstance(result, torch.Tensor):
                self.count(result, operation)
            elif isinstance(result, (tuple, list)):
                for item in result:
                    if isinstance(item, torch.Tensor):
                        self.count(item, operation)
            if self.workspace and (size := self.workspace(operation, args)):
                self.scratch(size)
        return result

    def one_kernel(self, function=None, **_):
        """Stands in for torch.compile: what a compiled helper holds inside is in registers. Where autograd runs
        through it, its inputs are what is kept, and they are recomputed from, as the min-cut partitioner does for
        elementwise code."""
        if function is None:
            return self.one_kernel

        def outputs(results):
            for item in results if isinstance(results, (tuple, list)) else (results,):
                if isinstance(item, torch.Tensor):
                    self.count(item, function.__name__)
            return results

        def quietly(*args, **kwargs):
            self.fused += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.fused -= 1

        class Compiled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *args):
                ctx.save_for_backward(*[a for a in args if isinstance(a, torch.Tensor)])
                ctx.others = [None if isinstance(a, torch.Tensor) else (a,) for a in args]
                return outputs(quietly(*args))

            @staticmethod
            def backward(ctx, *gradients):
                saved = iter(ctx.saved_tensors)
                args = [next(saved).detach().requires_grad_() if o is None else o[0] for o in ctx.others]
                with torch.enable_grad():
                    results = quietly(*args)
                wanted = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
                self.fused += 1
                found = iter(torch.autograd.grad(results, wanted, gradients))
                self.fused -= 1
                return tuple(outputs(next(found)) if o is None else None for o in ctx.others)

        def call(*args, **kwargs):
            if self.fused:
                return function(*args, **kwargs)
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            if torch.is_grad_enabled() and any(t.requires_grad for t in tensors) and not kwargs:
                return Compiled.apply(*args)
            return outputs(quietly(*args, **kwargs))

        return call


class Stream:
    """A stream or an event: order costs no memory."""

    device, device_index, device_type, stream_id, cuda_stream = torch.device("cuda", 0), 0, 1, 0, 0

    def __init__(self, *_, **__):
        pass

    def query(self):
        return True

    def elapsed_time(self, _):
        return 0.0

    def record_event(self, *_):
        return Stream()

    def record(self, *_):
        return self

    def wait_stream(self, *_):
        pass

    wait = wait_event = synchronize = wait_stream


class Finished:
    """A collective that is done."""

    def wait(self, *_):
        return True

    def is_completed(self):
        return True


class Properties:
    name, major, minor, multi_processor_count, total_memory = "counted", 9, 0, 132, 80 << 30


def _cuda():
    nothing, stream = (lambda *_, **__: None), Stream()
    for name in ("_lazy_init", "set_device", "synchronize", "manual_seed", "manual_seed_all", "set_rng_state",
                 "get_rng_state", "empty_cache", "set_stream", "reset_peak_memory_stats"):
        setattr(torch.cuda, name, nothing)
    torch.cuda.is_available = torch.cuda.is_bf16_supported = lambda *_, **__: True
    torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.device_count, torch.cuda.current_device = (lambda: 8), (lambda: 0)
    torch.cuda.get_device_capability = lambda *_: (Properties.major, Properties.minor)
    torch.cuda.get_device_properties = lambda *_: Properties
    torch.cuda.get_device_name = lambda *_: Properties.name
    torch.cuda.memory_allocated = torch.cuda.max_memory_allocated = lambda *_: 0
    torch.cuda.Stream = torch.cuda.Event = Stream
    torch.cuda.current_stream = torch.cuda.default_stream = lambda *_: stream
    torch.cuda.stream = lambda *_: contextlib.nullcontext()
    torch.cuda.device = lambda *_: contextlib.nullcontext()
    torch.cuda.nvtx.range_push = torch.cuda.nvtx.range_pop = nothing


def _tensors(ledger):
    torch.Tensor.is_cuda = property(lambda tensor: True)
    torch.Tensor.device = property(
        lambda tensor: GPU if device_of(tensor) == META and not Ledger.inside else device_of(tensor))
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor.to(META)
    torch.Tensor.record_stream = lambda *_: None
    torch.Tensor.pin_memory = lambda tensor, *_: tensor
    torch.Tensor.tolist = lambda tensor: [0] * tensor.numel()
    torch.Tensor.data_ptr = lambda t: id(t.untyped_storage()) + t.storage_offset() * t.element_size()
    torch.UntypedStorage.data_ptr = lambda storage: id(storage)
    names = {torch.float32: "Float", torch.bfloat16: "BFloat16", torch.float16: "Half", torch.int64: "Long"}
    type_of = torch.Tensor.type

    def named(tensor, *args, **kwargs):
        if args or kwargs:
            return type_of(tensor, *args, **kwargs)
        return f"torch.cuda.{names.get(tensor.dtype, 'Byte')}Tensor"

    torch.Tensor.type = named
    to = torch.Tensor.to

    def placed(value):
        gpu = isinstance(value, (str, torch.device)) and torch.device(value).type == "cuda"
        return META if gpu else value

    torch.Tensor.to = lambda tensor, *args, **kwargs: to(
        tensor, *map(placed, args), **{name: placed(value) for name, value in kwargs.items()})
    resize = torch.UntypedStorage.resize_

    def resize_(storage, size):
        result = resize(storage, size)
        ledger.resized(storage)
        return result

    torch.UntypedStorage.resize_ = resize_
    make = torch.tensor

    def tensor_of(*args, pin_memory=False, device=None, **kwargs):
        made = make(*args, **kwargs)
        return made if device is None or torch.device(device).type == "cpu" else made.to(META)

    torch.tensor = tensor_of
    wrapper = torch.Tensor._make_wrapper_subclass
    torch.Tensor._make_wrapper_subclass = lambda kind, shape, *args, device=None, **kwargs: wrapper(
        kind, shape, *args, device=META if isinstance(device, int) else placed(device), **kwargs)
    equal = torch.equal
    torch.equal = lambda a, b: False if META in (device_of(a), device_of(b)) else equal(a, b)


def _collectives():
    def done(*_, async_op=False, **__):
        return Finished() if async_op else None

    for name in ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter",
                 "reduce_scatter_tensor", "_all_gather_base", "_reduce_scatter_base", "all_to_all",
                 "all_to_all_single", "barrier", "send", "recv"):
        setattr(dist, name, done)
    dist.isend = dist.irecv = lambda *_, **__: Finished()
    dist.batch_isend_irecv = lambda operations: [Finished() for _ in operations]
    dist.P2POp = lambda *_, **__: None
    dist.all_gather_object = lambda out, mine, **__: out.__setitem__(slice(None), [mine] * len(out))

    class Coalesced(contextlib.AbstractContextManager):
        def __exit__(self, *_):
            pass

        def wait(self):
            pass

    dist._coalescing_manager = lambda *_, **__: Coalesced()


def install(sites=False):
    """Replaces torch's CUDA by the counted GPU, in this process, and returns the ledger (a context manager)."""
    ledger = Ledger(sites)
    _cuda()
    _tensors(ledger)
    _collectives()
    torch.compile = ledger.one_kernel
    return ledger


def world(rank, size):
    """A process group of `size` ranks of which only this one exists."""
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
