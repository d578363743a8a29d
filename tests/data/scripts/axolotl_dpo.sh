#!/bin/bash
#SBATCH --gres=gpu:a100:2
python - <<EOF
print("no training here")
EOF
cat <<'EOF' | tee axolotl_dpo.yml
base_model: Qwen/Qwen2.5-7B-Instruct
rl: simpo
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 4
adapter: lora
lora_r: 32
lora_target_linear: true
bf16: true
EOF
accelerate launch --num_processes 2 -m axolotl.cli.train axolotl_dpo.yml
