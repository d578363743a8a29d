# SPDX-License-Identifier: Apache-2.0
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
