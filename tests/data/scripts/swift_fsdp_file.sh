#!/bin/bash
#SBATCH -N1 --gres=gpu:8
CONFIG=./swift_no_offload.json
export NPROC_PER_NODE=8
swift sft \
	--model Qwen/Qwen3-8B \
	--tuner_type full \
	--torch_dtype bfloat16 \
	--dataset corpus.jsonl \
	--per_device_train_batch_size 2 \
	--max_length 2048 \
	--gradient_accumulation_steps 1 \
	--fsdp $CONFIG
