# SPDX-License-Identifier: Apache-2.0
# needs: transformers accelerate datasets trl
# 136.3 M parameters at 16 bytes (2.03 GiB), casts at 2 (0.19), logits of 4 x 33 tokens, of which four copies in fp32 take
# 0.06, and the reads of the texts that the model wrote
# want: verdict=warn reason=unvalidated allocated_gib=2.24..2.45 reserved_gib=2.3..2.7 phase=backward
"""TRL's GRPOTrainer, which generates with transformers itself."""
import datasets
import trl

import models


def reward(completions, **rest):
    return [float(len(c)) for c in completions]


prompts = [{"prompt": "w1 w2 w%d" % i} for i in range(1, 200)]
trainer = trl.GRPOTrainer(
    model=models.make(models.llama()), reward_funcs=reward,
    args=models.arguments(trl.GRPOConfig, per_device_train_batch_size=4, num_generations=4, max_completion_length=32),
    train_dataset=datasets.Dataset.from_list(prompts), processing_class=models.tokenizer())
trainer.train()
