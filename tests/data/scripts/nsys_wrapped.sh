#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8
PROFILE=${PROFILE:-1}
PREFIX=()
if [ "$PROFILE" -eq 1 ]; then
    PREFIX=(nsys profile -s none -t nvtx,cuda -o "prof-%q{SLURM_PROCID}" --force-overwrite true --capture-range=cudaProfilerApi)
fi
srun --mpi=pmix --cpu-bind=none numactl --localalloc "${PREFIX[@]}" python -u pretrain_gpt.py \
    --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --swiglu --normalization RMSNorm \
    --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear --seq-length 4096 \
    --max-position-embeddings 4096 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 128 --bf16 \
    --use-flash-attn --vocab-size 32000 --profile --profile-step-start 5 --profile-step-end 6
