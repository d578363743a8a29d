#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Launchers: scripts that submit jobs themselves, which p4d read and p4d check follow.
. "${0%/*}/lib.sh"
unset TP SIZE GPUS SCRIPT OPTS
sed 's/^mode = enforce/&\nscripts = judge/' p4d.conf >judge.conf
check='p4d check --conf judge.conf'
train='pretrain_gpt.py --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096'
train="$train --micro-batch-size 1 --global-batch-size 512 --bf16 --vocab-size 32000 --tensor-model-parallel-size"
lines='#SBATCH -p h100 --gpus-per-node=8 --ntasks-per-node=8'
launcher() { { echo '#!/bin/bash'; cat; } >launch.sh; }

# a here-document in a loop; the worst of them is judged and named
launcher <<E
for tp in 8 1 4; do
	sbatch --job-name=tp\$tp -N1 <<EOT
#!/bin/bash
$lines
srun python $train \$tp --tensorboard-dir "\\\$SCRATCH"
EOT
done
E
exits 12 $check launch.sh
prints "the job that launch.sh submits at line 3, the worst of 3:" "would be refused: custom on 1 node of 8 x h100-80gb, tp=1" "tp=1 (launch.sh:6)"
exits 12 $check --json launch.sh
prints '"submitted_by":"launch.sh:3"' '"verdict":"reject"'
exits 0 p4d read launch.sh
[ "$(printf '%s\n' "$out" | grep -c '^The job that launch.sh submits at line 3:')" = 3 ] || fail "not 3 jobs"
exits 0 p4d read --json launch.sh
prints '"submitted_by":"launch.sh:3"' '"from":"launch.sh:6"' '"program":null'

# a file that the launcher writes, or an existing one, with its variables and arguments
launcher <<E
for size in 1 8; do
	cat >run_\$size.sh <<'EOT'
#!/bin/bash
$lines
srun python $train \$SIZE
EOT
	job=\$(SIZE=\$size sbatch --parsable --nodes=1 --quotatype=reserved run_\$size.sh)
done
E
exits 12 $check launch.sh
prints "submits at line 8, the worst of 2:" 'tp=1 ($SIZE)'
says "launch.sh:6 (pretrain_gpt.py)"
printf '%s\n' '#!/bin/bash' "$lines -N1" "srun python $train \$1 --lr \"\$LR\"" >inner.sh
launcher <<'E'
for lr in 1e-4 3e-4; do
	sbatch $OPTS --export=ALL,LR=$lr inner.sh 1
done
E
exits 12 $check launch.sh
prints "submits at line 3, the worst of 2:" 'tp=1 ($1)'
says "inner.sh:3 (pretrain_gpt.py)"
exits 0 p4d read launch.sh
[ "$(printf '%s\n' "$out" | grep -c '^The job that')" = 1 ] || fail "both say the same"
printf '%s\n' '#!/bin/bash' 'export TP=1' "sbatch -p h100 -N1 --gpus-per-node=8 --ntasks-per-node=8 --wrap=\"srun python $train \\\$TP\"" >launch.sh
exits 12 $check launch.sh
prints "the job that launch.sh submits at line 3:" 'tp=1 ($TP)'
# not one that it does not export
sed -i 's/export //' launch.sh
exits 0 $check launch.sh
says 'TP is not set'

# p4d does not guess: options of sbatch, the script, a file that may set any variable
launcher <<'E'
sbatch --gpus-per-node=$GPUS -N1 inner.sh 1
sbatch -p h100 $(choose_nodes) inner.sh 1
sbatch $SCRIPT
sbatch nosuch.sh
E
exits 0 $check launch.sh
prints "the job has no p4d options"
silent
exits 0 p4d read launch.sh
prints "p4d found no training program"
launcher <<'E'
source /nosuch/env.sh
TP=1
export TP
sbatch inner.sh $TP
E
exits 0 $check launch.sh
prints "the job that launch.sh submits at line 5:"
says "/nosuch/env.sh cannot be read"

# a job that trains has its own answer first, which decides; one that submits itself again is no other
launcher <<E
#SBATCH -p h100 -N1 --gpus-per-node=8 --ntasks-per-node=8
sbatch --dependency=afterany:\$SLURM_JOB_ID \$0
sbatch --dependency=afterok:\$SLURM_JOB_ID inner.sh 1
srun python $train 8
E
exits 0 $check launch.sh
case $out in "p4d: would pass: custom on 1 node"*"the job that launch.sh submits at line 4:"*) ;; *) fail "not in this order" ;; esac
sed -i '/inner.sh/d' launch.sh
exits 0 $check launch.sh
case $out in *submits*) fail "it is no other job" ;; esac

# sections of p4d.conf for programs, and variables of sbatch that the launcher exports, count in the job; options that are typed for the
# launcher are its own
sed 's/^version/program "tools\/mine.py" { is = megatron }\n&/' judge.conf >program.conf
printf '%s\n' '#!/bin/bash' "$lines -N1" "srun python tools/mine.py ${train#pretrain_gpt.py} 1" >own.sh
launcher <<'E'
sbatch own.sh
E
exits 12 p4d check --conf program.conf launch.sh
prints "the job that launch.sh submits at line 2:" "would be refused: custom on 1 node of 8 x h100-80gb, tp=1"
printf '%s\n' '#!/bin/bash' '#SBATCH -N1 --gpus-per-node=8 --ntasks-per-node=8' "srun python $train 1" >placed.sh
launcher <<'E'
export SBATCH_PARTITION=debug
sbatch placed.sh
E
exits 0 $check launch.sh
prints "the job that launch.sh submits at line 3:" "(mode = observe; mode = enforce would refuse it)"
sed -i 's/export //' launch.sh
exits 12 $check launch.sh
launcher <<'E'
export SBATCH_PARTITION=$(choose_partition)
sbatch placed.sh
E
exits 0 $check launch.sh
prints "the job has no p4d options"
launcher <<'E'
sbatch placed.sh
E
for option in --p4d-tp=8 --partition=debug --array=0-3; do
	status=0
	# shellcheck disable=SC2034 # for lib.sh
	out=$($check $option launch.sh 2>err) || status=$?
	# shellcheck disable=SC2034
	err=$(cat err)
	prints "the job that launch.sh submits at line 2:" "would be refused: custom on 1 node of 8 x h100-80gb, tp=1"
done
launcher <<'E'
export SBATCH_P4D_MODEL=llama13b SBATCH_P4D_TP=8
sbatch placed.sh
E
exits 46 $check launch.sh
says "--p4d-tp=8 does not reach the program: placed.sh:3 has --tensor-model-parallel-size 1"
