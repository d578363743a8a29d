#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=4
declare -A CFG=(
  [model_name_or_path]=HuggingFaceTB/SmolLM2-1.7B
  [per_device_train_batch_size]=8
  [gradient_accumulation_steps]=2
  [max_length]=2048
  [learning_rate]=2e-5
)
CFG[bf16]=true
ARGS=()
for key in "${!CFG[@]}"; do ARGS+=("--$key" "${CFG[$key]}"); done
python -m accelerate.commands.launch --num_processes=4 --multi_gpu --mixed_precision=bf16 sft.py "${ARGS[@]}"
