#!/bin/bash
#SBATCH -p luna -A adlr -t 00:30:00 --nodes=128 --exclusive --mem=0 --overcommit --ntasks-per-node=8 --dependency=singleton --job-name=gpt3-175b

export NCCL_IB_SL=1
export CUDA_DEVICE_MAX_CONNECTIONS=1
DIR=$(pwd)
DATETIME=$(date +'date_%y-%m-%d_time_%H-%M-%S')
mkdir -p $DIR/logs

options=" \
	--sequence-parallel \
	--tensor-model-parallel-size 8 \
	--pipeline-model-parallel-size 16 \
	--num-layers 96 \
	--hidden-size 12288 \
	--num-attention-heads 96 \
	--seq-length 2048 \
	--max-position-embeddings 2048 \
	--micro-batch-size 1 \
	--global-batch-size 1536 \
	--rampup-batch-size 16 16 5859375 \
	--lr 6.0e-5 --min-lr 6.0e-6 --lr-decay-style cosine \
	--log-interval 10 --eval-iters 40 \
	--data-path ${DATA_BLEND:-/data/blend} \
	--vocab-file /data/gpt2-vocab.json --merge-file /data/gpt2-merges.txt \
	--split 98,2,0 --clip-grad 1.0 --weight-decay 0.1 \
	--init-method-std 0.006 \
	--tensorboard-dir $DIR/tensorboard_$DATETIME \
	--fp16 "

run_cmd="python -u ${DIR}/pretrain_gpt.py ${options}"

srun -l \
     --container-image "nvcr.io/nvidia/pytorch:24.01-py3" \
     --container-mounts "/lustre:/lustre,${DIR}:${DIR}" \
     --output=$DIR/logs/%x_%j_$DATETIME.log sh -c "${run_cmd}"
set +x
