#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4
SIZES='--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024'
mpirun --bind-to none bash -c 'export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK
WORLD_SIZE=$OMPI_COMM_WORLD_SIZE python pretrain_gpt.py '"$SIZES"' --micro-batch-size 8 --global-batch-size 512 \
 --tensor-model-parallel-size 1 --fp16 --vocab-size 50257'
