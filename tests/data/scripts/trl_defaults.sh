#!/bin/bash
#SBATCH --gpus-per-node=4
accelerate launch --multi_gpu --num_processes 4 --mixed_precision bf16 sft.py --model_name_or_path Qwen/Qwen2.5-7B --use_peft \
    --per_device_train_batch_size 2 --max_length 2048
