#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
srun p4d-train --data /data/text --model llama3-8b --tp 4 --pp 2 --seq-len 8192 \
	--global-batch 256 --micro-batch 1 --steps 10000 --recompute full
