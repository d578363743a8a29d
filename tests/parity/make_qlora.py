#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""QLoRA by PEFT and bitsandbytes, for tests/runtime/trainer/test_trainer_nf4.c: what each linear layer of a tiny Llama
is quantized to, the losses of 20 steps of AdamW, and the adapters behind them. On the CPU, in float32.

    make_qlora.py > tests/data/qlora_oracle.txt        (transformers 5.23, peft 0.21, bitsandbytes 0.50, torch 2.15)

Weights, adapters and text are those of make_lora.py with other sizes; rows of matrices are times 1/4, 1/2 .. 5/4, so that the
scales of blocks differ. A tensor's line has the CRC-32 of its codes, the codes of its blocks, the scales of groups, and the mean.

On the CPU bitsandbytes 0.50 takes for a few scales the larger neighbour although the smaller one is nearer (at 0.4977 of the way,
for one); its kernels for GPUs take the nearest. Losses are those beside the nearest, of a mean that was summed in float64.
"""
import zlib

import numpy as np
import peft
import torch
import transformers
from bitsandbytes.nn import Linear4bit

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 128, 384, 4, 2, 32, 48
BATCH, LENGTH, STEPS, RATE = 2, 24, 20, 2e-4
RANK, ALPHA, ADAPTERS = 3, 6, 500
TARGETS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
           "mlp.down_proj"]


def mixed(tensor, i):
    x = (tensor * 0x9E3779B9 + i * 0x85EBCA6B + 1) & 0xFFFFFFFF
    for multiplier in (0x7FEB352D, 0x846CA68B):
        x ^= x >> 16
        x = x * multiplier & 0xFFFFFFFF
    return x ^ x >> 16


def tensor(number, *shape):
    values = [((mixed(number, i) >> 16) - 32768) / 65536 for i in range(int(np.prod(shape)))]
    return torch.tensor([1 + v / 4 if len(shape) == 1 else v for v in values], dtype=torch.float32).reshape(shape)


def matrix(number, rows, columns):
    return tensor(number, rows, columns) * (1 + torch.arange(rows) % 5)[:, None] / 4


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


def quantized(linear):
    """The layer with its weight in nf4: what transformers makes of it with load_in_4bit."""
    made = Linear4bit(linear.in_features, linear.out_features, bias=False, compute_dtype=torch.float32,
                      compress_statistics=True, quant_type="nf4")
    made.load_state_dict(linear.state_dict())
    return made.to("cpu")


def report(name, weight):
    state = weight.quant_state
    numbers = [f"{x:.9e}" for x in state.state2.absmax.tolist() + [state.offset.item()]]
    print(f"quantized {name} {zlib.crc32(weight.data.numpy().tobytes())} {len(numbers)}", *numbers)
    print(state.absmax.numpy().tobytes().hex())


def take_nearest(state, weight):
    """Scales of blocks whose codes are the nearest; how many codes are others than they were."""
    scales = weight.reshape(-1, 64).abs().amax(1)
    state.offset = scales.double().mean().float()
    groups = (scales - state.offset).split(256)
    state.state2.absmax = torch.stack([group.abs().max() for group in groups])
    near = torch.cat([group / group.abs().max() for group in groups])
    codes = (near[:, None] - state.state2.code).abs().argmin(1).to(torch.uint8)
    others = (codes.int() - state.absmax.int()).abs()
    assert others.max() <= 1
    state.absmax = codes
    return int(others.sum())


def main():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=LENGTH, rms_norm_eps=1e-5,
        tie_word_embeddings=False, attn_implementation="eager")).float()
    state = {name + ".weight": value for part in model_weights() for name, value in part.items()}
    model.load_state_dict(state, strict=True)
    print("# Made by tests/parity/make_qlora.py.")
    others = 0
    for layer in range(LAYERS):
        for target in TARGETS:
            holder, name = model.get_submodule(f"model.layers.{layer}.{target.split('.')[0]}"), target.split(".")[1]
            whole = getattr(holder, name).weight.detach()
            setattr(holder, name, quantized(getattr(holder, name)))
            weight = getattr(holder, name).weight
            report(f"{layer}.{target}", weight)
            others += take_nearest(weight.quant_state, whole)
    print("others", others)
    model.is_loaded_in_4bit = True
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA,
                                                       target_modules=[target.split(".")[1] for target in TARGETS]))
    adapters = []
    for layer in range(LAYERS):
        for number, target in enumerate(TARGETS):
            module = model.get_submodule(f"base_model.model.model.layers.{layer}.{target}")
            assert isinstance(module, peft.tuners.lora.bnb.Linear4bit)
            for is_b, half in enumerate((module.lora_A, module.lora_B)):
                weight = half["default"].weight
                weight.data = tensor(ADAPTERS + 2 * (len(TARGETS) * layer + number) + is_b, *weight.shape) / (8 if is_b else 1)
                adapters.append((f"{layer}.{target}.{'AB'[is_b]}", weight))
    tokens = torch.tensor([[mixed(1000 + b, i) % VOCAB for i in range(LENGTH)] for b in range(BATCH)])
    labels = torch.tensor([[int(t[i + 1]) if i + 1 < LENGTH and i % 7 != 3 else -100 for i in range(LENGTH)] for t in tokens])
    optimizer = torch.optim.AdamW([weight for _, weight in adapters], lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(input_ids=tokens).logits.reshape(-1, VOCAB), labels.reshape(-1))
        loss.backward()
        norm = torch.nn.utils.get_total_norm([weight.grad for _, weight in adapters])
        optimizer.step()
        print(f"step {loss.item():.9e} {norm.item():.9e}")
    for name, weight in adapters:
        print(f"adapter {name} {weight.double().norm().item():.9e} {weight.double().sum().item():.9e}")


if __name__ == "__main__":
    main()
