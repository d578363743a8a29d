#!/bin/bash
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
export FORCE_TORCHRUN=1
export MASTER_ADDR=$(scontrol show hostname $SLURM_NODELIST | head -n1)
srun bash -c 'NNODES=$SLURM_NNODES NODE_RANK=$SLURM_NODEID MASTER_PORT=29500 llamafactory-cli train \
    --stage sft --do_train --model_name_or_path Qwen/Qwen2.5-32B --finetuning_type full \
    --deepspeed hf_ds_zero3.json --dataset identity --template qwen --cutoff_len 8192 \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --bf16 --output_dir saves \
    --flash_attn fa2 --enable_liger_kernel'
