# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as large as published models, in files with holes: they take no room on the disk and read as zeros."""
import json
import os
import struct
import tempfile

import torch
import transformers


def llama(**other):
    """Llama 3.2 3B, as its model card and config.json describe it; OTHER for its relatives."""
    scaling = dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=8192)
    return transformers.LlamaConfig(**{**dict(
        vocab_size=128256, hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=131072, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_theta=500000.0, rope_scaling=scaling, bos_token_id=128000, eos_token_id=128001,
        architectures=["LlamaForCausalLM"]), **other})


def write(path, shapes):
    """A file of safetensors with tensors of SHAPES, by name, in bf16."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 2 * torch.Size(shape).numel()
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + end)


def saved(config):
    """A directory from which from_pretrained makes a model of CONFIG."""
    place = tempfile.mkdtemp(prefix="p4d-published-")
    config.save_pretrained(place)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    write(os.path.join(place, "model.safetensors"), {name: value.shape for name, value in model.named_parameters()})
    return place
