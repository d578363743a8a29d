#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=1
vllm serve openai/gpt-oss-20b --max-model-len 16384 --disable-hybrid-kv-cache-manager
