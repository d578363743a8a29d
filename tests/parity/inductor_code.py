# SPDX-License-Identifier: Apache-2.0
"""torch.compile on a GPU that only counts (fake_gpu.py): dynamo, AOTAutograd with its min-cut partitioner and Inductor run
as they are, for an H100, up to Triton. The Python that Inductor wrote then runs on fake tensors, so that each buffer it
takes is counted; its kernels do nothing."""
import contextlib
import os

import counted_gpu
import fake_gpu
import torch
import torch._dynamo.device_interface as interfaces
import torch._dynamo.trace_rules

torch._dynamo.trace_rules.get_torch_obj_rule_map()  # by the names of functions, which are replaced later
torch._dynamo.trace_rules.clear_lru_cache = lambda: None


class Properties(counted_gpu.Properties):
    warp_size, max_threads_per_multi_processor, max_threads_per_block = 32, 2048, 1024
    regs_per_multiprocessor, L2_cache_size = 65536, 50 << 20
    shared_memory_per_block_optin, shared_memory_per_multiprocessor = 232448, 233472
    gcnArchName = ""


class Guard(contextlib.AbstractContextManager):
    def __init__(self, *_):
        pass

    def __exit__(self, *_):
        pass


class Kernel:
    def run(self, *_, **__):
        pass


class Driver:
    """What Triton asks for before it compiles."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_device_interface(self):
        return torch.cuda

    def get_active_torch_device(self):
        return torch.device("cuda", 0)


def _device():
    cuda = interfaces.CudaInterface
    for place in (cuda, cuda.Worker):
        place.get_device_properties = staticmethod(lambda *_: Properties)
    cuda.get_compute_capability = staticmethod(lambda *_: 90)
    cuda.get_multi_processor_count = staticmethod(lambda *_: Properties.multi_processor_count)
    cuda.is_available = staticmethod(lambda: True)
    torch.cuda.device = torch.cuda._DeviceGuard = Guard
    import triton.runtime
    triton.runtime.driver._active = Driver()


def _tracing():
    import torch._dynamo.convert_frame
    import torch._dynamo.utils
    import torch._functorch.aot_autograd
    for module in (torch._dynamo.convert_frame, torch._dynamo.utils, torch._functorch.aot_autograd):
        if hasattr(module, "preserve_rng_state"):
            module.preserve_rng_state = contextlib.nullcontext


def _code():
    """What the code that Inductor writes calls."""
    import torch._inductor.async_compile
    import torch._inductor.config
    guards, nothing = torch._C._dynamo.guards, (lambda *_, **__: None)
    torch._inductor.config.compile_threads = 1
    torch._inductor.config.joint_graph_constant_folding = False  # it would compute
    torch._inductor.config.fx_graph_cache = torch._inductor.config.fx_graph_remote_cache = False
    torch._inductor.async_compile.AsyncCompile.triton = lambda *_, **__: Kernel()
    guards.assert_size_stride = guards.assert_size_stride_grouped = guards.assert_alignment = nothing
    guards.copy_if_misaligned = lambda tensor: tensor
    guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device="cuda")
    guards._reinterpret_tensor = lambda tensor, size, stride, offset=0: torch.as_strided(
        tensor, size, stride, tensor.storage_offset() + offset)
    torch._C._cuda_getCurrentRawStream = lambda *_: 0


def load():
    """Before a fork: what Inductor imports as it compiles."""
    import torch._inductor.codegen.triton
    import torch._inductor.compile_fx  # noqa: F401


def install():
    """After fake_gpu.install()."""
    os.environ.pop("TORCHDYNAMO_DISABLE", None)
    torch._dynamo.config.disable = False
    torch._dynamo.config.inline_torch_dispatch_torch_compile = False
    for mode in (fake_gpu.Ledger, fake_gpu.FakeTensorMode):
        mode.ignore_compile_internals = classmethod(lambda _: True)
    _device()
    _tracing()
    _code()
