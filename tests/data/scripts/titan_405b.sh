#!/bin/bash
#SBATCH --nodes=16 --gpus-per-node=8
srun torchrun --nnodes 16 --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_405b --training.seq_len 4096
