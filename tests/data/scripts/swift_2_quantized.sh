#!/bin/bash
#SBATCH --gpus-per-node=1
MODEL=/scratch/models/mine
swift sft --model_type llama3-8b-instruct --model_id_or_path $MODEL --sft_type lora --quantization_bit 4 \
	--dtype fp16 --use_flash_attn false --batch_size 1 --max_length 4096 --gradient_checkpointing false
