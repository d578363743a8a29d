#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:2
accelerate launch --num_processes 2 --use_fsdp --fsdp_reshard_after_forward true sft.py \
  --model_name_or_path HuggingFaceTB/SmolLM2-1.7B \
  --model_init_kwargs '{"attn_implementation": "flash_attention_2", "dtype": "bfloat16"}' \
  --per_device_train_batch_size 8 --max_length 2048 --bf16 --seed "$RANDOM"
