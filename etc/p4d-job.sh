#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A training with p4d-train in the layout that p4d gave the job:
#
#     sbatch -N 2 --ntasks-per-node=8 --gpus-per-node=8 --p4d-model=llama3-8b \
#         --export=ALL,P4D_DATA=/data/text.bin,P4D_STEPS=10000,P4D_CHECKPOINT=/scratch/run $(p4d job)
#
#   P4D_DATA         what to train on, as --data takes it
#   P4D_STEPS        optimizer steps in all
#   P4D_CHECKPOINT   directory of checkpoints on a file system that all nodes share; ./p4d-$SLURM_JOB_ID when unset
#   P4D_TRAIN_ARGS   more options of p4d-train(1): "--lr 2e-4 --save-every 500"
#   P4D_LOG          where the JSON log goes; log.jsonl in P4D_CHECKPOINT when unset
#
# Two minutes before its time is over, or when it is preempted, the job saves and goes back into the queue; so it does when a
# node fails. It then continues from the newest checkpoint.
#SBATCH --job-name=p4d-train
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120

again=75 # p4d-train was asked to stop, and saved
: "${P4D_DATA:?name the training data: sbatch --export=ALL,P4D_DATA=FILE,P4D_STEPS=N}"
: "${P4D_STEPS:?say how long to train: sbatch --export=ALL,P4D_DATA=FILE,P4D_STEPS=N}"
checkpoint=${P4D_CHECKPOINT:-p4d-$SLURM_JOB_ID}
mkdir -p "$checkpoint" || exit
read -ra more <<<"${P4D_TRAIN_ARGS:-}"

srun --kill-on-bad-exit=0 p4d-train --data "$P4D_DATA" --steps "$P4D_STEPS" --checkpoint "$checkpoint" \
	--log "${P4D_LOG:-$checkpoint/log.jsonl}" "${more[@]}"
status=$?
if [ "$status" = "$again" ]; then
	echo "p4d-train was stopped and has saved; the job goes back into the queue"
	scontrol requeue "$SLURM_JOB_ID" && exit 0
fi
exit "$status"
