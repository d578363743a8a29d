#!/bin/bash
#SBATCH -N 1 --gpus-per-node=8
# whether a checkpoint is there changes what is loaded, and nothing that a GPU holds
CKPT=$HOME/ckpt/gpt
MODEL_ARGS="--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048"
if [ -f "$CKPT/latest_checkpointed_iteration.txt" ]; then
  LOAD="--load $CKPT"
else
  LOAD="--load $HOME/base --finetune --no-load-optim"
fi
[ -d /dev/infiniband ] && MODEL_ARGS+=" --nccl-communicator-config-path ib.yaml"
EXTRA=(--swiglu)
if hostname | grep -q gpu; then EXTRA+=(--log-throughput --timing-log-level 1); fi
torchrun --nproc_per_node 8 pretrain_gpt.py $MODEL_ARGS --bf16 $LOAD --micro-batch-size ${12:-4} \
  --global-batch-size 64 --vocab-size 32000 "${EXTRA[@]}" --tensor-model-parallel-size 2
