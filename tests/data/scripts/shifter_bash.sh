#!/bin/bash
#SBATCH --image=nvcr.io/nvidia/nemo:25.02
#SBATCH --nodes=1 --gpus-per-node=4
CMD="torchtune_run() { tune run --nproc_per_node 4 \"\$@\"; }"
srun --ntasks=1 shifter --module=gpu --env=HF_HOME=$SCRATCH/hf bash -c '
set -e
cd /workspace
torchrun --standalone --nproc_per_node 4 pretrain_gpt.py \
  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 \
  --micro-batch-size 8 --global-batch-size 64 --fp16 --tensor-model-parallel-size 2'
