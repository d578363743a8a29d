#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
llamafactory-cli train --stage rm --do_train --model_name_or_path meta-llama/Llama-3.1-8B-Instruct  --finetuning_type lora --lora_target all --cutoff_len 2048 --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --bf16
