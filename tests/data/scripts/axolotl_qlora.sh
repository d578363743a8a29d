#!/bin/bash
#SBATCH --job-name=axolotl
#SBATCH --gpus-per-node=2
source /opt/conda/etc/profile.d/conda.sh
conda activate axolotl
export HF_HOME=/scratch/$USER/hf
axolotl train axolotl_qlora.yml
