#!/bin/bash
#SBATCH -A m1234 -C gpu -q regular
#SBATCH --nodes=2 --gpus-per-node=4 --ntasks-per-node=1
export HEAD=$(hostname)
srun podman-hpc run --rm --gpu --nccl -e MASTER_ADDR=$HEAD -v "$PWD":/work -w /work nersc/pytorch:25.02 \
    torchrun --nnodes=$SLURM_NNODES --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29500 \
    run_clm.py --model_name_or_path EleutherAI/pythia-1.4b --dataset_name wikitext --block_size 2048 \
    --per_device_train_batch_size 4 --bf16 --gradient_checkpointing --do_train --output_dir /scratch/out
