#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With `optional p4d.so` Slurm ignores that p4d refused a job, and submits it: slurmctld refuses it then.
. "${0%/*}/lib.sh"

echo "optional $BUILD/.libs/p4d.so conf=$CLUSTER/etc/p4d.conf" >plugstack.conf
sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/plugstack.conf|" "$SLURM_CONF" >slurm.conf
export SLURM_CONF="$work/slurm.conf"

by_slurmctld()
{
	[ "$status" != 0 ] || fail "not refused"
	says ": error: p4d: [P4D"
}

run sbatch -H $node $full job.sh
accepted
silent
# too large: with a plan, and the fix of the side that submitted
run sbatch -H $node $toobig job.sh
refused P4D013 slurmctld
says "refused, for the reason that p4d gave above"
same "$(printf '%s\n' "$err" | grep -c 'p4d: fix:')" 1 "fixes"
# options without a plan: their meaning is unknown
run sbatch -H $node --p4d-model=nosuchmodel job.sh
by_slurmctld
run sbatch -H $node --p4d-model=llama13b --p4d-tp=3 job.sh
by_slurmctld
run salloc --no-shell $node $toobig
by_slurmctld
run srun $node $toobig true
by_slurmctld
# the reason and the fix of a step are printed once
cat >steps.sh <<'END'
#!/bin/sh
srun -n1 --p4d-tp=4 true
echo "other=$?"
END
run sbatch $node $full -o out steps.sh
accepted
finished "$id"
run cat out
lacks "$out" "other=0"
same "$(printf '%s\n' "$out" | grep -c 'P4D044')" 1 "reasons"
same "$(squeue -h -n "$SBATCH_JOB_NAME" -o %i | wc -l)" 1 "jobs submitted"
# a broken or missing plugin breaks nobody
echo "optional $work/missing.so" >plugstack.conf
run sbatch -H $node job.sh
accepted
nodes_are_up
