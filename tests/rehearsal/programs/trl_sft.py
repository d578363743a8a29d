# SPDX-License-Identifier: Apache-2.0
# needs: transformers accelerate datasets trl
# as in hf_full.py, with 2 x 1,000 tokens, whose logits TRL has in bf16 (0.12 GiB) and at most twice in fp32 (0.49)
# want: verdict=pass allocated_gib=2.34..2.83 reserved_gib=2.4..3.1 phase=backward
"""TRL's SFTTrainer with packed texts."""
import datasets
import trl

import models

texts = [" ".join("w%d" % (i * j % 30000) for j in range(200)) for i in range(1, 200)]
trainer = trl.SFTTrainer(
    model=models.make(models.llama()), args=models.arguments(trl.SFTConfig, packing=True, max_length=1024),
    train_dataset=datasets.Dataset.from_dict({"text": texts}), processing_class=models.tokenizer())
trainer.train()
