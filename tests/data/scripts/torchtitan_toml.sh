#!/bin/bash
#SBATCH --job-name=torchtitan
#SBATCH --ntasks=4
#SBATCH --nodes=4
#SBATCH --gpus-per-task=8
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
export PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"
CONFIG_FILE=${CONFIG_FILE:-"torchtitan_llama3_70b.toml"}
dcgmi profile --pause
srun torchrun --nnodes 4 --nproc_per_node 8 --rdzv_id 101 --rdzv_backend c10d --rdzv_endpoint "$head_node:29500" \
    -m torchtitan.train --job.config_file ${CONFIG_FILE} --parallelism.context_parallel_degree 2 "$@"
