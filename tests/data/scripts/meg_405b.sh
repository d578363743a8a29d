#!/bin/bash
#SBATCH --nodes=128
#SBATCH --gpus-per-node=8
#SBATCH --array=0-3%1
BATCHES=(512 1024 2048 2048)
GBS=${BATCHES[$SLURM_ARRAY_TASK_ID]}
ARGS=(--num-layers 126 --hidden-size 16384 --ffn-hidden-size 53248 --num-attention-heads 128)
ARGS+=(--group-query-attention --num-query-groups 8 --kv-channels 128)
ARGS+=(--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 8)
ARGS+=(--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split)
ARGS+=(--seq-length 8192 --micro-batch-size 1 --global-batch-size $GBS --bf16 --grad-reduce-in-bf16)
ARGS+=(--use-distributed-optimizer --exp-avg-dtype bf16 --vocab-size 128256 --swiglu --sequence-parallel)
srun --container-image=/images/mcore.sqsh python -u pretrain_gpt.py "${ARGS[@]}"
