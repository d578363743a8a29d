#!/bin/bash
#SBATCH -J sft-gsm8k
#SBATCH -N 1
#SBATCH --gres=gpu:a100:8
#SBATCH --time=04:00:00
set -x

if [ "$#" -lt 2 ]; then
    echo "Usage: sft.sh <nproc_per_node> <save_path> [other_configs...]"
    nproc_per_node=8
    save_path=$HOME/sft
else
    nproc_per_node=$1
    save_path=$2
    shift 2
fi

torchrun --standalone --nnodes=1 --nproc_per_node=$nproc_per_node \
     -m verl.trainer.fsdp_sft_trainer \
    data.train_files=$HOME/data/gsm8k/train.parquet \
    data.val_files=$HOME/data/gsm8k/test.parquet \
    data.prompt_key=extra_info \
    data.max_length=2048 \
    data.train_batch_size=64 \
    data.micro_batch_size_per_gpu=4 \
    +data.prompt_dict_keys=['question'] \
    optim.lr=1e-4 \
    model.partial_pretrain=Qwen/Qwen2.5-1.5B-Instruct \
    model.lora_rank=32 model.lora_alpha=16 model.target_modules=all-linear \
    model.enable_gradient_checkpointing=true \
    ulysses_sequence_parallel_size=2 use_remove_padding=true \
    trainer.default_local_dir=$save_path \
    trainer.project_name=gsm8k-sft trainer.n_gpus_per_node=$nproc_per_node \
    trainer.logger='["console","wandb"]' \
    trainer.total_epochs=3 "$@"
