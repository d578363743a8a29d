#!/usr/bin/env bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
export MODEL=Qwen/Qwen2.5-7B-Instruct CUTOFF=8192 BS=1 GA=8 STAGE=3
cat > tmpl.yaml <<'EOF'
model_name_or_path: ${MODEL}
stage: sft
do_train: true
finetuning_type: full
deepspeed: ds_z${STAGE}.json
template: qwen
cutoff_len: ${CUTOFF}
per_device_train_batch_size: ${BS}
gradient_accumulation_steps: ${GA}
bf16: true
EOF
cat > ds_z3.json <<EOF
{"zero_optimization": {"stage": $STAGE, "overlap_comm": true},
 "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto",
 "gradient_accumulation_steps": "auto", "train_batch_size": "auto"}
EOF
envsubst < tmpl.yaml > run.yaml
FORCE_TORCHRUN=1 llamafactory-cli train run.yaml
