# SPDX-License-Identifier: Apache-2.0
# needs: transformers accelerate peft bitsandbytes
# 65.5 M weights of the embedding and the head in fp32 (0.24 GiB), 70.8 M at 4.13 bits (0.03), 1.79 M of LoRA at 10 bytes
# (0.02), and logits of up to 1,022 tokens, a copy in bf16 and two or three in fp32 (0.31 to 0.43)
# want: verdict=pass allocated_gib=0.58..0.77 reserved_gib=0.6..1.3 phase=backward
"""QLoRA: 4-bit weights of bitsandbytes, LoRA of PEFT, paged 8-bit AdamW."""
import peft
import torch
import transformers

import models

four_bit = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                           bnb_4bit_compute_dtype=torch.bfloat16)
model = transformers.AutoModelForCausalLM.from_pretrained(models.saved(models.llama()), quantization_config=four_bit,
                                                          device_map={"": 0})
model = peft.prepare_model_for_kbit_training(model)
model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
trainer = transformers.Trainer(model=model, args=models.arguments(optim="paged_adamw_8bit"),
                               train_dataset=models.Texts(), data_collator=models.collator())
trainer.train()
