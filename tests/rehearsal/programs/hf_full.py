# SPDX-License-Identifier: Apache-2.0
# needs: transformers accelerate
# 136.3 M parameters at 16 bytes (2.03 GiB), their casts for products at 2 (0.19), and logits of 512 to 1,022 tokens:
# at least one copy in bf16 and one in fp32 (0.09), at most four in fp32 (0.49)
# want: verdict=pass allocated_gib=2.31..2.71 reserved_gib=2.4..3.1 phase=backward
"""transformers' Trainer: all weights, bf16, checkpointed activations."""
import transformers

import models

trainer = transformers.Trainer(
    model=models.make(models.llama()), args=models.arguments(gradient_checkpointing=True),
    train_dataset=models.Texts(), data_collator=models.collator())
trainer.train()
