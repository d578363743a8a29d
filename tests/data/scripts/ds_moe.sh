#!/bin/bash
#SBATCH --job-name=olmoe
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
# All parameters of a model with experts, by ZeRO-3.
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint $(hostname):29500 \
    examples/pytorch/language-modeling/run_clm.py \
    --model_name_or_path allenai/OLMoE-1B-7B-0924 \
    --do_train \
    --block_size 4096 \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 8 \
    --gradient_checkpointing \
    --bf16 True \
    --torch_dtype bfloat16 \
    --deepspeed hf_ds_zero3.json \
    --output_dir out/olmoe
