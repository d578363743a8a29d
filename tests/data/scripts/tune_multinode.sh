#!/bin/bash
#SBATCH --job-name=torchtune_multi_node
#SBATCH --ntasks=2
#SBATCH --nodes=2
#SBATCH --gpus-per-task=8
#SBATCH --cpus-per-task=96
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
export NCCL_BUFFSIZE=2097152 FI_EFA_SET_CUDA_SYNC_MEMOPS=0
srun tune run --nnodes 2 --nproc_per_node 8 --rdzv_id 101 --rdzv_backend c10d \
    --rdzv_endpoint "$head_node_ip:29500" full_finetune_distributed --config tune_full.yaml \
    tensor_parallel_dim=8 batch_size=2
