#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
set -x
mkdir -p recipes/own
cat > recipes/own/config_full.yaml <<'YAML'
model_name_or_path: Qwen/Qwen2.5-1.5B
torch_dtype: bfloat16
attn_implementation: flash_attention_2
dataset_mixer:
  HuggingFaceH4/ultrachat_200k: 1.0
bf16: true
gradient_accumulation_steps: 2
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: false
max_seq_length: 2048
num_train_epochs: 1
per_device_train_batch_size: 8
packing: true
YAML
cat > recipes/own/zero3.yaml <<'YAML'
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero3_init_flag: true
  zero_stage: 3
mixed_precision: bf16
num_machines: 1
num_processes: 8
YAML
ACCELERATE_LOG_LEVEL=info accelerate launch --config_file recipes/own/zero3.yaml \
    scripts/run_sft.py recipes/own/config_full.yaml --load_in_4bit=false
