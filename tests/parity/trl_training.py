# SPDX-License-Identifier: Apache-2.0
"""TRL's loss on transformers' modules, by TRL's own code, for make_transformers_memory.py.

chunked-loss=trl: chunks of 256 tokens, TRL 1.4 to 1.14 (rows are of 1.10); chunked-loss=trl-fused: tiles of 4096 tokens
and 32768 words, TRL 1.15 and later (rows are of 1.16); which of them is installed decides what can be run.
"""
import builtins
import types

import torch
from torch.overrides import TorchFunctionMode


def tokens_of(c):
    return c["micro-batch"] * (c["seq-len"] - 1)


class Selected(TorchFunctionMode):
    """x[mask], of a mask that leaves nothing out: as CUDA's nonzero() makes indices of it."""

    def __torch_function__(self, function, types_, args=(), kwargs=None):
        if function is torch.Tensor.__getitem__ and isinstance(args[1], torch.Tensor) and args[1].dtype == torch.bool:
            x, mask = args
            return x[tuple(torch.empty(mask.numel(), dtype=torch.long, device="cuda") for _ in range(mask.dim()))]
        return function(*args, **(kwargs or {}))


class Launched:
    """A kernel of Triton, which writes into tensors that are there."""

    def __getitem__(self, _):
        return lambda *_, **__: None


def chunks(c, model):
    import trl.trainer.sft_trainer as sft
    size, tokens = sft._CHUNKED_LM_HEAD_CHUNK_SIZE, tokens_of(c)
    # the count of tokens that have a label is read from the GPU
    sft.range = lambda start, stop, *step: builtins.range(
        start, -(-tokens // size) * size if isinstance(stop, torch.Tensor) else stop, *step)
    sft._patch_chunked_ce_lm_head(model, size)


def fused(model, outputs):
    import trl.kernels.chunked_logprob as kernels
    import trl.trainer.utils as utils
    kernels._use_triton = utils._use_triton = lambda _: True
    kernels._forward_kernel = kernels._backward_kernel = Launched()
    kernels._MM_OUT_DTYPE = True
    # products with a result in fp32, added to what is there
    kernels._addmm_fp32 = lambda *_: None
    utils.add_fused_lm_head(model, outputs=outputs)


def prepare(c, model):
    """Before PEFT and accelerate take the model."""
    if c.get("chunked-loss") == "trl":
        chunks(c, model)
    elif c.get("chunked-loss") == "trl-fused":
        fused(model, ("log_probs", "entropy", "is_top1"))
        forward = model.forward

        def trained(self, *args, **kwargs):  # SFTTrainer.compute_loss
            items = kwargs.pop("num_items_in_batch", None)
            result = forward(*args, **kwargs, fused_lm_head=True)
            loss = -result.log_probs
            result.loss = loss.sum() / torch.as_tensor(result.label_mask.sum() if items is None else items).clamp(min=1)
            return result

        model.forward = types.MethodType(trained, model)
