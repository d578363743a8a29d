#!/bin/bash
#SBATCH --nodes=2 --gres=gpu:a100:8
: "${TP:=2}" "${PP:=4}" "${RECOMPUTE=full}"
SIZE=LLAMA-7b
size=${SIZE#*-}; lower=${SIZE,,}; family=${lower%%-*}
tokenizer=${1-$family}
WORLD=$((SLURM_NNODES*8))
let DP=WORLD/TP/PP
GBS=$((DP << 5))
printf -v NET -- '--num-layers %d --hidden-size %d --num-attention-heads %d' 32 4096 32
[[ $size =~ ^([0-9]+)b$ ]] && params=${BASH_REMATCH[1]}
FFN=$(( params == 7 ? 11008 : 13824 ))
torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py $NET --ffn-hidden-size $FFN ${RECOMPUTE:+--recompute-granularity ${RECOMPUTE} --recompute-method block --recompute-num-layers 4} \
  --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} --seq-length 4_096 \
  --micro-batch-size 1 --global-batch-size ${GBS} --bf16 --max-position-embeddings ${MAXPOS:-4096} ${NOPE+--swiglu}
