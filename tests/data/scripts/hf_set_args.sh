#!/bin/sh
#SBATCH -N1 --gpus=4
# POSIX sh has no arrays
set -- --model_name_or_path EleutherAI/pythia-1.4b --block_size 2048
set -- "$@" --per_device_train_batch_size 4 --gradient_accumulation_steps 8
set -- "$@" --bf16 --gradient_checkpointing True --optim adamw_torch_fused
if test -n "${WANDB_API_KEY-}"; then
	set -- "$@" --report_to wandb
fi
set -- "$@" --output_dir out --do_train
exec python -m torch.distributed.run --standalone --nproc-per-node=4 examples/pytorch/language-modeling/run_clm.py "$@"
