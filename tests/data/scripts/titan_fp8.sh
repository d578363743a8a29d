#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
srun torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file ./titan_fp8.toml --compile.enable
