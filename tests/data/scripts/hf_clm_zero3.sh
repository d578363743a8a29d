#!/bin/bash
#SBATCH --job-name=clm
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
# Continued pretraining with ZeRO-3; DeepSpeed's "auto" is filled by the Trainer.
export OUTPUT=out/clm
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint $(hostname):29500 \
    examples/pytorch/language-modeling/run_clm.py \
    --model_name_or_path Qwen/Qwen2.5-7B \
    --dataset_name allenai/c4 \
    --do_train \
    --block_size 4096 \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --gradient_checkpointing \
    --bf16 True \
    --torch_dtype bfloat16 \
    --attn_implementation flash_attention_2 \
    --optim adamw_torch_fused \
    --learning_rate 1e-5 \
    --deepspeed hf_ds_zero3.json \
    --output_dir $OUTPUT
