#!/bin/bash
#SBATCH --nodes=16 --gpus-per-node=8
srun python3 -m MaxText.train src/MaxText/configs/base.yml model_name=llama3.1-8b per_device_batch_size=4 run_name=$SLURM_JOB_ID
