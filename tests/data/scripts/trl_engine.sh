#!/bin/bash
#SBATCH --nodes=3 --gpus-per-node=8
if [[ -n "$USE_VLLM" || -f engine.yaml ]]; then
    srun --nodes=1 --ntasks=1 trl vllm-serve --model Qwen/Qwen2.5-7B --tensor_parallel_size 2 &
fi
export CMD="src/open_r1/grpo.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 4 --bf16 --num_generations 8"
export LAUNCHER="ACCELERATE_LOG_LEVEL=info accelerate launch --use_deepspeed --zero_stage 3 --num_machines 2 --num_processes 16 --machine_rank $SLURM_PROCID --main_process_ip $MASTER_ADDR"
srun --nodes=2 --ntasks=2 bash -c "$LAUNCHER $CMD" 2>&1
