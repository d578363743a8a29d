#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
# as LLaMA-Factory's documentation starts it with deepspeed: no file of arguments
deepspeed --num_gpus 4 src/train.py --stage sft --do_train --model_name_or_path Qwen/Qwen2.5-7B --dataset alpaca_en \
	--template qwen --finetuning_type full --cutoff_len 2048 --packing --per_device_train_batch_size 1 --bf16 \
	--deepspeed examples/deepspeed/ds_z3_config.json --output_dir saves
