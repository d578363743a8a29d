#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
export FORCE_TORCHRUN=1 NNODES=$SLURM_NNODES NPROC_PER_NODE=8
cat >dpo.yaml <<EOF
model_name_or_path: meta-llama/Llama-3.1-8B-Instruct
stage: dpo
do_train: true
finetuning_type: full
pref_beta: 0.1
pref_loss: ${LOSS:-sigmoid}  # orpo, simpo
deepspeed: llamafactory_z3.json
cutoff_len: 4096
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
EOF
srun --ntasks-per-node=1 llamafactory-cli train dpo.yaml
