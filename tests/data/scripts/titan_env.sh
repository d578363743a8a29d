#!/usr/bin/env bash
#SBATCH --nodes=2 --ntasks=2 --gpus-per-task=8
set -ex
NGPU=${NGPU:-"8"}
export LOG_RANK=${LOG_RANK:-0}
CONFIG_FILE=${CONFIG_FILE:-"./titan_8b.toml"}
overrides=""
if [ $# -ne 0 ]; then overrides="$*"; fi
PYTORCH_ALLOC_CONF="expandable_segments:True" \
srun torchrun --nnodes=2 --nproc_per_node=${NGPU} --rdzv_backend c10d --rdzv_endpoint="localhost:0" \
  --local-ranks-filter ${LOG_RANK} --role rank --tee 3 \
  -m torchtitan.train --job.config_file ${CONFIG_FILE} --training.local_batch_size 2 $overrides
