# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
# needs: transformers accelerate
# case: alone
# want: verdict=pass
# case: ranks
# rehearse: --gpus-per-node 8 --ranks 0,7
# want: verdict=pass
"""transformers' Trainer, a small Llama from a configuration, a data set in memory, checkpointing and accumulation."""
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        ids = torch.randint(0, 16000, (1024,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


config = LlamaConfig(vocab_size=16000, hidden_size=1024, intermediate_size=2752, num_hidden_layers=8, num_attention_heads=16,
                     num_key_value_heads=4, max_position_embeddings=1024)
model = LlamaForCausalLM(config)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=20, bf16=True,
        learning_rate=1e-4, lr_scheduler_type="cosine", warmup_steps=2, logging_steps=1, gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False}, report_to="none", save_strategy="no", max_grad_norm=1.0,
        optim="adamw_torch_fused")
    Trainer(model=model, args=arguments, train_dataset=Texts()).train()
