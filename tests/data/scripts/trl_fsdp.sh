#!/bin/bash
#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=1
head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)
LAUNCHER="accelerate launch --config_file trl_fsdp.yaml --num_machines $SLURM_NNODES --num_processes 8 --main_process_ip $head --main_process_port 29500 --machine_rank \$SLURM_PROCID"
PROGRAM="run_sft.py --config trl_fsdp_recipe.yaml --per_device_train_batch_size 1"
srun bash -c "$LAUNCHER $PROGRAM"
