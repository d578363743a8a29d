# SPDX-License-Identifier: Apache-2.0
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
