# SPDX-License-Identifier: Apache-2.0
"""TRL's SFTTrainer with packed texts."""
import datasets
import trl

import models

texts = [" ".join("w%d" % (i * j % 30000) for j in range(200)) for i in range(1, 200)]
trainer = trl.SFTTrainer(
    model=models.make(models.llama()), args=models.arguments(trl.SFTConfig, packing=True, max_length=1024),
    train_dataset=datasets.Dataset.from_dict({"text": texts}), processing_class=models.tokenizer())
trainer.train()
