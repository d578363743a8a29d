#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurmctld keeps the digest of an approved plan in AdminComment, and steps are compared with it; others may write
# there as well.
. "${0%/*}/lib.sh"

# admin_comment KIND: sets it, and waits until slurmctld has seen it
admin_comment()
{
	sed "s/^admin_comment = plan$/admin_comment = $1/" "$CLUSTER/p4d.conf.good" >conf
	put_site conf
}
admin_comment digest

cat >steps.sh <<'END'
#!/bin/sh
srun -n1 hostname >/dev/null
echo "plain=$?"
srun -n1 --export=NONE --p4d-tp=8 /bin/true
echo "same=$?"
srun -n1 --p4d-tp=4 true
echo "differs=$?"
P4D_TP=1 srun -n1 sh -c 'echo "tp=$P4D_TP"'
env -u P4D_PLAN -u SLURM_SPANK_P4D_PLAN srun -n1 --p4d-model=llama13b --p4d-tp=8 sh -c 'echo "again=$P4D_PP"'
env -u P4D_PLAN -u SLURM_SPANK_P4D_PLAN srun -n1 --p4d-model=llama7b --p4d-tp=8 true
echo "another=$?"
eval "$(p4d plan --env --model=llama7b --gpu=h100 --nodes=1 --gpus-per-node=8 --tp=8)"
srun -n1 true
echo "forged=$?"
END
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o out steps.sh
accepted
comment=$(job "$id" AdminComment)
[ ${#comment} -le 200 ] || fail "AdminComment has ${#comment} characters: $comment"
contains "$comment" "p4d:"
contains "$comment" "47.6of79.1GiB,nodes=1,gpus-per-node=8,tp=8,"
contains "$comment" "model=llama13b"
finished "$id"
run cat out
contains "$out" "plain=0"
contains "$out" "same=0"
lacks "$out" "differs=0"
contains "$out" "tp=8"
contains "$out" "again=1"
lacks "$out" "another=0"
lacks "$out" "forged=0"
contains "$out" "p4d: [P4D044] this step has another plan than the one that p4d approved for the job"

# from outside the job there is no plan to look at, but it can be made again
run salloc -n8 --no-shell $node --p4d-model=llama13b --p4d-tp=8
accepted
id=$(printf '%s\n' "$err" | sed -n 's/.*Granted job allocation //p')
run srun --jobid="$id" -n1 --p4d-model=llama13b --p4d-tp=8 sh -c 'echo "pp=$P4D_PP"'
accepted
contains "$out" "pp=1"
run srun --jobid="$id" -n1 --p4d-model=llama13b --p4d-tp=4 true
refused P4D044
run srun --jobid="$id" -n1 true
accepted
scancel "$id"

# nothing of p4d's that a user wrote, and everything of others, which may also replace the digest: then a step is judged
run submit --gpus=8 --admin-comment='ticket  7 p4d:forged p4d1:forged and more'
accepted
case $(scontrol -o show job "$id") in
*"AdminComment=ticket  7 and more "*) ;;
*) fail "AdminComment=$(job "$id" AdminComment)" ;;
esac
cat >replaced.sh <<'END'
#!/bin/sh
scontrol update jobid="$SLURM_JOB_ID" admincomment='{"other": 1}'
srun -n1 true
echo "mine=$?"
eval "$(p4d plan --env --model=llama2-70b --gpu=b200 --nodes=1 --gpus-per-node=8)"
srun -n1 true
echo "large=$?"
END
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o out replaced.sh
accepted
finished "$id"
run cat out
contains "$out" "mine=0"
lacks "$out" "large=0"

admin_comment none
run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
same "$(job "$id" AdminComment)" ""
nodes_are_up
