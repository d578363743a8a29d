#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:8
set -euo pipefail
TP=${TP:-2}; PP=${PP:-1}
DIST="--nproc_per_node 8 --nnodes 1 --master_port 6000"
NET=" --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
TRAIN=" --micro-batch-size 4 --global-batch-size 256 --lr 2e-4 --train-iters 1000 "
MISC="--fp16"
[ "$PP" -gt 1 ] && MISC="$MISC --num-layers-per-virtual-pipeline-stage 2"
if [ ${FLASH:-1} -eq 1 ]; then MISC+=" --use-flash-attn"; fi
cmd="torchrun $DIST pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP $NET $TRAIN $MISC"
cmd+=" --recompute-activations"
echo "$cmd" | tee cmd.txt
eval "$cmd" 2>&1 | tee log.txt
exit ${PIPESTATUS[0]}
