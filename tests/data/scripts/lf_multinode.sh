#!/bin/bash
#SBATCH -p gpu
#SBATCH -N 4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
export FORCE_TORCHRUN=1
export NNODES=$SLURM_NNODES
export MASTER_ADDR=$(scontrol show hostname $SLURM_NODELIST | head -n1)
export MASTER_PORT=29500

cat > $SLURM_SUBMIT_DIR/sft_$SLURM_JOB_ID.yaml <<YAML
### model
model_name_or_path: Qwen/Qwen2.5-32B-Instruct
trust_remote_code: true
### method
stage: sft
do_train: true
finetuning_type: full
deepspeed: hf_ds_zero3.json
### dataset
dataset: identity,alpaca_en_demo
template: qwen
cutoff_len: 4096
### train
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
learning_rate: 1.0e-5
bf16: true
flash_attn: fa2
output_dir: /scratch/$USER/out-$SLURM_JOB_ID
YAML
srun --export=ALL bash -c 'NODE_RANK=$SLURM_PROCID llamafactory-cli train $SLURM_SUBMIT_DIR/sft_$SLURM_JOB_ID.yaml'
