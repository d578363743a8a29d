#!/bin/bash
#SBATCH --gres=gpu:h100:8
#SBATCH --nodes=1
apptainer exec --nv axolotl.sif axolotl train axolotl_fsdp2.yaml
