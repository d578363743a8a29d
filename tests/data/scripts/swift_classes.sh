#!/bin/bash
#SBATCH --gpus-per-node=1
swift sft --model Qwen/Qwen2.5-0.5B --tuner_type lora --torch_dtype bfloat16 --dataset pairs.jsonl \
	--max_length 512 --per_device_train_batch_size 16 --task_type seq_cls --num_labels 3
