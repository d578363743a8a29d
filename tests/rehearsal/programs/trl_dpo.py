# SPDX-License-Identifier: Apache-2.0
# needs: transformers accelerate datasets trl
# 136.3 M parameters at 20 bytes, as the reference has another copy (2.54 GiB), casts at 2 (0.19), and logits of four texts
# of 53 to 282 tokens: up to 1,128 tokens, four copies in bf16 (0.27)
# want: verdict=pass allocated_gib=2.73..3.05 reserved_gib=2.8..3.4 phase=backward
"""TRL's DPOTrainer: pairs of answers, and a frozen copy of the model."""
import datasets
import trl

import models

pairs = [{"prompt": "w1 w2 w%d" % i, "chosen": " w5" * (50 + i), "rejected": " w6" * (80 + i)} for i in range(1, 200)]
trainer = trl.DPOTrainer(
    model=models.make(models.llama()), ref_model=models.make(models.llama()),
    args=models.arguments(trl.DPOConfig, max_length=512), train_dataset=datasets.Dataset.from_list(pairs),
    processing_class=models.tokenizer())
trainer.train()
