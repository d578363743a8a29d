# SPDX-License-Identifier: Apache-2.0
"""Small models of transformers with random weights, and what the programs here train them on. Nothing is downloaded."""
import json
import os
import random
import tempfile

import torch
import transformers

SMALL = dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16,
             num_key_value_heads=8, max_position_embeddings=4096)


def llama(**other):
    return transformers.LlamaConfig(**{**SMALL, **other})


def make(config, **named):
    return transformers.AutoModelForCausalLM.from_config(config, **named)


class Texts(torch.utils.data.Dataset):
    """Texts of random lengths, as token ids."""

    def __init__(self, count=256, longest=512, words=32000):
        choose = random.Random(7)
        self.rows = [[choose.randrange(3, words) for _ in range(choose.randrange(longest // 2, longest))]
                     for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids = self.rows[index]
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": list(ids)}


def tokenizer(words=32000):
    """Splits at spaces and knows w0, w1, ..."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}
    vocabulary.update(("w%d" % i, i + 4) for i in range(words - 4))
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", bos_token="<s>",
                                                eos_token="</s>", unk_token="<unk>")
    made.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    return made


def saved(config):
    """A directory with a model, as from_pretrained reads it."""
    place = tempfile.mkdtemp(prefix="p4d-programs-")
    make(config, dtype=torch.bfloat16).save_pretrained(place)
    return place


def saved_as_hole(config):
    """A directory with a large model in bf16, whose weights are a hole that takes no disk."""
    place = tempfile.mkdtemp(prefix="p4d-programs-")
    with torch.device("meta"):
        weights = make(config).state_dict()
    header, end = {}, 0
    for name, tensor in weights.items():
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [end, end + 2 * tensor.numel()]}
        end += 2 * tensor.numel()
    text = json.dumps(header).encode()
    with open(os.path.join(place, "model.safetensors"), "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        out.truncate(8 + len(text) + end)
    config.save_pretrained(place)
    return place


def collator():
    return transformers.DataCollatorForSeq2Seq(tokenizer(), padding=True)


def arguments(kind=transformers.TrainingArguments, **other):
    return kind(**{**dict(output_dir=os.path.join(tempfile.gettempdir(), "p4d-programs-output"), max_steps=10,
                          per_device_train_batch_size=2, gradient_accumulation_steps=2, logging_steps=1, bf16=True,
                          save_strategy="no", report_to=[]), **other})
