#!/bin/bash
#SBATCH --array=0-2%1
#SBATCH --nodes=1 --gpus-per-node=8
MODELS=(Qwen/Qwen2.5-1.5B Qwen/Qwen2.5-3B Qwen/Qwen2.5-7B)
BATCH=(16 8 4)
MODEL=${MODELS[$SLURM_ARRAY_TASK_ID]}
BS=${BATCH[$SLURM_ARRAY_TASK_ID]}
NAME=${MODEL##*/}
torchrun --nproc_per_node=8 run_clm.py --do_train --model_name_or_path $MODEL --block_size 4096 \
  --per_device_train_batch_size $BS --gradient_accumulation_steps $((64 / BS)) --bf16 --output_dir runs/${NAME,,}
