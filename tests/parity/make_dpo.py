#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Preference learning by TRL's DPOTrainer, for tests/runtime/trainer/test_trainer.c: loss, margin, share of preferred pairs and
gradient norm of 20 steps of AdamW, of all weights and of LoRA's adapters. On the CPU, in float32.

    make_dpo.py > tests/data/dpo_oracle.txt        (trl 1.16, transformers 5.24, peft 0.21, torch 2.15)
    make_dpo.py lora > tests/data/dpo_lora_oracle.txt

Model and weights are those of make_lora.py, in float32; A is as there and B is 0, so that the policy begins as its reference.
Pair p has a prompt of 3 + mixed(5000 + p, 0) % 5 tokens mixed(2000 + p, i) and answers of 4 + mixed(5000 + p, 1 or 2) % 12
tokens mixed(3000 or 4000 + p, i), all modulo the vocabulary. A step has four pairs, in order. The model has no padding token:
with one, PyTorch would not train its embedding.
"""
import logging
import sys
import tempfile

import datasets
import peft
import tokenizers
import torch
import transformers
import trl

import make_lora
from make_lora import ADAPTERS, ALPHA, HEAD_DIM, HEADS, HIDDEN, FFN, KV_HEADS, LAYERS, RANK, TARGETS, VOCAB, mixed

STEPS, PAIRS, RATE, BETA = 20, 4, 1e-3, 0.3


def tokens(number, count):
    return [mixed(number, i) % VOCAB for i in range(count)]


def pair(p):
    return {"prompt_ids": tokens(2000 + p, 3 + mixed(5000 + p, 0) % 5),
            "chosen_ids": tokens(3000 + p, 4 + mixed(5000 + p, 1) % 12),
            "rejected_ids": tokens(4000 + p, 4 + mixed(5000 + p, 2) % 12)}


class InOrder(trl.DPOTrainer):
    """The data are tokens already, and stay in order; what a step did is printed."""

    def _prepare_dataset(self, dataset, *arguments, **named):
        return dataset

    def _get_train_sampler(self, *arguments):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def training_step(self, model, inputs, *arguments):
        loss = super().training_step(model, inputs, *arguments)
        norm = torch.nn.utils.get_total_norm([w.grad for w in model.parameters() if w.grad is not None])
        margin, right = (self._metrics["train"]["rewards/" + name][-1] for name in ("margins", "accuracies"))
        print(f"step {loss.item():.9e} {margin:.9e} {right:.9e} {norm.item():.9e}")
        return loss


def tiny_model():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=64, rms_norm_eps=1e-5,
        tie_word_embeddings=False, attn_implementation="eager"))
    state = {name + ".weight": value.float() for part in make_lora.model_weights() for name, value in part.items()}
    model.load_state_dict(state, strict=True)
    return model.float()


def put_adapters(model):
    for layer in range(LAYERS):
        for number, target in enumerate(TARGETS):
            module = model.get_submodule(f"base_model.model.model.layers.{layer}.{target}")
            for is_b, half in enumerate((module.lora_A, module.lora_B)):
                weight = half["default"].weight
                made = make_lora.tensor(ADAPTERS + 2 * (len(TARGETS) * layer + number) + is_b, *weight.shape)
                weight.data = (made * (1 - is_b)).float()


def main():
    logging.disable(logging.WARNING)
    model, lora = tiny_model(), sys.argv[1:] == ["lora"]
    if lora:
        model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA,
                                                           target_modules=[t.split(".")[1] for t in TARGETS]))
        put_adapters(model)
    words = {"<pad>" if i == 0 else f"w{i}": i for i in range(VOCAB)}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>")), pad_token="<pad>", eos_token="w1")
    with tempfile.TemporaryDirectory() as folder:
        config = trl.DPOConfig(
            output_dir=folder, beta=BETA, max_steps=STEPS, per_device_train_batch_size=PAIRS, learning_rate=RATE,
            lr_scheduler_type="constant", adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8, weight_decay=0, max_grad_norm=0,
            bf16=False, use_cpu=True, report_to=[], save_strategy="no", gradient_checkpointing=False, disable_tqdm=True,
            logging_steps=1000, optim="adamw_torch", dataloader_num_workers=0, max_length=24)  # reference: a copy, or the model without adapters
        print("# Made by tests/parity/make_dpo.py.")
        trainer = InOrder(
            model=model, ref_model=None if lora else tiny_model(), args=config, processing_class=tokenizer,
            train_dataset=datasets.Dataset.from_list([pair(p) for p in range(STEPS * PAIRS)]))
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()


if __name__ == "__main__":
    main()
