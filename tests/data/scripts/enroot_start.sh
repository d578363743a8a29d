#!/bin/bash
#SBATCH -N2 --ntasks-per-node=1 --gpus-per-node=8
HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | sed -n 1p)
srun enroot start --rw --mount $PWD:/w --env NCCL_DEBUG=WARN nemo-25.sqsh bash -lc "cd /w && torchrun \
  --nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node=8 --node-rank=\$SLURM_NODEID --master-addr=$HEAD --master-port=6000 \
  pretrain_gpt.py --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --group-query-attention --num-query-groups 8 \
  --ffn-hidden-size 28672 --swiglu --seq-length 8192 --max-position-embeddings 8192 \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 256 --bf16"
