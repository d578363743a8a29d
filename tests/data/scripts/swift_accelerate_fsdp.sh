#!/bin/bash
#SBATCH --job-name=coder-lora
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
set -e
here=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )
srun accelerate launch --config_file "$here/swift_accelerate_fsdp.yaml" \
	-m swift.cli.sft \
	--model Qwen/Qwen2.5-Coder-14B-Instruct \
	--tuner_type lora --lora_rank 16 --target_modules all-linear \
	--dataset "$here/pairs.jsonl" \
	--torch_dtype bfloat16 \
	--gradient_checkpointing false \
	--per_device_train_batch_size 2 --gradient_accumulation_steps 4 \
	--max_length 4096 \
	--output_dir out
