#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/released: tiny models as transformers stores them, and their losses on one sequence.

    make_released.py DIRECTORY

Weights are random and round to bf16; losses are computed with them in fp64, but for RoPE's angles (transformers 5.23, torch 2.15).
"""
import json
import os
import sys

import torch
import transformers

SIZES = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None,
         "pad_token_id": None}
MODELS = {
    "llama": ("Llama", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}),
    "qwen3": ("Qwen3", {"rms_norm_eps": 1e-6, "rope_theta": 50000.0, "tie_word_embeddings": True}),
}


def main(directory):
    torch.manual_seed(5)
    ids = torch.randint(0, SIZES["vocab_size"], (1, 33), generator=torch.Generator().manual_seed(9))
    losses = {}
    for name, (family, own) in MODELS.items():
        path = os.path.join(directory, name)
        of_library = getattr(transformers, family + "ForCausalLM")
        model = of_library(getattr(transformers, family + "Config")(**SIZES, **own))
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p) * 0.2 + (p.dim() == 1))
        model.to(torch.bfloat16).save_pretrained(path)
        os.remove(os.path.join(path, "generation_config.json"))
        model = of_library.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").double()
        with torch.no_grad():
            logits = model(ids[:, :-1]).logits
        losses[name] = torch.nn.functional.cross_entropy(logits[0], ids[0, 1:]).item()
    with open(os.path.join(directory, "ids.jsonl"), "w", encoding="utf-8") as file:
        print(json.dumps({"input_ids": ids[0].tolist()}), file=file)
    with open(os.path.join(directory, "losses"), "w", encoding="utf-8") as file:
        for name, loss in losses.items():
            print(name, repr(loss), file=file)


if __name__ == "__main__":
    main(sys.argv[1])
