#!/bin/bash
#SBATCH --gpus=1
#SBATCH --time=04:00:00
module purge
MODEL=${MODEL:-meta-llama/Llama-3.1-8B}
accelerate launch --num_processes 1 --mixed_precision bf16 trl/scripts/sft.py \
  --model_name_or_path "$MODEL" \
  --dataset_name trl-lib/Capybara \
  --per_device_train_batch_size 4 \
  --gradient_accumulation_steps 8 \
  --max_length 2048 \
  --packing \
  --use_peft \
  --load_in_4bit \
  --lora_r 32 --lora_alpha 64 \
  --lora_target_modules q_proj k_proj v_proj o_proj \
  --optim paged_adamw_8bit \
  --gradient_checkpointing \
  --bf16 \
  --output_dir ./adapters
