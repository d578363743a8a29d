#!/bin/bash
#SBATCH --gpus=a100:1
#SBATCH --mem=80G
python finetune_lora.py \
  --model_name_or_path tiiuae/falcon-7b \
  --load_in_8bit True --use_peft_lora True --lora_r 16 --lora_target_modules all-linear \
  --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --max_seq_length 1024 \
  --fp16 True --bf16 False --gradient_checkpointing True --optim paged_adamw_8bit
