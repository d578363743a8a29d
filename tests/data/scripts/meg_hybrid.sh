#!/bin/bash
#SBATCH --job-name=hybrid-8b
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
SEQ=8192
PATTERN='M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-'

model=(
    --spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec
    --is-hybrid-model
    --hybrid-override-pattern "$PATTERN"
    --num-layers ${#PATTERN}
    --hidden-size 4096
    --ffn-hidden-size 21504
    --num-attention-heads 32
    --group-query-attention --num-query-groups 8
    --kv-channels 128
    --mamba-state-dim 128
    --mamba-head-dim 64
    --mamba-num-groups 8
    --seq-length $SEQ --max-position-embeddings $SEQ
    --position-embedding-type none
    --normalization RMSNorm --squared-relu --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0 --hidden-dropout 0.0
)
srun --container-image=/images/megatron.sqsh \
    python -u pretrain_mamba.py "${model[@]}" \
    --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 1 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --micro-batch-size 1 --global-batch-size 256 --bf16 \
    --vocab-size 131072 --tokenizer-type NullTokenizer --make-vocab-size-divisible-by 128 \
    --attention-backend flash --train-iters 1000 --lr 3e-4 --data-path /data/corpus
