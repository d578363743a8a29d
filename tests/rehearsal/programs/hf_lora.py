# SPDX-License-Identifier: Apache-2.0
#
# needs: transformers accelerate peft
# want: verdict=pass allocated_gib=0.86..0.9 reserved_gib=1.3..1.5 phase=backward
"""transformers' Trainer with LoRA of PEFT."""
import peft
import torch
import transformers

import models

model = models.make(models.llama(), dtype=torch.bfloat16)
model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear",
                                                   task_type="CAUSAL_LM"))
model.print_trainable_parameters()
trainer = transformers.Trainer(model=model, args=models.arguments(), train_dataset=models.Texts(),
                               data_collator=models.collator())
trainer.train()
