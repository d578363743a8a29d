#!/bin/bash
#SBATCH --job-name=env-file
#SBATCH --nodes=2 --gpus-per-node=8
# All sizes live in one file, so that several scripts agree.
HERE=$(dirname "$(realpath "$0")")
set -a
source meg_sizes.env
set +a
: "${PP:=1}" "${CP:=1}"
cd $HERE
exec srun --export=ALL bash meg_env_node.sh --bf16
