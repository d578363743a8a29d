#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gres=gpu:8
HOSTS=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
GPUS=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
srun torchrun --nnodes ${#HOSTS[@]} --nproc_per_node $GPUS --rdzv_endpoint ${HOSTS[0]}:29400 \
	run_clm.py --do_train --model_name_or_path Qwen/Qwen2.5-3B --bf16 --block_size 2048 --output_dir out \
	--per_device_train_batch_size 2 --gradient_accumulation_steps $((256 / (2 * GPUS * ${#HOSTS[@]})))
