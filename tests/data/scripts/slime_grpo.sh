#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
MODEL=(--num-layers 28 --hidden-size 1024 --ffn-hidden-size 3072 --num-attention-heads 16 --swiglu)
PARALLEL=(--tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity selective)
ray job submit --address http://127.0.0.1:8265 -- python3 train.py \
	--actor-num-nodes 2 --actor-num-gpus-per-node 8 --colocate \
	--hf-checkpoint Qwen/Qwen3-0.6B --rollout-batch-size 32 --n-samples-per-prompt 8 \
	--global-batch-size 256 --max-tokens-per-gpu 8192 --use-dynamic-batch-size \
	"${MODEL[@]}" "${PARALLEL[@]}"
