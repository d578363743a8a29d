#!/bin/bash
#SBATCH -N 1 --gpus-per-node=4
# whether the program trains adapters is its own affair; the seed is bash's
torchrun --nproc_per_node 4 --master_port $((10000 + RANDOM % 50000)) finetune_peft.py --seed $RANDOM \
  --model_path mistralai/Mistral-7B-v0.1 --lora_rank 64 --lora_alpha 128 --bf16 --block_size 1024 \
  --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --gradient_checkpointing
