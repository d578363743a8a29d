#!/bin/bash
#SBATCH --gpus-per-node=1
# weights quantized while they load, graphs switched off in JSON
vllm serve Qwen/Qwen3-14B --quantization fp8 --max-model-len 8192 \
	--compilation-config '{"cudagraph_mode": "NONE"}'
