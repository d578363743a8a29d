#!/bin/bash
#SBATCH --nodes=16 --gpus-per-node=8 --ntasks-per-node=8
module load openmpi
srun --cpu_bind=v --accel-bind=gn python -m open_lm.main --model open_lm_7b --fsdp --fsdp-amp --precision amp_bfloat16 \
	--global-batch-size 2048 --accum-freq 4 --grad-checkpointing --data-key json --workers 4
