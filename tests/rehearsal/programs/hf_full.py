# SPDX-License-Identifier: Apache-2.0
"""transformers' Trainer: all weights, bf16, checkpointed activations."""
import transformers

import models

trainer = transformers.Trainer(
    model=models.make(models.llama()), args=models.arguments(gradient_checkpointing=True),
    train_dataset=models.Texts(), data_collator=models.collator())
trainer.train()
