#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Arrays: the script is read as each task runs it, and the worst task is judged and named.
. "${0%/*}/lib.sh"
unset TP SLURM_ARRAY_TASK_ID SBATCH_ARRAY_INX
sed 's/^mode = enforce/&\nscripts = judge/' p4d.conf >judge.conf
check='p4d check --conf judge.conf'
sizes='--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096'
sizes="$sizes --micro-batch-size 1 --global-batch-size 512 --bf16 --vocab-size 32000"
train="srun python pretrain_gpt.py $sizes --seed \$SLURM_ARRAY_TASK_ID --tensor-model-parallel-size"
# array LIST: a script of that array, whose lines are the input
array()
{
	{
		printf '%s\n' '#!/bin/bash' '#SBATCH -p h100 -N1 --gpus-per-node=8 --ntasks-per-node=8' "#SBATCH --array=$1"
		cat
	} >job.sh
}
refuses() { exits 12 $check ${2:+"$2"} job.sh; says "[P4D012] array task $1: job.sh:"; prints "would be refused: array task $1: custom on 1 node of 8 x h100-80gb, tp=1"; }

# ways to choose by the number of the task: an array, a case, arithmetic, a line or a field of a file
printf '8\n1\n' >tps
printf 'TaskID tp lr\n0 8 1e-4\n1 1 3e-4\n' >table
printf '%s %s\n' 8 1e-4 1 3e-4 >params
echo TP=8 >config_0.sh
echo TP=1 >config_1.sh
while IFS= read -r line; do
	array 0-1 <<-E
		tps=(8 1)
		$line
		$train \$TP
	E
	refuses '1, the worst of 2'
done <<'E'
TP=${tps[$SLURM_ARRAY_TASK_ID]}
TP=${tps[SLURM_ARRAY_TASK_ID % 2]}
i=$SLURM_ARRAY_TASK_ID; TP=${tps[$((i))]}
case $SLURM_ARRAY_TASK_ID in 0) TP=8 ;; *) TP=1 ;; esac
if [ "$SLURM_ARRAY_TASK_ID" -eq 0 ]; then TP=8; else TP=1; fi
TP=$((8 - 7 * SLURM_ARRAY_TASK_ID))
mapfile -t list < tps; TP=${list[$SLURM_ARRAY_TASK_ID]}
TP=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" tps)
TP=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1)){p;q}" tps)
TP=$(sed "$((SLURM_ARRAY_TASK_ID + 1))q;d" tps)
TP=$(sed '1d' table | sed "$((SLURM_ARRAY_TASK_ID + 1))!d" | cut -d' ' -f2)
TP=$(head -n $((SLURM_ARRAY_TASK_ID + 1)) tps | tail -n 1)
TP=$(awk "NR==$((SLURM_ARRAY_TASK_ID + 1))" tps)
TP=$(awk -v n=$SLURM_ARRAY_TASK_ID 'NR==n+1 {print $1}' params)
TP=$(awk -v ArrayTaskID=$SLURM_ARRAY_TASK_ID '$1==ArrayTaskID {print $2}' table)
TP=$(awk -v id="$SLURM_ARRAY_TASK_ID" '$1 == id { print $2; exit }' table)
read -r TP LR <<<"$(sed -n "$((SLURM_ARRAY_TASK_ID + 1)),$((SLURM_ARRAY_TASK_ID + 1))p" params)"
IFS=' ' read -r TP LR <<<"$(awk -v n=$((SLURM_ARRAY_TASK_ID + 1)) 'NR == n { print $1, $2 }' params)"
TP=$(echo 8 1 | awk -v i=$((SLURM_ARRAY_TASK_ID + 1)) '{print $i}')
set -- 8 1; shift $SLURM_ARRAY_TASK_ID; TP=$1
source config_$SLURM_ARRAY_TASK_ID.sh
n=0; for tp in 8 1; do if [ $n -eq $SLURM_ARRAY_TASK_ID ]; then TP=$tp; fi; n=$((n + 1)); done
[ $SLURM_ARRAY_TASK_ID -eq $SLURM_ARRAY_TASK_MAX ] && TP=1 || TP=8
TP=$((SLURM_ARRAY_TASK_COUNT * 4)); [ $SLURM_ARRAY_TASK_ID = $SLURM_ARRAY_TASK_MIN ] || TP=1
E

# --array may be typed, or come from the environment; the one that takes precedence is used
array 0 <<E
tps=(8 1 8)
$train \${tps[\$SLURM_ARRAY_TASK_ID]}
E
exits 0 $check job.sh
prints "would pass: custom on 1 node of 8 x h100-80gb, tp=8"
refuses '1, the worst of 3' --array=0-2
says "fix: for array task 1: job.sh:5: add "
refuses '1, the worst of 2' --array=1-2%1
refuses '1, the worst of 2' --array=0,1,0
exits 0 $check --array=0-3:2 job.sh
SBATCH_ARRAY_INX=1-2 exits 12 $check job.sh
exits 12 $check --json --array=0-2 job.sh
prints '"array_task":1' '"verdict":"reject"'
# without an array there is no such variable
sed -i 's/^#SBATCH --array.*/#/; s/--seed [^ ]*//; s/\${tps.*/${SLURM_ARRAY_TASK_ID:-1}/' job.sh
exits 12 $check job.sh
prints "would be refused: custom on 1 node of 8 x h100-80gb, tp=1"

# tasks that differ only in seeds, paths and rates are one job
array 0-7 <<E
lrs=(1e-4 3e-4)
tps=(8 8)
$train \${tps[SLURM_ARRAY_TASK_ID % 2]} --lr \${lrs[SLURM_ARRAY_TASK_ID / 4]}
E
exits 0 $check job.sh
prints "would pass: custom"
silent
# a comment of the script counts for each of them
array 0-1 <<E
# p4d: micro-batch=1
tps=(8 4)
$(printf '%s' "$train" | sed 's/micro-batch-size 1/micro-batch-size 64/') \${tps[\$SLURM_ARRAY_TASK_ID]}
E
exits 0 $check job.sh
prints "array task 1, the worst of 2: custom on 1 node of 8 x h100-80gb, tp=4" "micro-batch=1"
# the message has the memory of the worst task that passes
array 0-1 <<E
tps=(8 4)
$train \${tps[SLURM_ARRAY_TASK_ID]}
E
exits 0 $check job.sh
prints "array task 1, the worst of 2: custom on 1 node of 8 x h100-80gb, tp=4"

# what p4d cannot read is unknown: a missing file, a task with an unset variable, more tasks than p4d reads
array 0-1 <<E
$train \$(sed -n "\$((SLURM_ARRAY_TASK_ID + 1))p" nowhere)
E
exits 0 $check job.sh
says '[P4D117]' 'output of sed'
array 0-1 <<E
tps=(8 \$UNKNOWN)
$train \${tps[SLURM_ARRAY_TASK_ID]}
E
exits 0 $check job.sh
says '[P4D117] array task 1, the worst of 2: job.sh:5'
array 0-99 <<E
tps=(8 8 8 8)
$train \${tps[SLURM_ARRAY_TASK_ID / 25]}
E
exits 0 $check job.sh
says '[P4D117]' 'SLURM_ARRAY_TASK_ID is known only to the running job'
# but a task that was read and does not fit is refused
sed -i 's/tps=(8 8/tps=(8 1/' job.sh
exits 12 $check job.sh
says '[P4D012] array task 25: job.sh:5'
# --array=%2 and the like p4d does not understand
exits 0 $check --array=x-y job.sh
says '[P4D117]'

# a program that only some tasks start, and whole commands from a file
array 1-2 <<E
if [ \$SLURM_ARRAY_TASK_ID -eq 1 ]; then python prepare.py; else $train 1; fi
E
refuses '2, the worst of 2'
printf '%s\n' "$train 8" "$train 1" >commands.txt
array 1-2 <<'E'
eval "$(sed -n "${SLURM_ARRAY_TASK_ID}p" commands.txt)"
E
exits 12 $check job.sh
says '[P4D012] array task 2, the worst of 2: commands.txt:2'
exits 0 p4d read job.sh
prints "Array task 1:" "job.sh: pretrain_gpt.py (megatron), started at commands.txt:2"

# the command p4d read prints each kind of task once
array 0-3 <<E
tps=(8 1 8 1)
$train \${tps[SLURM_ARRAY_TASK_ID]}
E
exits 0 p4d read job.sh
prints 'Array task 0: tp 8 (job.sh:4)' 'Array task 1: tp 1 (job.sh:4)' 'SLURM_ARRAY_TASK_ID is known only to the running job'
[ "$(printf '%s\n' "$out" | grep -c '^Array task')" = 2 ] || fail "not two kinds of task"
exits 0 p4d read --json job.sh
prints '"array_task":0' '"array_task":1'

# options of p4d count for all tasks: one that a task contradicts is refused
exits 46 $check --p4d-tp=8 job.sh
says '[P4D046] array task 1, the worst of 4: --p4d-tp=8 does not reach the program: job.sh:4 has --tensor-model-parallel-size 1'

# jobs of a launcher
cat >launch.sh <<'E'
#!/bin/bash
for seed in 1 2; do sbatch --array=0-2 job.sh $seed; done
E
exits 12 $check launch.sh
prints "the job that launch.sh submits at line 2, array task 1, the worst of 4:"
exits 0 p4d read launch.sh
prints "The job that launch.sh submits at line 2, array task 1:"
