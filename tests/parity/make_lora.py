#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loss and gradients of LoRA's adapters beside a tiny Llama, by PEFT and transformers in float64, for
tests/runtime/trainer/test_trainer.c.

    make_lora.py > tests/data/lora_oracle.txt        (transformers 5.23, peft 0.21, torch 2.15)
    make_lora.py --dropout 0.3 > tests/data/lora_dropout_oracle.txt

With dropout, PEFT's dropout modules take the masks of p4d-train for seed 1 and step 1 (runtime/device/rounding.h): `loss` is
without dropout, as in evaluation, `dropped` and gradients are with it.

Model, weights and text are those of make_oracle.py, without its JAX, but matrices are halved. Adapters are weights, too: of layer l and linear layer t (q, k, v, o, gate, up, down), A is tensor 500 + 2 (7 l + t), B the next, divided by 8.
"""
import sys

import numpy as np
import peft
import torch
import transformers

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 16, 40, 4, 2, 4, 48
BATCH, LENGTH = 2, 24
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
    return torch.tensor([1 + v / 4 if len(shape) == 1 else v / 2 for v in values], dtype=torch.float64).reshape(shape)


def model_weights():
    """In the order of the tensors' numbers, as transformers names them; some are several rows of one."""
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    yield {"model.embed_tokens": tensor(0, VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        at, first = f"model.layers.{layer}.", 1 + 6 * layer
        yield {at + "input_layernorm": tensor(first, HIDDEN)}
        yield dict(zip([at + name for name in TARGETS[:3]], tensor(first + 1, q + 2 * kv, HIDDEN).split([q, kv, kv])))
        yield {at + TARGETS[3]: tensor(first + 2, HIDDEN, q)}
        yield {at + "post_attention_layernorm": tensor(first + 3, HIDDEN)}
        yield dict(zip([at + name for name in TARGETS[4:6]], tensor(first + 4, 2 * FFN, HIDDEN).split(FFN)))
        yield {at + TARGETS[6]: tensor(first + 5, HIDDEN, FFN)}
    yield {"model.norm": tensor(1 + 6 * LAYERS, HIDDEN)}
    yield {"lm_head": tensor(2 + 6 * LAYERS, VOCAB, HIDDEN)}


def spread(x):
    """splitmix64's finalizer"""
    x = (x + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    x = (x ^ x >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return x ^ x >> 31


def bits(key, index):
    low, high = key & 0xFFFFFFFF, key >> 32
    x = index & 0xFFFFFFFF ^ (index >> 32) * 0x9E3779B1 & 0xFFFFFFFF ^ low
    x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF ^ high
    x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
    return x ^ x >> 15


class Dropout(torch.nn.Module):
    """What PEFT calls on the input of an adapter; that of layer and linear layer, for sequences of the first batch."""

    def __init__(self, rate, layer, number, seed=1, step=1):
        super().__init__()
        self.rate, self.key = rate, spread(spread(spread(seed) ^ step) ^ (layer * len(TARGETS) + number))

    def forward(self, x):
        below = int(self.rate * 2 ** 32)
        kept = [bits(self.key, i) >= below for i in range(x.numel())]
        return x * torch.tensor(kept).reshape(x.shape) / (1 - self.rate) if self.training else x


def angles(x, position_ids):
    """Cosines and sines, which the library computes in float32 whatever the model's type."""
    angle = position_ids[..., None] * 10000.0 ** (-torch.arange(0, HEAD_DIM, 2).double() / HEAD_DIM)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def main():
    rate = float(sys.argv[2]) if len(sys.argv) == 3 and sys.argv[1] == "--dropout" else 0
    torch.set_default_dtype(torch.float64)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=LENGTH, rms_norm_eps=1e-5,
        tie_word_embeddings=False, attn_implementation="eager"))
    state = {name + ".weight": value for part in model_weights() for name, value in part.items()}
    model.load_state_dict(state, strict=True)
    model.model.rotary_emb.forward = angles
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=rate, target_modules=TARGETS_OF_PEFT))
    adapters = []
    for layer in range(LAYERS):
        for number, target in enumerate(TARGETS):
            module = model.get_submodule(f"base_model.model.model.layers.{layer}.{target}")
            if rate:
                assert isinstance(module.lora_dropout["default"], torch.nn.Dropout)
                module.lora_dropout["default"] = Dropout(rate, layer, number)
            for is_b, half in enumerate((module.lora_A, module.lora_B)):
                weight = half["default"].weight
                weight.data = tensor(ADAPTERS + 2 * (len(TARGETS) * layer + number) + is_b, *weight.shape) / (8 if is_b else 1)
                adapters.append((f"{layer}.{target}.{'AB'[is_b]}", weight))
    tokens = torch.tensor([[mixed(1000 + b, i) % VOCAB for i in range(LENGTH)] for b in range(BATCH)])
    labels = torch.tensor([[int(t[i + 1]) if i + 1 < LENGTH and i % 7 != 3 else -100 for i in range(LENGTH)] for t in tokens])
    print("# Made by tests/parity/make_lora.py. Gradients of the mean loss, row by row.")
    for name, trains in (("loss", False), ("dropped", True))[:2 if rate else 1]:
        model.train(trains)
        logits = model(input_ids=tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1))
        print(f"{name} {loss.item():.12e}")
    loss.backward()
    for name, weight in adapters:
        numbers = [f"{x:.8e}" for x in weight.grad.ravel().tolist()]
        print("tensor", name, len(numbers))
        for i in range(0, len(numbers), 8):
            print(" ".join(numbers[i:i + 8]))


TARGETS_OF_PEFT = [target.split(".")[1] for target in TARGETS]
if __name__ == "__main__":
    main()
