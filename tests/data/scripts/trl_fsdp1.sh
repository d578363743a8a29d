#!/bin/bash
#SBATCH --job-name=sft --nodes=1 --gres=gpu:h100:8 --time=12:00:00
export WANDB_MODE=offline
accelerate launch --config_file trl_fsdp1.yaml trl/scripts/sft.py \
    --model_name_or_path Qwen/Qwen2.5-7B --dtype bfloat16 --dataset_name trl-lib/Capybara \
    --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --gradient_checkpointing \
    --max_length 4096 --packing --attn_implementation flash_attention_2 --output_dir qwen-sft
