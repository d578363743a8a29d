# SPDX-License-Identifier: Apache-2.0
"""Layers with a state on the counted GPU: mamba-ssm's own Python, whose Triton kernels do nothing.

What its autograd functions save, and what they allocate for their kernels, is their own; of causal-conv1d's compiled
functions what they allocate is written down here (causal_conv1d/cpp_functions.py).
"""
import importlib
import importlib.util
import sys
import types

import torch


def convolved(x, weight, bias, *_):
    return torch.empty_like(x)


def convolved_backward(x, weight, bias, gradient, seq_idx, initial, final, dx, *_):
    dx = torch.empty_like(x) if dx is None else dx
    dweight = torch.zeros_like(weight, dtype=torch.float32)
    dbias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
    return dx, dweight.type_as(weight), None if bias is None else dbias.type_as(bias), None


def scanned(u, delta, a, b, c, d, z, bias, softplus):
    """selective_scan_cuda.fwd (csrc/selective_scan/selective_scan.cpp): the result, a state of every 2,048 tokens, and times its gates."""
    states = torch.empty(u.shape[0], u.shape[1], -(-u.shape[2] // 2048), 2 * a.shape[1], dtype=a.dtype, device=u.device)
    return torch.empty_like(delta), states, torch.empty_like(z)


def scanned_backward(u, delta, a, b, c, d, z, bias, gradient, *_):
    wide = [torch.zeros_like(x, dtype=torch.float32) for x in (b, c)]
    gradients = torch.empty_like(u), torch.empty_like(delta), torch.zeros_like(a), *wide, torch.zeros_like(d), torch.zeros_like(bias)
    return *(g.to(x.dtype) for g, x in zip(gradients, (u, delta, a, b, c, d, bias))), torch.empty_like(z)


class Convolution(torch.autograd.Function):
    """causal_conv1d_fn (causal_conv1d_interface.py)."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight, bias)
        return convolved(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        return convolved_backward(*ctx.saved_tensors, gradient, None, None, None, None)[:3]


def causal_conv1d(x, weight, bias=None, activation=None):
    return Convolution.apply(x, weight, bias)


def package(name, **members):
    """A package without what its __init__ would import; of mamba_ssm, with its own folder."""
    made = types.ModuleType(name)
    made.__dict__.update(members)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    made.__path__ = []
    sys.modules[name] = made
    return made


def install():
    import importlib.metadata as metadata
    import triton
    triton.runtime.jit.KernelInterface.__getitem__ = lambda kernel, grid: lambda *_, **__: None
    # that a search would find; sizes of partial sums, a few MiB, depend on it
    triton.runtime.autotuner.Autotuner.best_config = property(lambda kernel: kernel.configs[0])
    begin = triton.runtime.autotuner.Autotuner.__init__  # flash-linear-attention's keys have more than arguments
    triton.runtime.autotuner.Autotuner.__init__ = lambda self, function, names, configs, key, *rest, **more: begin(
        self, function, names, configs, [k for k in key if k in names], *rest, **more)
    found = importlib.util.find_spec("mamba_ssm")
    package("mamba_ssm", __version__="2.3.2").__path__ = list(found.submodule_search_locations)
    sys.modules["selective_scan_cuda"] = types.SimpleNamespace(fwd=scanned, bwd=scanned_backward)
    package("causal_conv1d", __version__="1.6.0", causal_conv1d_fn=causal_conv1d, causal_conv1d_update=None)
    sys.modules["causal_conv1d.cpp_functions"] = types.SimpleNamespace(
        causal_conv1d_fwd_function=convolved, causal_conv1d_bwd_function=convolved_backward, causal_conv1d_update_function=None)
    sys.modules["causal_conv1d.causal_conv1d_varlen"] = types.SimpleNamespace(causal_conv1d_varlen_states=None)
    version = metadata.version
    metadata.version = lambda name: {"mamba_ssm": "2.3.2", "mamba-ssm": "2.3.2", "causal_conv1d": "1.6.0"}.get(name) or version(name)
