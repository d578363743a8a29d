#!/bin/bash
#SBATCH --gres=gpu:8
srun --container-image=vllm/vllm-openai:v0.11.0 vllm serve meta-llama/Llama-3.1-70B --tensor-parallel-size 8 \
  --max-model-len 32768 --max-num-seqs=64 --gpu-memory-utilization 0.92 --quantization fp8 --port 8000
