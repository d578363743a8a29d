#!/bin/bash
#SBATCH -N 1 --gres=gpu:8
python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-32B-Instruct --tp 2 --dp 4 --mem-fraction-static 0.85 \
	--cpu-offload-gb 4 --context-length 16384 --chunked-prefill-size 4096 --max-running-requests 128 --disable-cuda-graph \
	--host 0.0.0.0 --port ${PORT:-30000}
