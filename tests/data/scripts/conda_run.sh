#!/bin/bash
#SBATCH --job-name=sft-conda
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
# accelerate in an environment that is named, not activated
MASTER=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
NPROC=$((SLURM_NNODES * 4))
srun --kill-on-bad-exit=1 conda run --no-capture-output -n llm \
    accelerate launch --num_machines "$SLURM_NNODES" --num_processes $NPROC --machine_rank "$SLURM_NODEID" \
    --main_process_ip "$MASTER" --main_process_port 29501 --mixed_precision bf16 \
    --use_deepspeed --zero_stage 3 --gradient_clipping 1.0 \
    -m trl.scripts.sft --model_name_or_path mistralai/Mistral-7B-v0.3 --dataset_name timdettmers/openassistant-guanaco \
    --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --max_length 4096 --bf16 True --output_dir out
