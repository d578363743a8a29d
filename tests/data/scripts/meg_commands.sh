#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8
GPUS=$(expr $SLURM_NNODES \* 8)
TP=$(echo "2 * 2" | bc)
PP=$(awk 'BEGIN { print 8 / 4 }')
DP=$(python3 -c "print($GPUS // ($TP * $PP))")
SEQ=`echo 4096`
LAYERS=$(python -c 'import json; print(json.load(open("m.json"))["n"])')
torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc_per_node=$(nvidia-smi -L | wc -l) pretrain_gpt.py \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --num-layers $LAYERS --hidden-size 4096 \
  --num-attention-heads 32 --seq-length $SEQ --max-position-embeddings $SEQ --micro-batch-size 1 \
  --global-batch-size $((DP * 4)) --bf16
