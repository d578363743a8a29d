#!/bin/bash
#SBATCH --gpus=1
module load cuda
source ~/venv/bin/activate
accelerate launch --num_processes 1 run_clm.py --do_train \
  --model_name_or_path Qwen/Qwen2.5-0.5B \
  --per_device_train_batch_size 4 --block_size 2048 \
  --bf16 True --fp16 False --gradient_checkpointing true \
  --output_dir out
