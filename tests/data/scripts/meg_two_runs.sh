#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
# a conversion first, then the training
python tools/checkpoint/convert.py --model-type GPT --loader llama_mistral --target-tensor-parallel-size 8
ret=$?
test $ret -eq 0 || exit $ret
COMMON="--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 8192 --vocab-size 128256"
torchrun --nproc_per_node=8 pretrain_gpt.py $COMMON --tensor-model-parallel-size 8 --micro-batch-size 1 \
  --global-batch-size 32 --bf16 | tee "train-$(date +%F).log"
