#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
MODEL_ID=mistralai/Mistral-7B-v0.1
ACCELERATE_LOG_LEVEL=info accelerate launch --config_file trl_zero2.yaml \
   --num_processes=8 scripts/run_sft.py \
   --model_name_or_path="${MODEL_ID}" --per_device_train_batch_size=4 --gradient_accumulation_steps=2 \
   --max_seq_length=2048 --torch_dtype=bfloat16 --attn_implementation=flash_attention_2 --use_liger_kernel
