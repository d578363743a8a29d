#!/bin/bash
#SBATCH --gpus-per-node=4
if nvidia-smi -L | grep -q H100; then
	RUN="torchrun --nproc_per_node 4 run_clm.py --do_train --bf16"
fi
$RUN --model_name_or_path facebook/opt-2.7b --output_dir "my notes" \
	--per_device_train_batch_size 4 --block_size 1024 --gradient_accumulation_steps 2
