#!/bin/bash
#SBATCH --gres=gpu:8
NPROC_PER_NODE=8 swift sft \
	--model Qwen/Qwen3-32B \
	--tuner_type full \
	--torch_dtype bfloat16 \
	--dataset corpus.jsonl \
	--per_device_train_batch_size 1 \
	--gradient_accumulation_steps 2 \
	--max_length 8192 \
	--gradient_checkpointing false \
	--attn_impl flash_attention_2 \
	--fsdp fsdp2
