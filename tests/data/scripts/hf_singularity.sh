#!/bin/bash
#SBATCH --nodes=2 --gres=gpu:a100:4 --ntasks-per-node=1
SIF=/project/containers/pytorch_24.05.sif
export SINGULARITYENV_HF_HOME=/scratch/hf
CMD="accelerate launch \
    --use_fsdp --fsdp_sharding_strategy FULL_SHARD --mixed_precision bf16 \
    --num_machines $SLURM_NNODES --num_processes $((SLURM_NNODES * 4)) \
    --machine_rank \$SLURM_PROCID --main_process_ip $(hostname) --main_process_port 29500 \
    train.py --model_name_or_path mistralai/Mistral-7B-v0.1 --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 4 --max_seq_length 4096 --gradient_checkpointing"
srun singularity exec --nv --bind /scratch:/scratch,/project -W /tmp "$SIF" bash -lc "cd /workspace && $CMD"
