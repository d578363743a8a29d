#!/bin/bash
#SBATCH --gpus-per-node=2
accelerate launch --num_processes 2 -m axolotl.cli.train axolotl_flex.yaml
