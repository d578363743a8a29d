#!/usr/bin/bash
#SBATCH --job-name=dsv3-titan
#SBATCH --nodes=32
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive

set -euo pipefail
module=deepseek_v3
size=${1:-671b}
config="${module}_${size}"
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"

parallel=(
    --parallelism.pipeline_parallel_degree 8
    --parallelism.expert_parallel_degree $((SLURM_NNODES / 4 * 4))
    --parallelism.pipeline_parallel_schedule Interleaved1F1B
)
[[ $size == 16b ]] && parallel=()

srun --cpu-bind=none torchrun --nnodes "$SLURM_NNODES" --nproc_per_node 8 --rdzv_backend c10d \
    --rdzv_endpoint "$head_node:29500" -m torchtitan.train \
    --module "$module" --config "$config" "${parallel[@]}" \
    --training.steps=2000 --checkpoint.enable --metrics.log_freq 10
