#!/bin/bash
#SBATCH -N 4
#SBATCH --gres=gpu:8
MODEL_SIZE=${MODEL_SIZE:-13B}

case $MODEL_SIZE in
    1B|1.3B)
        NLAYERS=24; NHIDDEN=2048; NHEADS=16 ;;
    13B)
        NLAYERS=40
        NHIDDEN=5120
        NHEADS=40
        ;;
    *)
        echo "unknown size" >&2
        exit 1
        ;;
esac
FFN=$(( NHIDDEN * 8 / 3 / 128 * 128 ))
TP=4 PP=2
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True NCCL_DEBUG=WARN
VPP=$(expr $NLAYERS / $PP / 5)

options=" \
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size ${PP} \
    --num-layers-per-virtual-pipeline-stage 5 \
    --num-layers ${NLAYERS} \
    --hidden-size ${NHIDDEN} \
    --num-attention-heads ${NHEADS} \
    --seq-length 4096 --max-position-embeddings 4096 \
    --ffn-hidden-size $FFN \
    --micro-batch-size 2 \
    --global-batch-size 512 \
    --bf16 --grad-reduce-in-bf16 \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
    --squared-relu \
    --vocab-size 50257 \
"
run_cmd="python -u /opt/megatron/pretrain_gpt.py $@ ${options}"
DATETIME=`date +'date_%y-%m-%d_time_%H-%M-%S'`
srun -l --container-image nvcr.io/nvidia/pytorch:25.04-py3 \
     --container-mounts "/data:/data" \
     --output=logs/%x_%j_$DATETIME.log sh -c "${run_cmd}"
