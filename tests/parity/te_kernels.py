# SPDX-License-Identifier: Apache-2.0
"""TransformerEngine's compiled extension, by what each kernel allocates: results and workspaces.

TransformerEngine's Python (the pure wheel `transformer-engine`) runs on it unchanged. Shapes of results follow
transformer_engine/pytorch/csrc/extensions; workspaces the kernels' own: normalization's backward passes keep one
partial gradient per multiprocessor (common/normalization), cuDNN's attention dQ in fp32 and a row sum.
"""
import enum
import os
import sys
import types
from unittest.mock import MagicMock

os.environ["NVTE_PROJECT_BUILDING"] = "1"  # do not load libtransformer_engine.so

import torch
import te_quantizers
from te_quantizers import sizes

MULTIPROCESSORS = 148  # of B200, where published measurements were taken
FLOAT = torch.float32


def integers(name, first, members):
    return enum.IntEnum(name, {member: first + i for i, member in enumerate(members.split())})


class AnyName(type):
    """Classes and enumerations of which only the names matter."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Extension(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            made = AnyName(name, (), {"__init__": lambda *_, **__: None})
        else:
            def made(*_, **__):
                raise NotImplementedError("transformer_engine_torch." + name)
        setattr(self, name, made)
        return made


tex = Extension("transformer_engine_torch")
tex.DType = integers("DType", 0, "kByte kInt16 kInt32 kInt64 kFloat32 kFloat16 kBFloat16 kFloat8E4M3 kFloat8E5M2 "
                     "kFloat8E8M0 kFloat4E2M1")
tex.FP8FwdTensors = integers("FP8FwdTensors", 0, " ".join(f"GEMM{i}_{k}" for i in (1, 2, 3)
                                                          for k in ("INPUT", "WEIGHT", "OUTPUT")))
tex.FP8BwdTensors = integers("FP8BwdTensors", 0, " ".join(f"GRAD_{k}{i}" for i in (1, 2, 3)
                                                          for k in ("OUTPUT", "INPUT")))
tex.NVTE_Fused_Attn_Backend = integers("NVTE_Fused_Attn_Backend", -1, "NVTE_No_Backend NVTE_F16_max512_seqlen "
                                       "NVTE_F16_arbitrary_seqlen NVTE_FP8")
TORCH_TYPES = {tex.DType.kFloat32: FLOAT, tex.DType.kBFloat16: torch.bfloat16, tex.DType.kByte: torch.uint8}


def new(shape, dtype):
    return torch.empty(shape, dtype=dtype, device="cuda")


def like(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")


def constants():
    for name, value in dict(get_cudnn_version=91700, get_cublasLt_version=130200, get_num_cublas_streams=4,
                            device_supports_multicast=False, get_stream_priority_range=(0, -5),
                            get_fused_attn_backend=tex.NVTE_Fused_Attn_Backend.NVTE_F16_arbitrary_seqlen).items():
        setattr(tex, name, lambda *_, value=value, **__: value)
    for name in ("adam", "adam_fp8", "adam_param_remainder", "adam_capturable", "adam_capturable_master", "scale", "sgd"):
        setattr(tex, "multi_tensor_" + name, lambda *_, **__: None)
    tex.multi_tensor_l2norm = lambda *_, **__: (new((1,), FLOAT), new((0,), FLOAT))
    tex.multi_tensor_unscale_l2norm = tex.multi_tensor_l2norm


def products():
    def generic_gemm(a, transpose_a, b, transpose_b, out, _quantizer, dtype, bias, bias_dtype, gelu, _gelu_in, grad,
                     *_, extra_output=None, **__):
        if out is None:
            columns = sizes(a)[0] if transpose_a else sizes(a)[-1]
            rows = (sizes(b)[-1],) if transpose_b else sizes(b)[:-1]
            out = new((*rows, columns), TORCH_TYPES[dtype] if dtype is not None else a.dtype)
        bias_gradient = new((sizes(b)[-1],), TORCH_TYPES[bias_dtype]) if grad and bias is not None else None
        return out, bias_gradient, like(out) if gelu and not grad else None, extra_output

    tex.generic_gemm = generic_gemm
    tex.te_general_grouped_gemm = lambda *args: args[7]  # results and workspaces are of the caller


def norms(ledger):
    def forward(with_mean):
        def norm(x, *args):
            out, quantizer = args[2 + with_mean:4 + with_mean]
            rows = x.numel() // x.shape[-1]
            if quantizer is not None:
                out = te_quantizers.normalized(x, quantizer)
            return like(x) if out is None else out, new((rows,), FLOAT) if with_mean else None, new((rows,), FLOAT)
        return norm

    def rmsnorm_bwd(_dz, x, _rsigma, gamma, *_):
        ledger.scratch(MULTIPROCESSORS * 4 * gamma.numel())
        return like(x), like(gamma)

    def layernorm_bwd(_dz, x, _mean, _rsigma, gamma, *_):
        ledger.scratch(MULTIPROCESSORS * 8 * gamma.numel())
        return like(x), like(gamma), like(gamma)

    tex.rmsnorm_fwd, tex.layernorm_fwd = forward(False), forward(True)
    tex.rmsnorm_bwd, tex.layernorm_bwd = rmsnorm_bwd, layernorm_bwd


def attention(ledger):
    def fused_attn_fwd(longest, _longest_kv, _training, _scale, _dropout, _fill, _layout, _bias, _mask, _softmax,
                       _window, lengths, _lengths_kv, q, _k, v, *_, **__):
        sequences, heads = len(lengths) - 1, q.shape[-2]
        return [new((*q.shape[:-1], v.shape[-1]), q.dtype), new((sequences, heads, longest, 1), FLOAT),
                new((2,), torch.int64)]

    def fused_attn_bwd(longest, _longest_kv, _scale, _dropout, _fill, _layout, _bias, _mask, _softmax, _window,
                       _deterministic, lengths, _lengths_kv, q, k, v, *_, **__):
        ledger.scratch((len(lengths) - 1) * q.shape[-2] * longest * 4 * (q.shape[-1] + 1))
        return [like(q), like(k), like(v), None, None]

    tex.fused_attn_fwd, tex.fused_attn_bwd = fused_attn_fwd, fused_attn_bwd
    for softmax in ("scaled_softmax", "scaled_masked_softmax"):  # extensions/softmax.cpp: the gradient is replaced in place
        setattr(tex, softmax + "_forward", lambda x, *_: like(x))
        setattr(tex, softmax + "_backward", lambda gradient, *_: gradient)
    tex.fused_rope_forward = tex.fused_rope_backward = lambda x, *_, **__: like(x)


def install(ledger):
    """Before Megatron is imported: TransformerEngine on these kernels."""
    sys.modules["transformer_engine_torch"] = tex
    constants()
    te_quantizers.install(tex)
    products()
    norms(ledger)
    attention(ledger)
    for name in ("onnxscript", "onnxscript.values", "onnxscript.onnx_opset", "onnx", "onnx_ir"):
        sys.modules.setdefault(name, MagicMock(__spec__=None))
    import transformer_engine.common
    transformer_engine.common.load_framework_extension = lambda *_: None
    import transformer_engine.pytorch  # noqa: F401
    import transformer_engine.pytorch.distributed as distributed
    distributed._get_cuda_rng_state = distributed._set_cuda_rng_state = lambda *_, **__: None
    import transformer_engine.pytorch.triton.cross_entropy as loss

    class Launch:
        """A Triton kernel."""

        def __getitem__(self, _):
            return lambda *_, **__: None

    loss.online_softmax_kernel = loss.cross_entropy_kernel = loss.element_mul_kernel = Launch()
