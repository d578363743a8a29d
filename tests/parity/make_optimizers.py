#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""20 steps of a tiny Llama with bitsandbytes' AdamW8bit and with PyTorch's Muon, for
tests/runtime/trainer/test_trainer_optimizers.c. On the CPU, in float32.

    make_optimizers.py > tests/data/optimizers_oracle.txt        (transformers 5.23, bitsandbytes 0.50, torch 2.15)

Weights and text are those of make_qlora.py with other sizes; no tensor has whole blocks of 256 numbers. A run has a line for
each step: loss and norm of the gradient; then for each tensor its norm and sum; and for one of them its moments in 8 bits.

On the CPU, bitsandbytes quantizes some numbers to a code that is not the nearest. So its quantizer is replaced by one that
takes the nearest code, of the same tables and blocks; `others` says how many codes of all steps its own would take instead, of how
many. Where a second moment has the code of 0, an update is as large as the first moment over the gradient, of whose rounding it
then consists if that is near 0. So epsilon is larger than usual here: both programs would be equally far from exact numbers.

PyTorch's Muon orthogonalizes in bfloat16. Here its own code runs in float32: `torch.bfloat16` means float32 in its module.
"""
import bitsandbytes
import torch
import transformers
from bitsandbytes.backends.cpu import ops

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 120, 100, 4, 2, 30, 47
BATCH, LENGTH, STEPS, DECAY = 2, 24, 20, 0.1
RATE, EPSILON = 1e-4, 1e-3
MUON_RATE, MUON_EPSILON = 1e-3, 1e-8
TARGETS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
           "mlp.down_proj"]
SHOWN = "model.layers.0.self_attn.k_proj.weight"
BLOCK = 256


def mixed(tensor, i):
    x = (tensor * 0x9E3779B9 + i * 0x85EBCA6B + 1) & 0xFFFFFFFF
    for multiplier in (0x7FEB352D, 0x846CA68B):
        x ^= x >> 16
        x = x * multiplier & 0xFFFFFFFF
    return x ^ x >> 16


def tensor(number, rows, columns=0):
    values = [((mixed(number, i) >> 16) - 32768) / 65536 for i in range(rows * max(columns, 1))]
    values = torch.tensor([v if columns else 1 + v / 4 for v in values], dtype=torch.float32)
    return values.reshape(rows, columns) if columns else values


def matrix(number, rows, columns):
    return tensor(number, rows, columns) * (1 + torch.arange(rows) % 5)[:, None] / 16


def model_weights():
    """In the order of the tensors' numbers, as transformers names them; some are several rows of one."""
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    yield {"model.embed_tokens": tensor(0, VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        at, first = f"model.layers.{layer}.", 1 + 6 * layer
        yield {at + "input_layernorm": tensor(first, HIDDEN)}
        yield dict(zip([at + name for name in TARGETS[:3]], matrix(first + 1, q + 2 * kv, HIDDEN).split([q, kv, kv])))
        yield {at + TARGETS[3]: matrix(first + 2, HIDDEN, q)}
        yield {at + "post_attention_layernorm": tensor(first + 3, HIDDEN)}
        yield dict(zip([at + name for name in TARGETS[4:6]], matrix(first + 4, 2 * FFN, HIDDEN).split(FFN)))
        yield {at + TARGETS[6]: matrix(first + 5, HIDDEN, FFN)}
    yield {"model.norm": tensor(1 + 6 * LAYERS, HIDDEN)}
    yield {"lm_head": tensor(2 + 6 * LAYERS, VOCAB, HIDDEN)}


def new_model():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=LENGTH, rms_norm_eps=1e-5,
        tie_word_embeddings=False, attn_implementation="eager")).float()
    state = {name + ".weight": value for part in model_weights() for name, value in part.items()}
    model.load_state_dict(state, strict=True)
    return model, list(state)


def blocks_of(x):
    return torch.nn.functional.pad(x.reshape(-1), (0, -x.numel() % BLOCK)).reshape(-1, BLOCK)


def nearest(x, code):
    """The code and scale of each block's numbers."""
    blocks = blocks_of(x)
    scales = blocks.abs().amax(1)
    scaled = blocks * torch.where(scales > 0, 1 / scales, 0)[:, None]
    above = torch.searchsorted(code, scaled.contiguous()).clamp(1, len(code) - 1)
    nearer = code[above] - scaled < scaled - code[above - 1]
    return (above - 1 + nearer.int()).reshape(-1)[:x.numel()].to(torch.uint8), scales


others = [0, 0]


def quantize(x, code, scales_out, codes_out, block):
    assert block == BLOCK
    codes, scales = nearest(x, code)
    own, _ = torch.ops.bitsandbytes.quantize_blockwise(x, code, BLOCK)
    others[0] += int((own.reshape(-1) != codes).sum())
    others[1] += codes.numel()
    codes_out.copy_(codes.reshape(codes_out.shape))
    scales_out.copy_(scales)


def groups_of(model):
    matrices = [p for p in model.parameters() if p.ndim > 1]
    return [{"params": matrices, "weight_decay": DECAY},
            {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0}]


def train(name, rate, epsilon, model, names, optimizers):
    tokens = torch.tensor([[mixed(1000 + b, i) % VOCAB for i in range(LENGTH)] for b in range(BATCH)])
    labels = torch.tensor([[int(t[i + 1]) if i + 1 < LENGTH and i % 7 != 3 else -100 for i in range(LENGTH)] for t in tokens])
    weights = dict(model.named_parameters())
    print("run", name, rate, epsilon)
    for step in range(1, STEPS + 1):
        for optimizer in optimizers:
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = rate * step / STEPS
        loss = torch.nn.functional.cross_entropy(model(input_ids=tokens).logits.reshape(-1, VOCAB), labels.reshape(-1))
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        for optimizer in optimizers:
            optimizer.step()
        print(f"step {loss.item():.9e} {norm.item():.9e}")
    for name in names:
        values = weights[name].detach().double()
        print(f"tensor {name} {values.norm().item():.9e} {values.sum().item():.9e}")
    return weights


def show_bytes(state):
    for moment in "12":
        codes, scales = state["state" + moment], state["absmax" + moment]
        print("scales", len(scales), *[f"{x:.9e}" for x in scales.tolist()])
        print("codes", codes.numel(), codes.numpy().tobytes().hex())


def bytes_run():
    ops._quant_blockwise_fp32_direct = quantize
    model, names = new_model()
    optimizer = bitsandbytes.optim.AdamW8bit(groups_of(model), lr=RATE, betas=(0.9, 0.95), eps=EPSILON)
    weights = train("adamw-8bit", RATE, EPSILON, model, names, [optimizer])
    show_bytes(optimizer.state[weights[SHOWN]])
    print("others", *others)


class Float32Module:
    """PyTorch as its Muon sees it."""
    bfloat16 = torch.float32

    def __getattr__(self, name):
        return getattr(torch, name)


def muon_run():
    torch.optim._muon.torch = Float32Module()
    model, names = new_model()
    hidden = [p for name, p in model.named_parameters() if p.ndim > 1 and ".layers." in name]
    others = [p for name, p in model.named_parameters() if p.ndim > 1 and ".layers." not in name]
    adamw = torch.optim.AdamW([{"params": others, "weight_decay": DECAY},
                               {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0}],
                              lr=MUON_RATE, betas=(0.9, 0.95), eps=MUON_EPSILON)
    muon = torch.optim.Muon(hidden, lr=MUON_RATE, weight_decay=DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    train("muon", MUON_RATE, MUON_EPSILON, model, names, [muon, adamw])


def main():
    print("# Made by tests/parity/make_optimizers.py.")
    bytes_run()
    muon_run()


if __name__ == "__main__":
    main()
