#!/bin/bash
#SBATCH --gres=gpu:4
# switches as "0" and "1"; a data file that is no configuration; the part of the model that is trained beside adapters
accelerate launch --num_processes 4 --mixed_precision bf16 --dynamo_backend inductor train_adapters.py \
  --model_name_or_path Qwen/Qwen2.5-7B-Instruct --train_files data/mix.json --use_lora 1 --lora_r 16 \
  --modules_to_save embed_tokens,lm_head --gradient_checkpointing 0 --bf16 1 --packing 0 \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --max_seq_length 2048
