# SPDX-License-Identifier: Apache-2.0
# needs: transformers accelerate
#
# Of 64 texts of up to 511 tokens the logits alone have 64 x 511 x 32000 x 2 bytes = 1.9 GiB, in fp32 twice as much, and their
# gradient; 16 texts have a fourth of it.
# rehearse: --gpu l4-24gb
# want: verdict=warn reason="it ran out of memory" allocated_gib=4..22
"""Trainer looks for a batch that fits: half of the one before, each time it runs out of memory."""
import torch
import transformers

import models

arguments = models.arguments(per_device_train_batch_size=256, gradient_accumulation_steps=1, auto_find_batch_size=True)
model = models.make(models.llama(num_hidden_layers=1), dtype=torch.bfloat16)
trainer = transformers.Trainer(model=model, args=arguments, train_dataset=models.Texts(count=2048), data_collator=models.collator())
trainer.train()
