#!/bin/bash
#SBATCH --gpus-per-node=4
CONFIG=ds.json
if [ -f "$CONFIG" ]; then
	CMD="deepspeed --num_gpus 4 run_clm.py --do_train --model_name_or_path facebook/opt-2.7b \
		--per_device_train_batch_size 4 --block_size 1024 --bf16"
else
	echo "no $CONFIG"
	exit 1
fi
eval "$CMD --output_dir 'my notes' --gradient_accumulation_steps 2"
