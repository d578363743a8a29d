#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
: "${NUM_GPUS:=8}"
: "${BACKEND:=vllm}"
DATA=$HOME/data/math
uv run --isolated --extra fsdp --frozen -m skyrl.train.entrypoints.main_base \
  data.train_data="['$DATA/train.parquet']" data.val_data="['$DATA/validation.parquet']" \
  trainer.algorithm.advantage_estimator=grpo trainer.algorithm.use_kl_loss=true \
  trainer.policy.model.path="Qwen/Qwen3-8B" trainer.strategy=fsdp2 \
  trainer.placement.colocate_all=true \
  trainer.placement.policy_num_gpus_per_node=$NUM_GPUS trainer.placement.ref_num_gpus_per_node=$NUM_GPUS \
  trainer.policy.sequence_parallel_size=1 trainer.gradient_checkpointing=true \
  trainer.train_batch_size=256 trainer.policy_mini_batch_size=64 \
  trainer.micro_forward_batch_size_per_gpu=8 trainer.micro_train_batch_size_per_gpu=2 \
  trainer.max_prompt_length=2048 generator.sampling_params.max_generate_length=8192 \
  generator.inference_engine.backend=$BACKEND generator.inference_engine.num_engines=$((NUM_GPUS / 2)) \
  generator.inference_engine.tensor_parallel_size=2 generator.inference_engine.gpu_memory_utilization=0.7 \
  trainer.ckpt_path=$HOME/ckpts/qwen3-8b
