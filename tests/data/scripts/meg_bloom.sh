#!/bin/bash
#SBATCH --job-name=wide13b
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --hint=nomultithread
set -x -e
source $team_WORK/start-training
CKPT=$team_SCRATCH/ckpt/wide13b
cd $team_WORK/code/Megatron-DeepSpeed/
MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
MASTER_PORT=6000
GPUS_PER_NODE=4
NNODES=16
TP_SIZE=2
PP_SIZE=4
MICRO=2
GLOBAL=1024
SEQ=2048
STAGE=1
DS=./ds.$SLURM_JOBID.json
cat <<EOT > $DS
{
  "train_micro_batch_size_per_gpu": $MICRO,
  "train_batch_size": $GLOBAL,
  "zero_optimization": { "stage": $STAGE },
  "fp16": { "enabled": true, "initial_scale_power": 12 }
}
EOT
OPTIM=" \
    --optimizer adam \
    --adam-beta2 0.95 \
    --lr 1e-4 \
    --lr-decay-samples 120_000_000 \
    "
MODEL=" \
    --num-layers 40 \
    --hidden-size 5120 \
    --num-attention-heads 40 \
    --seq-length $SEQ \
    --max-position-embeddings $SEQ \
    --micro-batch-size $MICRO \
    --rampup-batch-size 192 32 9_765_625 \
    --global-batch-size $GLOBAL \
    --fp16 \
    --checkpoint-activations \
    --glu-activation swiglu \
    --pad-vocab-size-to 50304 \
    $OPTIM \
    "
ZERO=" \
    --deepspeed \
    --deepspeed_config ${DS} \
    --zero-stage ${STAGE} \
    --deepspeed-activation-checkpointing \
    "
export LAUNCHER="python -u -m torch.distributed.launch \
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    --master_addr $MASTER_ADDR \
    --master_port $MASTER_PORT \
    "
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --tensor-model-parallel-size $TP_SIZE \
    --pipeline-model-parallel-size $PP_SIZE \
    $MODEL \
    --save $CKPT \
    --data-path $team_DATA/text_document \
    --split 949,50,1 \
    $ZERO \
    "
echo $CMD
clear; srun --jobid $SLURM_JOBID bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 | tee -a $CKPT/log.txt
