#!/bin/bash
#SBATCH --nodes=16
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
# a training that mpirun starts as a script, with what the script around it knows
export NUM_NODES=$SLURM_JOB_NUM_NODES
NUM_GPUS_PER_NODE=$(echo $SLURM_TASKS_PER_NODE | cut -d '(' -f 1)
mpirun -np $((NUM_NODES * NUM_GPUS_PER_NODE)) --npernode $NUM_GPUS_PER_NODE -bind-to none -map-by slot \
  -x NUM_NODES=$NUM_NODES -x NUM_GPUS_PER_NODE=$NUM_GPUS_PER_NODE bash meg_mpi_step.sh
