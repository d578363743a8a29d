#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job whose program its user has rehearsed (tests/rehearsal/played.c) is judged at sbatch by that record, as the site wants.
. "${0%/*}/lib.sh"

played=$BUILD/tests/rehearsal/played
[ -x "$played" ] || skip "tests/rehearsal/played is not built"
export XDG_CACHE_HOME="$work/cache" P4D_DATADIR="$SOURCE/etc"
conf=$CLUSTER/etc/p4d.conf
# rehearsals VALUE: sets it for the whole site
rehearsals()
{
	sed "s/^mode = enforce/&\nrehearsals = $1/" "$CLUSTER/p4d.conf.good" >"$conf.new"
	put_site "$conf.new"
}
at_end() { cp "$CLUSTER/p4d.conf.good" "$conf"; }

cp "$played" program
# job MIB: a job of one GPU that takes so much of it
job_of()
{
	printf '#!/bin/bash\n#SBATCH -N1 --gpus-per-node=1 -o /dev/null\nsrun ./program %s --seed $RANDOM --output_dir "out-$SLURM_JOB_ID"\n' "$1"
}
job_of 10240 >small.sh
job_of 102400 >large.sh

# nothing was rehearsed: not a word
run sbatch -H small.sh
accepted
silent
run p4d rehearse --gpu h100-80gb -- ./program 10240
accepted
run p4d rehearse --gpu h100-80gb -- ./program 102400
[ "$status" = 12 ] || fail "exit status $status instead of 12"

# advise, the default
today=$(date +%F)
run sbatch -H small.sh
accepted
same "$err" "p4d: [P4D124] rehearsed $today: 10.5 of 79.1 GiB (13 %) on h100-80gb; training only"
run sbatch -H large.sh
accepted
says "p4d: [P4D124] rehearsed $today: out of memory on h100-80gb: it requested 100.00 GiB"
# on other GPUs, or more of them, it was not rehearsed
run sbatch -H -p a100 large.sh
accepted
silent
run sbatch -H --gpus-per-node=2 large.sh
accepted
silent
run sbatch -H -p off large.sh
accepted
silent

# judge: a job that ran out of memory is refused, if the mode enforces; the plugin is `optional`, so slurmctld also
# refuses
rehearsals judge
run sbatch -H small.sh
accepted
says "rehearsed $today: 10.5 of 79.1 GiB"
# variables that sbatch sets may choose another model
for option in --export=MODEL --get-user-env; do
	run sbatch -H "$option" large.sh
	accepted
	says "rehearsed $today: out of memory" "p4d cannot tell whether the job runs the program in the same way"
done
run sbatch -H --export=ALL,MODEL=7b large.sh
accepted
silent
# srun without a script starts the program itself
run srun -N1 --gpus-per-node=1 ./program 102400 --seed 4
refused P4D124
says "out of memory on h100-80gb"
run srun -N1 --gpus-per-node=1 --export=ALL,MODEL=7b sh -c 'echo "it'"'"'s run"'
accepted
contains "$out" "it's run"
silent
run sbatch -H large.sh
refused P4D124
says "out of memory on h100-80gb"
run sbatch -H -p warn large.sh
accepted
says "[P4D124]"
run sbatch -H -p observe large.sh
accepted
silent
# slurmctld's own check comes first: a record lets nothing pass
run sbatch -H -p strict small.sh
refused P4D043
# after a change of the script or the program, the job starts something that was not rehearsed
sed 's/102400/102401/' large.sh >changed.sh
run sbatch -H changed.sh
accepted
silent
sed 's/^srun/export BATCH=1\n&/' large.sh >changed.sh
run sbatch -H changed.sh
accepted
silent
cp program kept
echo >>program
run sbatch -H large.sh
accepted
silent
cp kept program
run sbatch -H large.sh
refused P4D124
# a record that is damaged is none
for record in cache/p4d/rehearsals/*; do
	head -c 2000 "$record" | tr 'a-f' 'u-z' >damaged
	cat damaged >"$record"
done
run sbatch -H large.sh
accepted
silent

rehearsals ignore
run p4d rehearse --gpu h100-80gb -- ./program 102400
run sbatch -H large.sh
accepted
silent

# --submit: a job without GPUs rehearses, and the next job runs if it fits; otherwise Slurm removes it
put_site "$CLUSTER/p4d.conf.good"
printf '#!/bin/bash\n#SBATCH -N1 --gpus-per-node=1 -o /dev/null\nsrun true; srun ./program 1024 >/dev/null; echo ran >ran\n' >both.sh
run p4d rehearse --submit --gpu h100-80gb -J "$SBATCH_JOB_NAME" both.sh
accepted
contains "$out" "If it fits, job "
first=$(printf '%s\n' "$out" | sed -n 's/^Job \([0-9]*\) rehearses both.sh.*/\1/p') second=$(printf '%s\n' "$out" | sed -n 's/.*If it fits, job \([0-9]*\) runs it.*/\1/p')
contains "$(scontrol show job "$second")" "afterok:$first"
finished "$first"
contains "$(scontrol show job "$first")" "ExitCode=0:0"
finished "$second"
[ -s ran ] || fail "the job behind the rehearsal did not run: $(cat slurm-"$first".out)"
sed 's/program 1024/program 102400/' both.sh >toolarge.sh
run p4d rehearse --submit --gpu h100-80gb toolarge.sh
accepted
first=$(printf '%s\n' "$out" | sed -n 's/^Job \([0-9]*\) rehearses.*/\1/p') second=$(printf '%s\n' "$out" | sed -n 's/.*If it fits, job \([0-9]*\) runs it.*/\1/p')
finished "$first"
contains "$(scontrol show job "$first")" "ExitCode=12:0"
is_decided() { state=$(job "$second" JobState) && [ "$state" != PENDING ]; }
wait_until is_decided
[ "$state" = CANCELLED ] || fail "the job of a program that does not fit is $state"
run p4d rehearse --submit -- ./program 1
[ "$status" = 1 ] || fail "exit status $status instead of 1"
