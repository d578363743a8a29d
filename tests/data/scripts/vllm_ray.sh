#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
head=$(hostname)
srun -N1 -n1 -w $head ray start --head --port=6379 --block &
sleep 10
for ((i = 1; i < SLURM_NNODES; i++)); do
  srun -N1 -n1 ray start --address=$head:6379 --block &
done
export VLLM_WORKER_MULTIPROC_METHOD=spawn
MODEL=/models/Mistral-Large-Instruct-2411
python -m vllm.entrypoints.openai.api_server --model $MODEL --tensor-parallel-size 8 \
  --pipeline-parallel-size $SLURM_NNODES --max-model-len 65536 --dtype bfloat16 --port 8000
