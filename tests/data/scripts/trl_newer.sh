#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
# TRL's own program by its path, with an argument of a release that p4d does not know yet
accelerate launch --config_file deepspeed_zero3.yaml --num_processes 8 /opt/trl/examples/scripts/sft.py \
	--model_name_or_path=Qwen/Qwen2.5-7B --dataset_name=trl-lib/Capybara --max_length=2048 --packing=True \
	--per_device_train_batch_size=1 --bf16 $2 --argument_of_tomorrow 3
