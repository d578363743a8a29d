#!/bin/bash
#SBATCH --account=laionize
#SBATCH --partition=booster
#SBATCH --nodes=48
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=48
#SBATCH --threads-per-core=1
set -x -e

GPUS_PER_NODE=4
NNODES=$SLURM_NNODES
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)i"
MASTER_PORT=6000

PP_SIZE=12
TP_SIZE=4
MICRO_BATCH_SIZE=2
GLOBAL_BATCH_SIZE=2048
NLAYERS=70
NHIDDEN=14336
NHEADS=112
SEQ_LEN=2048
SAVE_INTERVAL=250

OPTIMIZER_ARGS=" \
    --optimizer adam \
    --adam-beta1 0.9 --adam-beta2 0.95 \
    --lr 6e-5 --clip-grad 1.0 --weight-decay 1e-1 \
    "
GPT_ARGS=" \
    --num-layers $NLAYERS \
    --hidden-size $NHIDDEN \
    --num-attention-heads $NHEADS \
    --seq-length $SEQ_LEN \
    --max-position-embeddings $SEQ_LEN \
    --micro-batch-size $MICRO_BATCH_SIZE \
    --global-batch-size $GLOBAL_BATCH_SIZE \
    --train-samples 220_000_000 \
    --bf16 \
    $OPTIMIZER_ARGS \
    "
OUTPUT_ARGS=" \
    --log-interval 1 --save-interval $SAVE_INTERVAL \
    "

export LAUNCHER="python -u -m torch.distributed.run \
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT \
    --rdzv_backend c10d \
    --max_restarts 0 \
    --tee 3 \
    "
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --tensor-model-parallel-size $TP_SIZE \
    --pipeline-model-parallel-size $PP_SIZE \
    $GPT_ARGS \
    $OUTPUT_ARGS \
    --recompute-granularity full --recompute-method block --recompute-num-layers 2 \
    "
echo $CMD
SRUN_ARGS="--wait=60 --kill-on-bad-exit=1"
srun $SRUN_ARGS --jobid $SLURM_JOBID bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" 2>&1 | tee -a main_log.txt
