#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8 --ntasks-per-node=1
nodes_array=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head_node=${nodes_array[0]}
srun --nodes=1 -w "$head_node" ray start --head --port=6379 --num-gpus 8 --block &
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
  srun --nodes=1 -w "${nodes_array[$i]}" ray start --address "$head_node:6379" --block &
done
sleep 10
PYTHONUNBUFFERED=1 srun --overlap --nodes=1 -w "$head_node" ray job submit --address=http://127.0.0.1:8265 \
  --runtime-env-json='{"working_dir": "."}' -- \
  python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \
  data.train_batch_size=1024 data.max_prompt_length=1024 data.max_response_length=3072 \
  actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.model.enable_gradient_checkpointing=True \
  actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
  trainer.n_gpus_per_node=8 trainer.nnodes=$SLURM_JOB_NUM_NODES "$@"
