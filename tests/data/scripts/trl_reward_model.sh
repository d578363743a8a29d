#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
accelerate launch --num_processes 8 --mixed_precision bf16 examples/scripts/reward_modeling.py --model_name_or_path Qwen/Qwen2-0.5B-Instruct --per_device_train_batch_size 8 --max_length 2048 --gradient_checkpointing --bf16
