#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100:8
# Heads of keys and values under a name of Megatron-DeepSpeed; the first command only hands a job on
python pretrain_llama31.py --account demo --container train.sqsh --steps 100
deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 \
  --num-layers 36 --hidden-size 2816 --num-attention-heads 22 --num-key-value-heads 2 --use-flash-attn-v2 \
  --seq-length 8_192 --max-position-embeddings 8_192 --micro-batch-size 2 --global-batch-size 256 --fp16 \
  --decoder-seq-length 512 --recompute-activations
