#!/bin/bash
#SBATCH -N 2 -n 16 --gres=gpu:8
module load openmpi/4.1 cuda/12.4
HOSTFILE=hosts.$SLURM_JOB_ID
scontrol show hostnames $SLURM_JOB_NODELIST > $HOSTFILE
NP=$(( $(wc -l < $HOSTFILE) * 8 ))
mpirun -np $NP --hostfile $HOSTFILE -npernode 8 \
  -mca pml ucx -mca btl ^vader,tcp,openib,uct \
  -x LD_LIBRARY_PATH -x NCCL_DEBUG=WARN -x PATH --bind-to none --map-by slot \
  python pretrain_gpt.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 \
  --num-layers 48 --hidden-size 8192 --num-attention-heads 64 --seq-length 2048 \
  --micro-batch-size 1 --global-batch-size 256 --fp16 --vocab-size 50257
