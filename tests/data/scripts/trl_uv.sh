#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
export UV_CACHE_DIR=$SCRATCH/uv PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
uv sync --frozen
time uv run --frozen --with 'trl>=1.0' --no-dev accelerate launch --config_file=trl_uv.yaml --num-processes=8 \
    -m trl.scripts.sft --model_name_or_path=Qwen/Qwen3-8B --dtype=bfloat16 --max_length=16384 \
    --packing=True --per_device_train_batch_size=1 --gradient_accumulation_steps=2 --bf16 \
    --use_liger_kernel --attn_implementation=flash_attention_2
