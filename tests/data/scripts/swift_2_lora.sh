#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
export NNODES=$SLURM_NNODES NPROC_PER_NODE=4
srun swift sft \
	--model_id_or_path qwen/Qwen2-7B-Instruct \
	--dtype AUTO \
	--dataset alpaca-en#2000 \
	--lora_target_modules ALL --lora_rank 16 --lora_dropout_p 0 \
	--per_device_train_batch_size 2 --gradient_accumulation_steps 4 \
	--evaluation_strategy no --deepspeed zero2-offload
