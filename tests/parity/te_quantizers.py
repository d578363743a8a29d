# SPDX-License-Identifier: Apache-2.0
"""TransformerEngine's quantized tensors on kernels that only allocate (te_kernels.py).

What a quantizer allocates its own Python says (make_empty), but for one scale per tensor, where the compiled one leaves
out the transposed copy on GPUs whose products need none (pytorch/csrc/quantizer.cpp, Float8Quantizer::create_tensor).
Norms write FP8 themselves with delayed scales only; else their result is there in 16 bits beside the cast one
(pytorch/csrc/extensions/normalization.cpp).
"""
import counted_gpu
import torch

RECIPES = {"delayed": "delayed", "current": "tensorwise", "blockwise": "blockwise", "mxfp8": "mxfp8"}
BY_TENSOR = ("Float8Quantizer", "Float8CurrentScalingQuantizer")
SEEN = 21  # the seed whose configurations were in view when formulas were mended
OPTIONS = ["precision", "fp8-recipe", "fp8-param-gather", "optimizer-dtype", "gpu"]


def sizes(tensor):
    """The shape of a tensor, quantized or not."""
    return tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else tuple(tensor.size())


def storage_of(made):
    """What a quantizer hands out where nobody looks at it as a tensor (internal)."""
    from transformer_engine.pytorch.tensor.storage import (
        float8_blockwise_tensor_storage, float8_tensor_storage, mxfp8_tensor_storage)
    kind = {"Float8Tensor": float8_tensor_storage.Float8TensorStorage, "MXFP8Tensor": mxfp8_tensor_storage.MXFP8TensorStorage,
            "Float8BlockwiseQTensor": float8_blockwise_tensor_storage.Float8BlockwiseQTensorStorage}[type(made).__name__]
    return kind(**made.get_metadata())


def empty(quantizer, shape, dtype):
    from transformer_engine.pytorch.utils import is_non_tn_fp8_gemm_supported
    usage = quantizer.rowwise_usage, quantizer.columnwise_usage
    if type(quantizer).__name__ in BY_TENSOR and is_non_tn_fp8_gemm_supported():
        quantizer.set_usage(rowwise=True, columnwise=False)
    made = quantizer.make_empty(shape, dtype=dtype, device=torch.device("cuda"))
    quantizer.set_usage(rowwise=usage[0], columnwise=usage[1])
    return storage_of(made) if quantizer.internal else made


def quantize(tensor, quantizer, output=None, _noop=None):
    return empty(quantizer, tensor.contiguous().shape, tensor.dtype) if output is None else output


def normalized(x, quantizer):
    """The result of a norm, cast."""
    wide = None if type(quantizer).__name__ == "Float8Quantizer" else torch.empty(x.shape, dtype=x.dtype, device="cuda")
    made = empty(quantizer, x.shape, x.dtype)
    del wide
    return made


def fp8_transpose(data, _dtype, *, out=None):
    shape = (data.shape[-1], *data.shape[:-1])
    return torch.empty(shape, dtype=torch.uint8, device="cuda") if out is None else out


def split_quantize(tensor, splits, quantizers):
    return [empty(q, (rows, tensor.shape[-1]), tensor.dtype) for rows, q in zip(splits, quantizers)]


def install(tex):
    torch.version.cuda = torch.version.cuda or "13.0"
    tex.quantize, tex.fp8_transpose, tex.split_quantize = quantize, fp8_transpose, split_quantize
    tex.swap_first_dims = lambda tensor, out=None: torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
    for name in ("fused_amax_and_scale_update_after_reduction", "compute_amax", "multi_tensor_compute_scale_and_scale_inv",
                 "fp8_block_scaling_compute_partial_amax", "fp8_block_scaling_partial_cast", "fused_multi_row_padding",
                 "fused_multi_row_unpadding"):
        setattr(tex, name, lambda *_, **__: None)


def on_gpu(name):
    """Sets what TransformerEngine sees of a GPU."""
    from transformer_engine.pytorch import quantization, utils
    counted_gpu.Properties.major = 10 if name in ("b200", "gb200") else 9
    for function in (utils._get_device_compute_capability, utils.is_non_tn_fp8_gemm_supported, quantization.check_fp8_support,
                     quantization.check_mxfp8_support, quantization.check_fp8_block_scaling_support):
        function.cache_clear()


def pick(r, c):
    """Precision of a random configuration."""
    c["precision"] = "fp8"
    c["fp8-recipe"] = r.choice(list(RECIPES))
    c["gpu"] = "b200" if c["fp8-recipe"] == "mxfp8" else r.choice(("h100", "h100", "b200"))
    if c["fp8-recipe"] == "blockwise":
        c["gpu"] = "h100"
    c["fp8-param-gather"] = "on" if c["optimizer-sharding"] == "on" and r.random() < 0.4 else "off"
    c["optimizer-dtype"] = "bf16" if c["optimizer-sharding"] == "on" and r.random() < 0.25 else "fp32"
    return c


def gathers_beside_gradients(c):
    """Of MXFP8 Megatron gathers 16 bits, in the buffer of gradients (--reuse-grad-buf-for-mxfp8-param-ag)."""
    return c.get("fp8-recipe") == "mxfp8" and c["fp8-param-gather"] == "on"


def arguments(c):
    """Of the transformer's configuration."""
    return dict(fp8="e4m3" if c["fp8-recipe"] in ("blockwise", "mxfp8") else "hybrid", fp8_recipe=RECIPES[c["fp8-recipe"]],
                fp8_param=c["fp8-param-gather"] == "on")


def optimizer_arguments(c):
    half = c.get("optimizer-dtype") == "bf16"
    kinds = dict(exp_avg_dtype=torch.bfloat16, exp_avg_sq_dtype=torch.bfloat16) if half else {}
    fp8 = {}
    if "fp8-recipe" in c:
        fp8 = dict(fp8_recipe=RECIPES[c["fp8-recipe"]], reuse_grad_buf_for_mxfp8_param_ag=gathers_beside_gradients(c))
    if half:
        kinds["main_grads_dtype"] = torch.float32 if c["grad-dtype"] == "fp32" else torch.bfloat16
    return dict(use_precision_aware_optimizer=half, **kinds, **fp8)
