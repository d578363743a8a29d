#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8 --job-name=mpt7b
cd llm-foundry/scripts
srun --container-image=mosaicml.sqsh composer -n 8 train/train.py ../../foundry_mpt.yaml data_local=/data/c4 \
	train_loader.dataset.split=train_small max_duration=10ba variables.run_name=mpt-$SLURM_JOB_ID
