#!/bin/bash
#SBATCH -N 2 --gpus-per-node 8
# What the recipe sets is not known, so no default of TRL's is either
srun --jobid $SLURM_JOB_ID bash -c "accelerate launch --config_file /shared/accelerate/zero3.yaml --num_machines 2 --num_processes 16 \
    --machine_rank \$SLURM_PROCID --main_process_ip $(hostname) train_sft.py --config /shared/recipes/zephyr.yaml"
srun accelerate launch --config_file /shared/accelerate/zero3.yaml --num_machines 2 --num_processes 16 \
    sft.py --config /shared/recipes/zephyr.yaml --max_length 4096
