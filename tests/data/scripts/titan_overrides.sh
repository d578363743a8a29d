#!/usr/bin/bash
#SBATCH --nodes=8 --gpus-per-task=8 --ntasks-per-node=1
set -ex
declare -r -i NGPU=8
overrides=("$@")
opts=()
opts+=("--training.local_batch_size" 2)
opts+=("--training.seq_len=8192")
opts+=("--parallelism.tensor_parallel_degree" "8")
for kv in "${overrides[@]}"; do opts+=("--$kv"); done
dcgmi profile --pause
srun torchrun --nnodes 8 --nproc_per_node ${NGPU} --rdzv_backend c10d --rdzv_endpoint "$(scontrol show hostname $SLURM_NODELIST | head -1):29500" \
  -m torchtitan.train --job.config_file ./titan_overrides.toml ${opts[*]}
dcgmi profile --resume
