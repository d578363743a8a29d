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
#   P4D_RETRIES      how many failures behind the same checkpoint are tried again; 3 when unset
#
# The job goes back into the queue, and then continues from the newest checkpoint,
#   - two minutes before its time is over, or when it is preempted: it saves first;
#   - when a node fails, or a rank is killed or cannot be reached: at most P4D_RETRIES times without a newer checkpoint.
# It ends when p4d-train says that something is wrong (an option, the data, a loss that diverges), and when it fails before there
# is a checkpoint: that would happen again.
#SBATCH --job-name=p4d-train
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120

again=75   # p4d-train was asked to stop, and saved
lost=50    # a rank ended, or cannot be reached; the others said which one
killed=128 # and above: a signal ended a rank
: "${P4D_DATA:?name the training data: sbatch --export=ALL,P4D_DATA=FILE,P4D_STEPS=N}"
: "${P4D_STEPS:?say how long to train: sbatch --export=ALL,P4D_DATA=FILE,P4D_STEPS=N}"
checkpoint=${P4D_CHECKPOINT:-p4d-$SLURM_JOB_ID}
mkdir -p "$checkpoint" || exit
read -ra more <<<"${P4D_TRAIN_ARGS:-}"

# requeue: ends this script unless it failed
requeue()
{
	local answer
	answer=$(scontrol requeue "$SLURM_JOB_ID" 2>&1) && exit 0
	# Slurm was faster, which it is when a node failed.
	[[ $answer == *"is pending execution"* ]] && exit 0
	echo "$answer"
}

srun --kill-on-bad-exit=0 p4d-train --data "$P4D_DATA" --steps "$P4D_STEPS" --checkpoint "$checkpoint" \
	--log "${P4D_LOG:-$checkpoint/log.jsonl}" "${more[@]}"
status=$?
if [ "$status" = "$again" ]; then
	echo "p4d-train was stopped and has saved; the job goes back into the queue"
	requeue
elif [ "$status" = "$lost" ] || [ "$status" -gt "$killed" ]; then
	newest=$(find "$checkpoint" -maxdepth 1 -name 'step-*' -printf '%f\n' | sort -V | tail -n 1)
	echo "$SLURM_JOB_ID $newest" >>"$checkpoint/failures"
	times=$(grep -cx "$SLURM_JOB_ID $newest" "$checkpoint/failures")
	if [ -z "$newest" ]; then
		echo "p4d-train failed before the first checkpoint; the job ends"
	elif [ "$times" -gt "${P4D_RETRIES:-3}" ]; then
		echo "p4d-train failed $times times behind $newest; the job ends"
	else
		echo "p4d-train failed; the job goes back into the queue and will continue from $newest"
		requeue
	fi
fi
exit "$status"
