#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The ready job script: its path, what it runs, and what follows each end of p4d-train.
. "${0%/*}/lib.sh"

exits 0 p4d job
script=$out
[ "$script" = "$P4D_DATADIR/p4d-job.sh" ] || fail "another path"
silent
P4D_DATADIR=$work/nowhere
exits 3 p4d job
says "nowhere/p4d-job.sh"

# srun ends as the test says, and scontrol works or fails
cat >bin/srun <<'E2'
#!/bin/sh
printf '%s\n' "$@" >"$WORK/srun.said"
exit "$SRUN_STATUS"
E2
cat >bin/scontrol <<'E2'
#!/bin/sh
echo "$*" >>"$WORK/scontrol.said"
[ "$SCONTROL_STATUS" = 0 ] || echo "$SCONTROL_ANSWER" >&2
exit "$SCONTROL_STATUS"
E2
chmod +x bin/srun bin/scontrol
export WORK="$work" SRUN_STATUS=0 SCONTROL_STATUS=0 SCONTROL_ANSWER="Requested operation is presently disabled" SLURM_JOB_ID=17

unset P4D_DATA P4D_STEPS P4D_CHECKPOINT P4D_TRAIN_ARGS P4D_LOG
run bash "$script"
[ "$status" != 0 ] || fail "runs without data"
says "P4D_DATA=FILE"
export P4D_DATA="some where/text"
run bash "$script"
[ "$status" != 0 ] || fail "runs without a number of steps"
says "P4D_STEPS=N"

export P4D_STEPS=300 P4D_TRAIN_ARGS="--lr 2e-4  --keep 2"
exits 0 bash "$script"
[ -d p4d-17 ] || fail "no directory for checkpoints"
cat >wanted <<'E2'
--kill-on-bad-exit=0
p4d-train
--data
some where/text
--steps
300
--checkpoint
p4d-17
--log
p4d-17/log.jsonl
--lr
2e-4
--keep
2
E2
cmp -s wanted srun.said || fail "srun was given $(cat srun.said)"

# options in place of the variables
unset P4D_STEPS
P4D_TRAIN_ARGS="--epochs 2"
exits 0 bash "$script"
! grep -qx -e --steps srun.said && grep -qx -e --epochs srun.said || fail "srun was given $(cat srun.said)"
P4D_DATA="" P4D_TRAIN_ARGS="--config run.toml"
exits 0 bash "$script"
! grep -qx -e --data srun.said && grep -qx run.toml srun.said || fail "srun was given $(cat srun.said)"
P4D_DATA="some where/text" P4D_STEPS=300
export P4D_STEPS

# other exit statuses are the job's own; 75 requeues the job
SRUN_STATUS=51
exits 51 bash "$script"
[ ! -e scontrol.said ] || fail "requeued after a failure"
SRUN_STATUS=75
exits 0 bash "$script"
[ "$(cat scontrol.said)" = "requeue 17" ] || fail "not requeued"
SCONTROL_STATUS=1
exits 75 bash "$script"
prints "presently disabled"
# Slurm itself was faster
SCONTROL_ANSWER="Job is pending execution for job 17"
exits 0 bash "$script"
[ "$(printf '%s\n' "$out" | wc -l)" = 1 ] || fail "more than one line"
export P4D_CHECKPOINT="other place"
SRUN_STATUS=0
exits 0 bash "$script"
grep -qx "other place/log.jsonl" srun.said || fail "the log is not beside the checkpoints"

# a rank that was killed or lost requeues the job, unless that happened too often without a newer checkpoint
export P4D_CHECKPOINT=lost SCONTROL_STATUS=0
rm scontrol.said
SRUN_STATUS=137
exits 137 bash "$script"
prints "before the first checkpoint"
mkdir lost/.partial-step-00000020
exits 137 bash "$script"
mkdir lost/step-00000005 lost/step-00000010
for SRUN_STATUS in 137 50 139; do
	rm -f scontrol.said
	exits 0 bash "$script"
	prints "continue from step-00000010"
	[ "$(cat scontrol.said)" = "requeue 17" ] || fail "not requeued"
done
rm scontrol.said
exits 139 bash "$script"
prints "failed 4 times after step-00000010"
mkdir lost/step-100000000
exits 0 bash "$script"
prints "continue from step-100000000"
export P4D_RETRIES=0
exits 139 bash "$script"
SLURM_JOB_ID=18 P4D_RETRIES=1
exits 0 bash "$script"
[ "$(cat scontrol.said)" = "requeue 17
requeue 18" ] || fail "requeued: $(cat scontrol.said)"
exits 139 bash "$script"
# a failure with a cause ends the job
for SRUN_STATUS in 1 5 51 52 53; do
	exits "$SRUN_STATUS" bash "$script"
done
[ "$(wc -l <scontrol.said)" = 2 ] || fail "requeued after a mistake"
