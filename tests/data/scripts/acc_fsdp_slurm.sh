#!/bin/bash
#SBATCH --job-name=multinode-fsdp
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=160
export GPUS_PER_NODE=4
head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export ACCELERATE_DIR="${ACCELERATE_DIR:-/accelerate}"

export LAUNCHER="accelerate launch \
    --config_file acc_fsdp.yaml \
    --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) \
    --num_machines $SLURM_NNODES \
    --rdzv_backend c10d \
    --main_process_ip $head_node_ip \
    --main_process_port 29500 \
    "
export SCRIPT="${ACCELERATE_DIR}/train/sft.py"
export SCRIPT_ARGS=" \
    --model_name_or_path meta-llama/Llama-3.1-8B \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 2 \
    --max_length 4096 --bf16 --packing \
    --output_dir ${ACCELERATE_DIR}/examples/output \
    "
# This step is necessary because accelerate launch does not handle multiline arguments properly
export CMD="$LAUNCHER $SCRIPT $SCRIPT_ARGS"
srun $CMD
