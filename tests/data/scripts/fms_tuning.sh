#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:4
cat >fsdp.yaml <<EOF
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: true
mixed_precision: bf16
num_machines: 1
num_processes: ${SLURM_GPUS_ON_NODE:-4}
EOF
accelerate launch --config_file fsdp.yaml -m tuning.sft_trainer --model_name_or_path ibm-granite/granite-3.1-2b-base \
    --training_data_path data.jsonl --output_dir out --per_device_train_batch_size 4 --gradient_accumulation_steps 4 \
    --max_seq_length 4096 --use_flash_attn True --torch_dtype bfloat16 --peft_method lora --r 16
