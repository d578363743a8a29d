#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mode = warn: the refusal is printed, and the job accepted.
. "${0%/*}/lib.sh"

run sbatch -H -p warn $node $toobig job.sh
accepted
says "p4d: [P4D013]"
says "p4d: the job is submitted, because this site only warns; later it may refuse such jobs"
# of a step, srun says so, and the step not again
cat >steps.sh <<'END'
#!/bin/sh
srun -n1 --p4d-tp=4 true
echo "other=$?"
END
run sbatch -p warn $node $full -o out steps.sh
accepted
finished "$id"
run cat out
contains "$out" "other=0"
same "$(printf '%s\n' "$out" | grep -c 'P4D044')" 1 "reasons"

# from which day, if p4d.conf says that, from sbatch and from slurmctld
next=$(($(date +%Y) + 1))
sed "/^partition warn {/,/^}/d" "$CLUSTER/p4d.conf.good" |
	sed "s/^version = 1/mode = warn/; /^mode = enforce/d" >conf
cat >>conf <<END
partition "w*" {
	gpu = { "h100" }
	gpus_per_node = 8
	mode = enforce
	from = $next-01-15
}
version = 1
END
put_site conf
run sbatch -H -p warn $node $toobig job.sh
accepted
says "p4d: the job is submitted; from $next-01-15 this site refuses such jobs"
run sbatch -H -p h100,warn $node $toobig job.sh
accepted
says "from $next-01-15"
run sbatch -H -p h100 $node $toobig job.sh
accepted
lacks "$err" "$next"
# advice on a script is no refusal
printf '#!/bin/sh\n%s\n' "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 --bf16 --micro-batch-size 1 --global-batch-size 64" >train.sh
run sbatch -H -p warn $node train.sh
accepted
says "p4d: [P4D01"
does_not_say "this site"
(without_spank; run sbatch -H -p warn $node train.sh; says "p4d: [P4D01"; does_not_say "this site") || exit 1
sed 's/^mode = warn/&\nscripts = judge/' conf >judge
put_site judge
run sbatch -H -p warn $node train.sh
accepted
says "from $next-01-15"
(without_spank; run sbatch -H -p warn $node train.sh; says "from $next-01-15") || exit 1
