#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# record = extra: slurmctld keeps each verdict in the job's Extra, next to the user's words, also after updates of single jobs and of
# arrays. Users cannot write a record. Where Slurm reads Extra as a constraint, and before Slurm 23.02, the log says that there is none.
. "${0%/*}/lib.sh"

own=$work/cluster shared=$SLURM_CONF preload=${LD_PRELOAD:-} cluster=$SOURCE/tests/cluster/cluster.sh
at_end()
{
	"$cluster" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
}
stopped() { ! kill -0 "$1"; }
# with the jobs that it has, unlike after a crash
restart_controller()
{
	controller=$(cat "$own/run/slurmctld.pid")
	kill "$controller"
	wait_until stopped "$controller"
	"$cluster" boot "$own" controller || fail "slurmctld did not start"
}
explain() { tail -n 5 "$own/log/slurmctld.log"; }
"$cluster" start --auth=none --plugins="$BUILD/.libs" --no-nodes "$own" || fail "no cluster"
. "$own/env"
sed 's/^mode = enforce/mode = observe\nrecord = extra/' "$own/etc/p4d.conf" >site.conf
put_site site.conf "$own"
logged() { grep -q "p4d: \[P4D061\] .*: record = extra: $1, so slurmctld stores no records" "$own/log/slurmctld.log"; }

cat >large.sh <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=1
python run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 8 --block_size 4096 --bf16 --do_train
END
case $(slurmctld -V) in
*' '2[0-2].*)
	wait_until logged "Slurm has Extra from release 23.02 on"
	run sbatch -H large.sh
	accepted
	lacks "$(job "$id" AdminComment)" p4d
	skip "$(slurmctld -V) has no Extra"
	;;
esac

# extra ID: all of the field, which has spaces
extra() { scontrol show job "$1" | sed -n 's/^ *Extra=//p'; }
# recorded ID WORDS VERDICT: Extra is these words and one record, whose id is put into $record
recorded()
{
	now=$(extra "$1")
	case $now in "${2:+$2 }"p4d-verdict:*) ;; *) fail "job $1: '$now' does not begin with '$2'" ;; esac
	contains "$now" ",verdict=$3,"
	same "$(printf '%s\n' "$now" | tr ' ' '\n' | grep -c '^p4d')" 1 "records of job $1:"
	record=${now##*,id=}
}

# each verdict, and nothing of it in AdminComment
run sbatch -H large.sh
accepted
recorded "$id" '' would-refuse
lacks "$(job "$id" AdminComment)" p4d-verdict
contains "$now" 'code=P4D012'
run sbatch -H --extra='my words' large.sh
recorded "$id" 'my words' would-refuse
run sbatch -H --extra='my p4d-verdict:verdict=pass,id=1 p4d:0123:verdict=pass words' $node $full job.sh
accepted
recorded "$id" 'my words' pass
contains "$(job "$id" AdminComment)" p4d
run sbatch -H --extra='p4d-verdict:verdict=pass,id=1' -N1 job.sh
accepted
lacks "$(extra "$id")" p4d

# an update of Extra keeps the record, one of what p4d judges renews it
run sbatch -H --extra=before $node $full job.sh
recorded "$id" before pass
first=$record
run scontrol update jobid="$id" extra='after p4d-verdict:verdict=refuse,id=1'
accepted
recorded "$id" after pass
same "$record" "$first" "record:"
run scontrol update jobid="$id" partition=a100
accepted
recorded "$id" after would-refuse
[ "$record" != "$first" ] || fail "the record of the other partition is the old one"

# each task of an array gets its own record, and keeps its words
run sbatch -H -a 1-3 --extra=tasks $node $full job.sh
accepted
recorded "${id}_1" tasks pass
run scontrol update jobid="${id}_1" extra=one
run scontrol update jobid="${id}_2" extra=two
run scontrol update jobid="$id" partition=a100
accepted
records=
for task in 1:one 2:two 3:tasks; do
	recorded "${id}_${task%:*}" "${task#*:}" would-refuse
	records="$records $record"
done
same "$(printf '%s\n' $records | sort -u | wc -l)" 3 "different records:"

# the record stays with the job when slurmctld starts again
restart_controller
recorded "${id}_2" two would-refuse

# where it is a constraint, it is Slurm's
echo 'SchedulerParameters=extra_constraints' >>"$own/etc/slurm.conf"
restart_controller
wait_until logged "SchedulerParameters=extra_constraints reads Extra as a constraint"
run sbatch -H large.sh
accepted
lacks "$(extra "$id")" p4d
