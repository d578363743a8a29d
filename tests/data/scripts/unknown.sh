#!/bin/bash
#SBATCH --nodes=2
# What depends on a command, the node or the moment is not known.
CAP=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader | head -1)
MBS=1
if [ "$CAP" -gt 50000 ]; then
    MBS=4
fi
NPROC=$(nvidia-smi -L | wc -l)
if grep -q H100 /etc/gpu; then FLAGS="--sequence-parallel"; fi
torchrun --nproc_per_node $NPROC --nnodes $SLURM_NNODES pretrain_gpt.py \
    --tensor-model-parallel-size $((NPROC / 2)) --pipeline-model-parallel-size $PP \
    --micro-batch-size $MBS --num-layers 8 --hidden-size 512 --num-attention-heads 8 $FLAGS \
    --mtp-num-layers 1
