#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --array=0-2
# one model of three, with adapters
models=(meta-llama/Llama-3.1-8B-Instruct mistralai/Mixtral-8x7B-Instruct-v0.1 Qwen/Qwen3-30B-A3B)
MODEL=${models[${WHICH:-1}]}
PORT=$((8000 + SLURM_ARRAY_TASK_ID))
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun -N1 -n1 -w "$head" ray start --head --port=6379 --block &
declare -a args=(--tensor-parallel-size 2 -dp 4 --enable-expert-parallel --max-model-len 32k --swap-space 16)
args+=(--enable-lora --max-lora-rank 64 "--cpu-offload-gb=1.5" --enforce-eager --kv-cache-dtype fp8_e4m3)
apptainer exec --nv vllm.sif vllm serve "$MODEL" "${args[@]}" --port "$PORT" --max-num-batched-tokens 16384 \
	--speculative-config '{"method": "ngram", "num_speculative_tokens": 4}' --trust-remote-code
