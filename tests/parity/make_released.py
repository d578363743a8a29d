#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/released: tiny models as transformers stores them, their losses on one sequence, and how they continue texts;
and one with a tokenizer (make_tokenizers.py) and a chat template, and its loss on the assistant's answers of some conversations.

    make_released.py DIRECTORY

Weights are random and round to bf16; losses are computed with them in fp64, but for RoPE's angles (transformers 5.23, torch 2.15).
"""
import gzip
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

CHAT_TEMPLATE = """{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] | trim \
+ '[/INST]' }}{% else %}{{ ' ' + message['content'] | trim + eos_token }}{% endif %}{% endfor %}"""


def conversations():
    """Some of several turns, of different lengths."""
    for i in range(12):
        turns = [("user", f"How much is {i} and {i * 7 % 10}?"), ("assistant", f"It is {i + i * 7 % 10}.")]
        if i % 3 == 0:
            turns += [("user", " And the double of that?  "), ("assistant", f"{2 * (i + i * 7 % 10)}, of course.")]
        yield [{"role": role, "content": content} for role, content in turns]


def answers(tokenizer, messages):
    """Tokens of a conversation, and those that are trained on: each answer from its prompt's end on."""
    render = lambda some: tokenizer.apply_chat_template(some, tokenize=False)  # noqa: E731
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)  # noqa: E731
    ids, trained = encode(render(messages)), set()
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            before = encode(render(messages[:i]) + " ")
            while before != ids[:len(before)]: # the blank belongs to the answer's first word
                before = before[:-1]
            trained |= set(range(len(before), len(encode(render(messages[:i + 1])))))
    return torch.tensor([ids]), trained


def chat(directory):
    path = os.path.join(directory, "chat")
    os.makedirs(path, exist_ok=True)
    with gzip.open(os.path.join(directory, "..", "tokenizers", "mistral.json.gz"), "rt", encoding="utf-8") as file:
        words = len(json.load(file)["model"]["vocab"])
        file.seek(0)
        with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as out:
            out.write(file.read())
    sizes = {**SIZES, "vocab_size": words, "num_key_value_heads": 2, "max_position_embeddings": 512, "sliding_window": None}
    model = transformers.MistralForCausalLM(transformers.MistralConfig(**sizes, rms_norm_eps=1e-5, rope_theta=10000.0,
                                                                       tie_word_embeddings=True))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.1 + (p.dim() == 1))
    model.to(torch.bfloat16).save_pretrained(path)
    os.remove(os.path.join(path, "generation_config.json"))
    model = transformers.MistralForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").double()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(path, "tokenizer.json"), bos_token="<s>",
                                                     eos_token="</s>", chat_template=CHAT_TEMPLATE)
    os.remove(os.path.join(path, "tokenizer.json"))  # which is in tests/data/tokenizers
    loss, count, tokens = 0, 0, 0
    with open(os.path.join(directory, "conversations.jsonl"), "w", encoding="utf-8") as file:
        for messages in conversations():
            print(json.dumps({"messages": messages}), file=file)
            ids, trained = answers(tokenizer, messages)
            with torch.no_grad():
                logits = model(ids).logits[0]
            each = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
            loss += sum(each[i - 1].item() for i in trained)
            count, tokens = count + len(trained), tokens + ids.shape[1]
    return loss / count, count, tokens


CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789_.,!"


def write_tokenizer(path):
    """Every character is a token."""
    vocabulary = {c: i for i, c in enumerate(CHARACTERS)}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                   "decoder": None, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, file)


def continued(model, begin, count):
    """The likeliest characters, one after the other."""
    ids = list(begin)
    with torch.no_grad():
        for _ in range(count):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return "".join(CHARACTERS[i] for i in ids)


def main(directory):
    torch.manual_seed(5)
    ids = torch.randint(0, SIZES["vocab_size"], (1, 33), generator=torch.Generator().manual_seed(9))
    prompts = torch.Generator().manual_seed(17)
    losses, texts = {}, {}
    write_tokenizer(os.path.join(directory, "tokenizer.json"))
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
        texts[name] = [continued(model, torch.randint(0, 40, (3 * i + 1,), generator=prompts).tolist(), 6) for i in range(16)]
        losses[name] = torch.nn.functional.cross_entropy(logits[0], ids[0, 1:]).item()
    with open(os.path.join(directory, "ids.jsonl"), "w", encoding="utf-8") as file:
        print(json.dumps({"input_ids": ids[0].tolist()}), file=file)
    with open(os.path.join(directory, "losses"), "w", encoding="utf-8") as file:
        for name, loss in losses.items():
            print(name, repr(loss), file=file)
        print("chat", *map(repr, chat(directory)), file=file)
    with open(os.path.join(directory, "texts"), "w", encoding="utf-8") as file:
        for name, of_model in texts.items():
            for text in of_model:
                print(name, text, file=file)


if __name__ == "__main__":
    main(sys.argv[1])
