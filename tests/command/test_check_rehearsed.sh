#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d check says what the user has rehearsed of a job's program (tests/rehearsal/played.c), as sbatch does.
. "${0%/*}/lib.sh"

played=$P4D_TEST_BUILDDIR/tests/rehearsal/played
[ -x "$played" ] || exit 77
cp "$played" program
cat >job.sh <<'JOB'
#!/bin/bash
#SBATCH -N2 --gpus-per-node=8 --ntasks-per-node=8
export NCCL_DEBUG=INFO
srun --label ./program 10240 --output_dir /tmp/$SLURM_JOB_ID --seed 3
JOB
rehearsed="[P4D124] rehearsed $(date +%F)"

# unsaid TEXT: the last run did not say it
unsaid() { case $err in *"$1"*) false ;; esac; }

# before anything was rehearsed, p4d knows nothing of it
exits 0 p4d check --conf p4d.conf job.sh
prints "the job has no p4d options, not checked"
exits 0 p4d rehearse --nodes 2 --gpus-per-node 8 --ranks first -- ./program 10240
record=$(ls "$XDG_CACHE_HOME"/p4d/rehearsals/*)
[ "$(stat -c %a "$record")" = 600 ] || fail "others may read $record"
exits 0 p4d check --conf p4d.conf job.sh
prints "would pass: checked with the result of a rehearsal"
says "p4d: $rehearsed: 10.5 of 79.1 GiB (13 %) on h100-80gb; training only; rank 0 only"
exits 0 p4d check --json --conf p4d.conf job.sh
prints '"code":"P4D124"'

exits 0 p4d rehearse --nodes 2 --gpus-per-node 8 --ranks 3,15 --phases train,save -- ./program 10240
exits 0 p4d check --conf p4d.conf job.sh
says "on h100-80gb; without evaluation; ranks 3,15 only"
exits 0 p4d rehearse --nodes 2 --gpus-per-node 8 --phases eval,save -- ./program 10240
exits 0 p4d check --conf p4d.conf job.sh
says "on h100-80gb"
case $err in *"h100-80gb;"*) fail "nothing was left out" ;; esac

# another geometry, GPU, command, or variable of the command was not rehearsed
for change in s/-N2/-N1/ s/gpus-per-node=8/gpus-per-node=4/ s/tasks-per-node=8/tasks-per-node=1/ 's/ --ntasks-per-node=8//' 's/srun/& -n8/' \
	's/srun --label/torchrun --nproc_per_node 4/' s/10240/10241/ 's/^srun/export BATCH=4\n&/' 's/srun/BATCH=4 &/' 's/^srun/cd \/tmp; &/' \
	's/10240/$(nproc)/' 's/srun/& apptainer exec image.sif/'; do
	sed "$change" job.sh >changed.sh
	exits 0 p4d check --conf p4d.conf changed.sh
	prints "not checked"
	unsaid P4D124 || fail "$change: judged by a rehearsal of something else"
done
exits 0 p4d check --conf p4d.conf --gpu a100-80gb job.sh
unsaid P4D124 || fail "judged by a rehearsal on another GPU"
# but the same under another launcher, and with more in front of it
for change in 's/srun --label/srun -n16/' 's/srun --label/torchrun --nproc_per_node 8 --nnodes 2/' 's/srun --label/deepspeed/' 's/^srun --label/export TOKENIZERS_PARALLELISM=false; srun numactl -l /' 's/seed 3/seed 4/' 's/ --seed 3//'; do
	sed "$change" job.sh >changed.sh
	exits 0 p4d check --conf p4d.conf changed.sh
	says "$rehearsed"
done

# p4d does not know how many of MPI's tasks are on a node
sed 's/srun --label/mpirun -np 16/' job.sh >changed.sh
exits 0 p4d check --conf p4d.conf changed.sh
says "$rehearsed" "p4d cannot tell whether the job runs the program in the same way"

# a job script that was rehearsed unchanged, with a variable for its program
sed -e 's/^srun/export BATCH=$((SLURM_NTASKS * 2)) OUT=$TMPDIR\n&/' -e 's/10240/2048/' job.sh >own.sh
exits 0 p4d rehearse --conf p4d.conf --ranks first own.sh
exits 0 p4d check --conf p4d.conf own.sh
says "$rehearsed: 2.5 of 79.1 GiB (3 %) on h100-80gb"
sed 's/\* 2/* 4/' own.sh >changed.sh
exits 0 p4d check --conf p4d.conf changed.sh
unsaid P4D124 || fail "judged by a rehearsal with another BATCH"

# out of memory: advise warns, judge refuses, ignore is silent; each as the override and the mode say
exits 12 p4d rehearse --gpus-per-node 8 --ranks first -- ./program 102400
sed -e 's/-N2/-N1/' -e 's/10240/102400/' job.sh >large.sh
exits 0 p4d check --conf p4d.conf large.sh
prints "would pass with a warning: checked with the result of a rehearsal"
says "$rehearsed: out of memory on h100-80gb: it requested 100.00 GiB when 0.5 of 79.1 GiB were in use"
sed 's/^mode = enforce/&\nrehearsals = judge/' p4d.conf >judge.conf
sed 's/^mode = enforce/&\nrehearsals = ignore/' p4d.conf >ignore.conf
exits 124 p4d check --conf judge.conf large.sh
prints "would be refused: checked with the result of a rehearsal"
says "$rehearsed: out of memory"
exits 0 p4d check --conf judge.conf job.sh
prints "would pass: checked with the result of a rehearsal"
# a variable that the program may read and whose value p4d does not know: another model's record refuses nobody
for change in '. /shared/params.sh' '. /shared/params.sh; export MODEL' 'export MODEL=$(cat model)' 'read MODEL <model; export MODEL' \
	'set -a; source .env' 'export $(xargs <.env)' 'eval "$(python3 env.py)"' 'export MODEL=model-$SLURM_JOB_PARTITION' \
	'export CONFIG=configs/$SLURM_JOB_NAME.yaml' 'export MODEL=$SLURM_JOB_NAME' 'export SLURM_EXPORT_ENV=ALL,MODEL=7b' \
	'srun --export-file=variables \\' 'if [ -f x ]; then export MODEL=7b; fi' 'MODEL=$(cat model) \\' 'env MODEL=$(cat model) \\' 'srun --export=NONE \\'; do
	sed "s!^srun!$change\n&!" large.sh >unknown.sh
	exits 0 p4d check --conf judge.conf unknown.sh
	says "$rehearsed: out of memory" "p4d cannot tell whether the job runs the program in the same way"
done
# variables that sbatch or srun sets
for option in --export=MODEL --export=NONE --export-file=variables --get-user-env; do
	exits 0 p4d check --conf judge.conf "$option" large.sh
	says "$rehearsed: out of memory" "p4d cannot tell whether the job runs the program in the same way"
done
for option in --export=ALL,MODEL=7b --export=MODEL=7b; do
	exits 0 p4d check --conf judge.conf "$option" large.sh
	prints "not checked"
	unsaid P4D124 || fail "$option: judged by a rehearsal without it"
done
exits 0 env SBATCH_EXPORT=ALL,MODEL=7b p4d check --conf judge.conf large.sh
prints "not checked"
# a rehearsal has them as well
sed -e '2i #SBATCH --export=ALL,MODEL=7b' -e 's/102400/102404/' large.sh >set.sh
exits 12 p4d rehearse --conf p4d.conf --ranks first set.sh
exits 124 p4d check --conf judge.conf set.sh
exits 0 p4d check --conf judge.conf --export=ALL,MODEL=70b set.sh
prints "not checked"
sed -e 's/^srun/MODEL=7b &/' -e 's/102400/102404/' large.sh >same.sh
exits 124 p4d check --conf judge.conf same.sh
exits 0 p4d check --conf judge.conf --export=MODEL=7b set.sh
says "$rehearsed: out of memory" "p4d cannot tell whether the job runs the program in the same way"
# the script sets it to another value, and srun may set it again: p4d cannot tell which value counts
sed 's/^srun/export MODEL=70b\n&/' set.sh >twice.sh
exits 0 p4d check --conf judge.conf twice.sh
says "$rehearsed: out of memory" "p4d cannot tell whether the job runs the program in the same way"
exits 0 env SLURM_EXPORT_ENV=ALL,MODEL=7b p4d check --conf judge.conf large.sh
exits 124 env SLURM_EXPORT_ENV=ALL p4d check --conf judge.conf large.sh
exits 124 p4d check --conf judge.conf --export=ALL large.sh
# a job's name chooses a configuration: the record of one job is not valid for the next; in a path of results it does
# not matter
sed -e '2i #SBATCH -J llama70b' -e 's/^srun/export CONFIG=configs\/$SLURM_JOB_NAME.yaml\n&/' -e 's/102400/102402/' large.sh >unknown.sh
exits 12 p4d rehearse --conf p4d.conf --ranks first unknown.sh
sed -i s/llama70b/llama7b/ unknown.sh
exits 0 p4d check --conf judge.conf unknown.sh
says "$rehearsed: out of memory" "p4d cannot tell whether the job runs the program in the same way"
sed 's/SLURM_JOB_ID/SLURM_JOB_NAME/' large.sh >same.sh
exits 124 p4d check --conf judge.conf same.sh
# one that it knows is that of another command; one that Slurm sets, or that sets a path, is none
for change in 'export MODEL=7b' 'export PYTHONPATH=/shared/code' 'export PYTHONPATH=$PYTHONPATH:/shared/code' 'env MODEL=7b \\' 'srun --export=ALL,MODEL=7b \\' \
	'mpirun -np 8 -x MODEL=7b \\'; do
	sed "s!^srun!$change\n&!" large.sh >known.sh
	exits 0 p4d check --conf judge.conf known.sh
	prints "not checked"
	unsaid P4D124 || fail "$change: judged by a rehearsal without it"
done
for change in 'export RUN=$SLURM_JOB_ID' 'module load cuda' 'export PATH=$PATH:/opt' 'MODEL=$(cat model)' 'srun --export=ALL \\'; do
	sed "s!^srun!$change\n&!" large.sh >same.sh
	exits 124 p4d check --conf judge.conf same.sh
done
# launchers' variables take precedence over the script's: the same two values the other way round are another command
sed -e 's/^srun/export MODEL=70b\nenv MODEL=7b &/' -e 's/102400/102403/' large.sh >twice.sh
exits 12 p4d rehearse --conf p4d.conf --ranks first twice.sh
sed -e 's/70b/x/' -e 's/=7b/=70b/' -e 's/=x/=7b/' twice.sh >changed.sh
exits 0 p4d check --conf judge.conf changed.sh
sed -e 's/^srun/MODEL=7b &/' -e 's/102400/102403/' large.sh >once.sh
exits 12 p4d rehearse --gpus-per-node 8 --ranks first -- env MODEL=7b ./program 102403
exits 124 p4d check --conf judge.conf once.sh
# env may also remove variables
sed -e 's/^srun/export MODEL=7b\nenv -u MODEL &/' -e 's/102400/102403/' large.sh >less.sh
exits 0 p4d check --conf judge.conf less.sh
# and a rehearsal with a variable is not one of a job without it
sed 's/102400/102403/' large.sh >without.sh
exits 0 p4d check --conf judge.conf without.sh
prints "not checked"
# variables of the environment that the script names
sed 's/^srun/export MODEL="${MODEL:-7b}"\n&/' large.sh >named.sh
exits 12 p4d rehearse --conf p4d.conf --ranks first named.sh
exits 124 p4d check --conf judge.conf named.sh
MODEL=70b exits 0 p4d check --conf judge.conf named.sh
prints "not checked"
# a script with such a variable finds its own record, which is no other script's
sed -e 's/^srun/export MODEL=$(cat model)\n&/' -e 's/102400/102401/' large.sh >unknown.sh
exits 12 p4d rehearse --conf p4d.conf --ranks first unknown.sh
exits 0 p4d check --conf judge.conf unknown.sh
says "$rehearsed: out of memory" "p4d cannot tell whether the job runs the program in the same way"
sed 's/102400/102401/' large.sh >known.sh
exits 0 p4d check --conf judge.conf known.sh
prints "not checked"
exits 0 p4d check --conf judge.conf -p debug large.sh
prints "would pass"
exits 0 p4d check --conf ignore.conf large.sh
prints "not checked"
unsaid P4D124 || fail "ignored, and said"
# where a plan is required, a record does not replace it
exits 0 p4d rehearse --gpu a100-40gb --gpus-per-node 8 --ranks first -- ./program 1024
sed -e 's/-N2/-N1 -p strict/' -e 's/10240/1024/' job.sh >strict.sh
exits 43 p4d check --conf p4d.conf strict.sh
says "[P4D043]" "$rehearsed: 1.5 of 39.4 GiB"

# a changed program is another one; also a configuration that it gets
cp program kept
echo >>program
exits 0 p4d check --conf judge.conf large.sh
prints "not checked"
cp kept program
exits 124 p4d check --conf judge.conf large.sh
echo '{"layers": 2}' >config.json
exits 12 p4d rehearse --gpus-per-node 8 --ranks first -- ./program 102400 --config config.json
sed 's/102400/& --config config.json/' large.sh >config.sh
exits 124 p4d check --conf judge.conf config.sh
echo '{"layers": 3}' >config.json
exits 0 p4d check --conf judge.conf config.sh
prints "not checked"

# a file that p4d did not write is not a record
for record in "$XDG_CACHE_HOME"/p4d/rehearsals/*; do
	head -c 3000 /dev/urandom >"$record"
done
exits 0 p4d check --conf judge.conf large.sh
prints "not checked"
rm -r "$XDG_CACHE_HOME/p4d/rehearsals"
mkdir foreign
echo x >foreign/passwd
ln -s "$work/foreign" "$XDG_CACHE_HOME/p4d/rehearsals"
exits 0 p4d check --conf judge.conf large.sh
prints "not checked"

# a training that p4d cannot check may be rehearsed: the fix, unless there is another, or it is no program of Python's
cat >unread.sh <<'JOB'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length "$(cat length)" \
	--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 32000
JOB
exits 0 p4d check --conf p4d.conf unread.sh
says "[P4D117]"
case $(fix) in --p4d-*) ;; *) fail "the fix is no p4d option" ;; esac
cat >own.sh <<'JOB'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size $(cat batch) --bf16 true
JOB
exits 0 p4d check --conf p4d.conf own.sh
says "[P4D117]" "p4d does not know the program train.py"
[ "$(fix)" = "p4d rehearse own.sh" ] || fail "the fix is $(fix)"
exits 0 p4d check --conf p4d.conf own.sh a --b=2
[ "$(fix)" = "p4d rehearse own.sh a --b=2" ] || fail "the fix is $(fix)"
exits 0 p4d check --conf p4d.conf own.sh 'a b'
[ -z "$(fix)" ] || fail "the fix is $(fix)"
run p4d check --conf p4d.conf <own.sh
[ -z "$(fix)" ] || fail "a fix for standard input: $(fix)"

# what the program reads of the rehearsal's own directory, such as compiled kernels, ends with it
if python=$(command -v python3); then
	cat >reads.py <<'PY'
import os
import subprocess
kernel = os.path.join(os.path.dirname(os.environ["P4D_REHEARSAL_REPORT"]), "kernel.json")
open(kernel, "w").close()
open(kernel).close()
open("own.json").close()
subprocess.run(["./program", "1024"], check=True)
PY
	echo >own.json
	XDG_CACHE_HOME=$work/reads exits 0 p4d rehearse -- "$python" reads.py
	grep -q "own\.json$" "$work"/reads/p4d/rehearsals/* || fail "the record lacks a file that the program read"
	! grep -q "kernel\.json$" "$work"/reads/p4d/rehearsals/* || fail "the record holds a file that is gone"
fi
