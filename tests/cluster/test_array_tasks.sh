#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An array whose script says other things in other tasks is judged by the worst of them: by sbatch, by slurmctld, which sees
# the script alone, and by p4d check.
. "${0%/*}/lib.sh"

conf=$CLUSTER/etc/p4d.conf
sed "s/^mode = enforce/&\nscripts = judge/" "$CLUSTER/p4d.conf.good" >"$conf.new"
put_site "$conf.new"

cat >train.sh <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
sizes=(8 8 1)
torchrun --nproc_per_node 8 pretrain_gpt.py \
	--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 \
	--seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope \
	--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights \
	--disable-bias-linear --vocab-size 32000 --bf16 --hidden-dropout 0 \
	--tensor-model-parallel-size ${sizes[$SLURM_ARRAY_TASK_ID]} \
	--micro-batch-size 1 --global-batch-size 64
END
sed 's/\${sizes.*]}/$(sed -n "${SLURM_ARRAY_TASK_ID}p" sizes)/' train.sh >file.sh
printf '8\n1\n' >sizes

# through_a_pipe OPTION...: sbatch's plugin sees no script then, so slurmctld judges. It compares as many tasks as 40 ms of its
# processor allow. On a machine of many times more work than processors that was none once: such a submission is repeated.
through_a_pipe()
{
	for _ in 1 2 3; do
		run sh -c 'cat train.sh | sbatch -H "$@"' sh "$@"
		case $err in *"is known only to the running job"*) ;; *) return ;; esac
	done
}

worst="[P4D012] array task 2, the worst of 3: "
run sbatch -H --array=0-2 train.sh
refused P4D012 spank
says "$worst"
says "p4d: fix: for array task 2: train.sh:4: add "
through_a_pipe --array=0-2
refused P4D012 slurmctld
says "$worst"
says "p4d: fix: p4d check JOB.sh"
run p4d check --array=0-2 train.sh
same "$status" 12
says "$worst"

run sbatch -H --array=0-1%1 train.sh
accepted
silent
through_a_pipe --array=0-1%1
accepted
silent
run p4d check --array=0-1%1 train.sh
accepted
silent
SBATCH_ARRAY_INX=0,2
export SBATCH_ARRAY_INX
run sbatch -H train.sh
refused P4D012 spank
says "[P4D012] array task 2, the worst of 2: "
unset SBATCH_ARRAY_INX

# without an array there is no such variable
run sbatch -H train.sh
accepted
says "p4d cannot tell tp (\$SLURM_ARRAY_TASK_ID is not set)"

# slurmctld reads no file, and adopts what sbatch found
run sbatch -H --array=1-2 file.sh
refused P4D012 spank
says "[P4D012] array task 2, the worst of 2: "
run sh -c 'cat file.sh | sbatch -H --array=1-2'
accepted
# the tasks run with what p4d read
sed 's/^torchrun/echo/' train.sh >echo.sh
run sbatch --array=0-1 -o 'out-%a' echo.sh
accepted
finished "${id}_0"
finished "${id}_1"
contains "$(cat out-1)" "--tensor-model-parallel-size 8"
