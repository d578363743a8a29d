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
# slurmctld also refuses wrong options for an array whose tasks differ, although it accepts the script alone
cat >tasks.sh <<'END'
#!/bin/sh
srun python pretrain_gpt.py $A --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096 \
	--max-position-embeddings 4096 --vocab-size 32000 --bf16 --micro-batch-size 1 --global-batch-size 64 \
	--tensor-model-parallel-size $((8 >> SLURM_ARRAY_TASK_ID))
END
sed 's/-parallel-size .*/& --pipeline-model-parallel-size 4/; s/--num-layers 40/--num-layers 80/; s/hidden-size 5120/hidden-size 8192/' tasks.sh >larger.sh
run sbatch -H -a 0-1 $node tasks.sh
accepted
scancel "$id"
for options in --p4d-model=nosuchmodel --p4d-model=llama2-70b; do
	run sbatch -H -a 0-1 $node $options tasks.sh
	by_slurmctld
	run sbatch -H -a 0-1 -N2 --gpus-per-node=8 $options larger.sh
	by_slurmctld
done
# nodes and tasks that sbatch derives from GPUs that stay idle
run sbatch -H --gpus=8 --gpus-per-node=2 --p4d-model=llama13b --p4d-device=cpu job.sh
accepted
scancel "$id"
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
