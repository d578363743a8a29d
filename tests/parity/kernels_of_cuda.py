# SPDX-License-Identifier: Apache-2.0
"""What PyTorch and bitsandbytes do on CUDA and would do otherwise on the counted GPU (counted_gpu.py), whose tensors
are meta tensors: which attention kernel is taken and its workspace, dropout's mask, autocast, 4-bit layers."""
import sys
import types

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

aten = torch.ops.aten
LEDGER = None
torch.autograd.has_torch_function = lambda _: False  # Autocast is on in backward passes, too: they recompute


# ---- autocast ----

LOWER = {F.linear, torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.__rmatmul__, torch.bmm,
         torch.baddbmm, torch.addmm, torch.mm, torch.addbmm, torch.Tensor.bmm, torch.Tensor.baddbmm, torch.conv1d,
         torch.conv2d, torch.einsum, torch.Tensor.addmm, torch.Tensor.mm}
FP32 = {F.layer_norm, F.softmax, torch.softmax, torch.Tensor.softmax, F.log_softmax, torch.log_softmax, torch.pow,
        torch.Tensor.pow, torch.Tensor.__pow__, torch.rsqrt, torch.Tensor.rsqrt, torch.exp, torch.log, torch.reciprocal,
        F.cross_entropy, F.nll_loss, F.mse_loss, torch.cumsum, torch.Tensor.cumsum, torch.prod, torch.norm, F.softplus, torch.expm1,
        F.group_norm}
WITH_TYPE = {F.softmax, torch.softmax, torch.Tensor.softmax, F.log_softmax, torch.log_softmax, torch.cumsum,
             torch.Tensor.cumsum, torch.prod}  # their dtype= wins
INTO_FP32 = {torch.sum, torch.Tensor.sum}  # that is only told what to give (fp32_set_opt_dtype)
CACHE = {}


def lowered(value):
    """In bf16; a weight's copy is kept until autocast ends (autocast_mode.cpp, cached_cast)."""
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or not value.is_cuda:
        return value
    if value.requires_grad and value.is_leaf:
        if id(value) not in CACHE:
            CACHE[id(value)] = (value, value.to(torch.bfloat16))
        return CACHE[id(value)][1]
    return value.to(torch.bfloat16)


def raised(value):
    half = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if half else value


class Autocast(TorchFunctionMode):
    """torch.autocast casts CUDA tensors only."""

    def __torch_function__(self, function, types_, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.is_autocast_enabled("cuda"):
            change = None
            if function in INTO_FP32 and args[0].dtype in (torch.bfloat16, torch.float16):
                kwargs.setdefault("dtype", torch.float32)
            if function in LOWER:
                change = lowered
            elif function in FP32 and not (function in WITH_TYPE and kwargs.get("dtype") is not None):
                change = raised
            if change:
                args = tuple([change(x) for x in a] if isinstance(a, (list, tuple)) else change(a) for a in args)
                kwargs = {k: change(v) for k, v in kwargs.items()}
        return function(*args, **kwargs)


# ---- attention ----

def flash(q, k, v, dropout, causal, scale):
    return aten._scaled_dot_product_flash_attention(q, k, v, dropout, causal, scale=scale)[0]


def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """The choice of sdp_utils.cpp on Hopper: flash attention if it can (no mask, one width for all), else the
    memory-efficient kernel."""
    if torch.is_autocast_enabled("cuda"):
        q, k, v, attn_mask = lowered(q), lowered(k), lowered(v), lowered(attn_mask)
    width = q.shape[-1]
    scale = width ** -0.5 if scale is None else scale
    short = q.dtype in (torch.bfloat16, torch.float16)
    if attn_mask is None and short and width <= 256 and v.shape[-1] == width:
        if width % 8:
            q, k, v = (F.pad(x, (0, 8 - width % 8)) for x in (q, k, v))
        return flash(q, k, v, dropout_p, is_causal, scale)[..., :width]
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:  # convert_boolean_attn_mask
            attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill_(attn_mask.logical_not(), -1e9)
        if attn_mask.shape[-1] % 16:  # pad_bias
            attn_mask = F.pad(attn_mask, (0, 16 - attn_mask.shape[-1] % 16))[..., :k.shape[2]]
        attn_mask = attn_mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, True, dropout_p, is_causal, scale=scale)[0]


def workspace(operation, args):
    """What kernels take from the allocator inside: flash_api.cpp's mha_bwd, Embedding.cu's sort, SoftMax.cu's product of the
    gradient and the result."""
    if operation is aten._scaled_dot_product_flash_attention_backward.default:
        q, k = args[1], args[2]
        rows, heads, length, width = q.shape
        length, wide = -(-length // 128) * 128, -(-width // 32) * 32
        repeated = 2 * rows * heads * k.shape[2] * width * q.element_size() if k.shape[1] != heads else 0
        return 4 * rows * heads * length * (wide + 1) + repeated
    if operation is aten.embedding_dense_backward.default:
        return args[1].numel() * 8 * 4
    if operation is aten._softmax_backward_data.default:
        return args[1].numel() * args[1].element_size()
    return 0


# ---- bitsandbytes ----

def quantize(model, kept=("lm_head", "embed_out")):
    """NF4 with double quantization, as load_in_4bit leaves it; the state of Params4bit.cuda without its kernels."""
    import bitsandbytes as bnb
    from bitsandbytes.functional import QuantState

    def state(shape):
        n = shape[0] * shape[1]
        blocks = -(-n // 64)
        code = torch.empty(16, device="cuda")
        of_scales = QuantState(absmax=torch.empty(-(-blocks // 256), device="cuda"), code=torch.empty(256, device="cuda"),
                               blocksize=256, dtype=torch.float32)
        return QuantState(absmax=torch.empty(blocks, dtype=torch.uint8, device="cuda"), shape=torch.Size(shape), code=code,
                          blocksize=64, quant_type="nf4", dtype=torch.bfloat16, offset=torch.empty((), device="cuda"),
                          state2=of_scales)

    class Linear(bnb.nn.Linear4bit):
        def __init__(self, linear):
            torch.nn.Module.__init__(self)
            self.out_features, self.in_features = linear.weight.shape
            self.bias, self.compute_dtype, self.compute_type_is_set = linear.bias, torch.bfloat16, True
            self.quant_state, self.quant_storage = state(linear.weight.shape), torch.uint8
            self.weight = torch.nn.Parameter(
                torch.empty((linear.weight.numel() + 1) // 2, 1, dtype=torch.uint8, device="cuda"), requires_grad=False)
            for name, value in dict(quant_state=self.quant_state, compress_statistics=True, quant_type="nf4",
                                    bnb_quantized=True).items():
                setattr(self.weight, name, value)

        def forward(self, x):
            bias = None if self.bias is None else self.bias.to(self.compute_dtype)
            return bnb.matmul_4bit(x.to(self.compute_dtype), self.weight.t(), bias=bias,
                                   quant_state=self.quant_state).to(x.dtype)

    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear and name not in kept:
                setattr(parent, name, Linear(child))
    model.is_loaded_in_4bit = True  # PEFT asks for it


def _bitsandbytes():
    import bitsandbytes.functional as functional
    functional.create_dynamic_map = lambda *_, **__: torch.zeros(256)
    functional.optimizer_update_8bit_blockwise = functional.optimizer_update_32bit = lambda *_, **__: None
    functional.is_on_gpu = lambda *_: True


def install(ledger):
    global LEDGER
    LEDGER = ledger
    ledger.workspace = workspace
    F.scaled_dot_product_attention = attention

    def dropout(x, p=0.5, training=True, inplace=False):
        return torch.native_dropout(x, p, True)[0] if training and p > 0 else x

    F.dropout = torch.dropout = dropout
    torch.optim.Optimizer._accelerator_graph_capture_health_check = lambda _: None
    torch._fused_adamw_ = torch._fused_adam_ = lambda *_, **__: None  # in place
    clear = torch.clear_autocast_cache

    def forget():
        CACHE.clear()
        clear()

    torch.clear_autocast_cache = forget
    import transformers  # noqa: F401
    try:
        import transformers.masking_utils as masks
    except ImportError:  # before 4.53
        masks = types.SimpleNamespace()
    import transformers.models.auto.modeling_auto  # noqa: F401
    # both look at values: nothing is padded unless a mask is given, and no row holds several sequences
    def ignored(mask, query, keys, query_offset=0, key_offset=0, window=None):
        return mask is None and (window is None or keys < window)

    masks._ignore_causal_mask_sdpa = ignored
    masks.find_packed_sequence_indices = lambda positions: None
    import accelerate.utils  # noqa: F401
    import peft  # noqa: F401
    _bitsandbytes()
