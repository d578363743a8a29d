#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8
NODES=($(scontrol show hostnames $SLURM_JOB_NODELIST))
HEAD=${NODES[0]}
srun bash <<EOF
source /venv/bin/activate
torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 --rdzv_id=\$SLURM_JOB_ID \
    pretrain_gpt.py --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 \
    --tensor-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 128 --bf16 --recompute-granularity selective \
    --recompute-modules mlp
EOF
