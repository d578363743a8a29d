#!/bin/bash
#SBATCH -N 4 --gpus-per-node=8 --ntasks-per-node=1
# all that trains is in a script that only the cluster has
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --container-image=/images/nemo.sqsh bash /workspace/launch.sh 70b
