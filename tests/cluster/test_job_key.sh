#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs of p4d-train get a key that no other job has; others get none.
. "${0%/*}/lib.sh"

# key ARGUMENT...: the P4D_JOB_KEY of such a job
key()
{
	rm -f out
	run sbatch -o out "$@" job.sh
	accepted
	finished "$id"
	key=$(sed -n 's/^P4D_JOB_KEY=//p' out)
}

key $node $full
first=$key
case $first in
*[!0-9a-f]*) fail "key '$first' is not hexadecimal" ;;
????????????????????????????????) ;;
*) fail "key '$first' has not 32 digits" ;;
esac
# also with --export=NONE, for the batch script and for its steps. Slurm then asks su for the environment, which may
# have no PATH, and 26.05 holds the job of a user for whom su does not answer
export_none=--export=NONE
[ "$(id -u)" = 0 ] || case $(sinfo -V) in *" 2"[2-5].*) ;; *) export_none= ;; esac
cat >steps.sh <<'END'
#!/bin/sh
export PATH=/usr/bin:/bin
env | sed -n 's/^\(SLURM_SPANK_\)*P4D_JOB_KEY=/\1batch=/p'
srun --export=ALL env | sed -n 's/^P4D_JOB_KEY=/step=/p'
END
rm -f out
run sbatch $export_none -o out $node $full steps.sh
accepted
finished "$id"
key=$(sed -n 's/^batch=//p' out)
[ "${#key}" = 32 ] || fail "with --export=NONE the key is '$key': $(cat out)"
same "$(sed -n 's/^step=//p' out | sort -u)" "$key" "the step has key"
# nobody else sees it: neither in slurmctld's answers about the job nor in a log
lacks "$(scontrol -dd show job "$id"; squeue -t all -h -j "$id" -O ALL 2>/dev/null; sacct -j "$id" -P -o ALL 2>/dev/null)" "$key"
! grep -q "$key" "$CLUSTER"/log/* || fail "the key is in $(grep -l "$key" "$CLUSTER"/log/* | tr '\n' ' ')"
find "$CLUSTER/state" "$CLUSTER/spool" -type f -perm /077 -exec grep -l "$key" {} + 2>/dev/null | grep . &&
	fail "these files with the key can be read by others"
export P4D_JOB_KEY=$first
key $node $full
[ -n "$key" ] && [ "$key" != "$first" ] || fail "the second job has key '$key'"
key -N1
same "$key" "" "a job without p4d options has key"
unset P4D_JOB_KEY
key $node ${full%framework=p4d}framework=megatron
same "$key" ""
run srun $node -n8 $full env
accepted
same "$(variable P4D_JOB_KEY | sort | uniq -c | awk '{ print $1 }')" 8 "tasks with the same key"
