#!/bin/bash
#SBATCH --gpus-per-node=1
# the word is of the file, whose name says it too
python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2.5-14B-Instruct-AWQ --quantization awq_marlin --enforce-eager
