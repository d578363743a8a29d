#!/bin/bash
#SBATCH --gpus-per-node=1
NPROC_PER_NODE=1 swift sft --model Qwen/Qwen2.5-7B --tuner_type full --torch_dtype bfloat16 \
	--dataset notes.jsonl --max_length 2048 --per_device_train_batch_size 1 --gradient_accumulation_steps 16 \
	--use_galore true --use_dora false --freeze_parameters_ratio 0 --optim adamw_torch --task_type causal_lm
