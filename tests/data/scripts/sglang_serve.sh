#!/bin/bash
#SBATCH --gpus-per-node=4
python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-32B --tp 4 --mem-fraction-static 0.85 --host 0.0.0.0
