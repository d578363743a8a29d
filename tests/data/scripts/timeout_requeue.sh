#!/bin/bash
#SBATCH --time=04:00:00 --requeue
#SBATCH --gres=gpu:2 -N1
export OMP_NUM_THREADS=8
timeout --signal=USR1 --kill-after=60 3.9h stdbuf -oL -eL nice -n 5 \
  python -m torch.distributed.launch --use_env --nproc_per_node=2 --master_port=$((20000 + RANDOM % 1000)) \
  run_mlm.py --do_train --model_name_or_path bert-large-uncased --max_seq_length 512 --per_device_train_batch_size=16 --fp16 --output_dir $SLURM_SUBMIT_DIR/out
status=$?
[ $status -eq 124 ] && scontrol requeue $SLURM_JOB_ID
exit $status
