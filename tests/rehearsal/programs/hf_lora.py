# SPDX-License-Identifier: Apache-2.0
#
# needs: transformers accelerate peft
# case: small
# rehearse: -- small
# want: verdict=pass allocated_gib=0.86..0.9 reserved_gib=1.3..1.5 phase=backward
# case: 8b
# 8.03 G weights at 2 bytes (14.96 GiB), 41.9 M of LoRA at 16 (0.63), inputs of 32 layers for 512 to 1,022 tokens (0.12 to
# 0.25), and their logits: in bf16 and once to three times in fp32 (0.37 to 1.71)
# rehearse: -- 8b
# want: verdict=pass allocated_gib=16.1..17.6 reserved_gib=16.1..20.5 phase=backward
"""transformers' Trainer with LoRA of PEFT: hf_lora.py small|8b."""
import sys

import peft
import torch
import transformers

import models

if sys.argv[1] == "8b":
    config = models.llama(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                          num_attention_heads=32)
    model = transformers.AutoModelForCausalLM.from_pretrained(models.saved_as_hole(config), dtype=torch.bfloat16,
                                                              device_map={"": 0})
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
else:
    model = models.make(models.llama(), dtype=torch.bfloat16)
model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear",
                                                   task_type="CAUSAL_LM"))
model.print_trainable_parameters()
trainer = transformers.Trainer(model=model, args=models.arguments(), train_dataset=models.Texts(),
                               data_collator=models.collator())
trainer.train()
