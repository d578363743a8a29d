#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs p4d-train with the layout that p4d planned for this job:
#
#     sbatch -N 2 --ntasks-per-node=8 --gpus-per-node=8 --p4d-model=llama3-8b \
#         --export=ALL,P4D_DATA=/data/text.bin,P4D_STEPS=10000,P4D_CHECKPOINT=/scratch/run $(p4d job)
#
#   P4D_DATA         training data, as for --data; not with --config
#   P4D_STEPS        total optimizer steps; not with --epochs or --config in P4D_TRAIN_ARGS
#   P4D_CHECKPOINT   checkpoint directory, on a file system shared by all nodes; default ./p4d-$SLURM_JOB_ID
#   P4D_TRAIN_ARGS   further p4d-train(1) options: "--lr 2e-4 --save-every 500", "--config run.toml"
#   P4D_LOG          JSON log file; default log.jsonl in P4D_CHECKPOINT
#   P4D_RETRIES      retries without a newer checkpoint; default 3
#
# The job is requeued, and resumes from the newest checkpoint,
#   - two minutes before its time limit or when it is preempted, after saving a checkpoint;
#   - when a node fails, or a rank is killed or unreachable: at most P4D_RETRIES times without a newer checkpoint.
# It ends if p4d-train reports an error (an option, the data, diverged training) or fails before the first checkpoint, since
# a retry would fail the same way.
#SBATCH --job-name=p4d-train
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120

again=75   # p4d-train was asked to stop and saved a checkpoint
lost=50    # a rank died or is unreachable; the others reported which one
killed=128 # and above: a rank was killed by a signal
given=" ${P4D_TRAIN_ARGS:-} "
[[ $given == *" --config"* ]] || : "${P4D_DATA:?name the training data: sbatch --export=ALL,P4D_DATA=FILE,P4D_STEPS=N}"
[[ $given == *" --config"* || $given == *" --epochs"* ]] || : "${P4D_STEPS:?say how long to train: sbatch --export=ALL,P4D_DATA=FILE,P4D_STEPS=N}"
checkpoint=${P4D_CHECKPOINT:-p4d-$SLURM_JOB_ID}
mkdir -p "$checkpoint" || exit
read -ra more <<<"${P4D_TRAIN_ARGS:-}"

# requeue: exits on success
requeue()
{
	local answer
	answer=$(scontrol requeue "$SLURM_JOB_ID" 2>&1) && exit 0
	# Slurm has already requeued the job, as it does after a node failure.
	[[ $answer == *"is pending execution"* ]] && exit 0
	echo "$answer"
}

# a rank that hangs is killed when the others have ended because of it
export SLURM_WAIT=${SLURM_WAIT:-60}
srun --kill-on-bad-exit=0 p4d-train ${P4D_DATA:+--data "$P4D_DATA"} ${P4D_STEPS:+--steps "$P4D_STEPS"} --checkpoint "$checkpoint" \
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
		echo "p4d-train failed $times times after $newest; the job ends"
	else
		echo "p4d-train failed; the job goes back into the queue and will continue from $newest"
		requeue
	fi
fi
exit "$status"
