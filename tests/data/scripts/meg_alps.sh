#!/bin/bash
#SBATCH --account=a0
#SBATCH --time=12:00:00
#SBATCH --job-name=apertus
#SBATCH --nodes=64
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --signal=SIGUSR2@600
#SBATCH --no-requeue

echo "START TIME: $(date)"
MEGATRON_LM_DIR=/iopsstor/scratch/$USER/Megatron-LM
MBS=2
GBS=2048
SEQ_LEN=4096
MASTER_ADDR=$(hostname)

TRANSFORMER_ENGINE_ARGS=(
	--main-grads-dtype fp32
)
NETWORK_SIZE_ARGS=(
	--num-layers 32
	--hidden-size 4096
	--ffn-hidden-size 21504
	--num-attention-heads 32
	--group-query-attention
	--num-query-groups 8
	--max-position-embeddings $SEQ_LEN
	--position-embedding-type rope
	--rotary-base 500000
	--normalization RMSNorm
	--qk-layernorm
	--untie-embeddings-and-output-weights
)
TRAINING_ARGS=(
	--micro-batch-size $MBS
	--global-batch-size $GBS
	--disable-bias-linear
	--cross-entropy-loss-fusion
	--no-check-for-nan-in-loss-and-grad
)
REGULARIZATION_ARGS=(--attention-dropout 0.0 --hidden-dropout 0.0 --weight-decay 0.1)
MIXED_PRECISION_ARGS=(--bf16)
DISTRIBUTED_ARGS=(
	--tensor-model-parallel-size 2
	--sequence-parallel
	--pipeline-model-parallel-size 1
	--context-parallel-size 1
	--use-distributed-optimizer
	--overlap-grad-reduce
)
TOKENIZER_ARGS=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model alehc/swissai-tokenizer)
DATA_ARGS=(--split 100,0,0 --seq-length $SEQ_LEN --num-workers 32)

CMD_PREFIX="numactl --membind=0-3"
TORCHRUN_ARGS=(
	--nproc-per-node $SLURM_GPUS_PER_NODE
	--nnodes $SLURM_NNODES
	--rdzv_endpoint $MASTER_ADDR:25678
	--rdzv_backend c10d
)
TRAINING_CMD="torchrun ${TORCHRUN_ARGS[@]} $MEGATRON_LM_DIR/pretrain_gpt.py \
	${TRANSFORMER_ENGINE_ARGS[@]} \
	${NETWORK_SIZE_ARGS[@]} \
	${REGULARIZATION_ARGS[@]} \
	${TRAINING_ARGS[@]} \
	${MIXED_PRECISION_ARGS[@]} \
	${DISTRIBUTED_ARGS[@]} \
	${TOKENIZER_ARGS[@]} \
	${DATA_ARGS[@]}"

if [ -n "$WANDB_API_KEY" ]; then
	TRAINING_CMD="$TRAINING_CMD --wandb-project apertus"
fi
srun -lu --cpus-per-task $SLURM_CPUS_PER_TASK --wait 60 bash -c "$CMD_PREFIX $TRAINING_CMD"
echo "END TIME: $(date)"
