#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d rehearse --shell: a shell runs the job script, and its launchers report to p4d what they would start.
. "${0%/*}/lib.sh"

played=$P4D_TEST_BUILDDIR/tests/rehearsal/played
[ -x "$played" ] && [ -x /bin/bash ] || exit 77
TMPDIR=$work/left
export TMPDIR
mkdir "$TMPDIR"

cat >"$work/train" <<PROG
#!/bin/sh
echo "RANK=\${RANK-} PROCID=\${SLURM_PROCID-} NTASKS=\${SLURM_NTASKS-} NODES=\${SLURM_NNODES-} FOO=\${FOO-} \$*" >>"$work/seen"
exec "$played" 1024
PROG
chmod +x "$work/train"
# what the program saw
ranks()
{
	printf '%s\n' "$@" >"$work/wanted"
	diff "$work/wanted" "$work/seen" >"$work/differs" || fail "the program saw: $(cat "$work/differs")"
	rm -f "$work/seen"
	[ -z "$(ls -A "$TMPDIR")" ] || fail "left: $(ls -R "$TMPDIR")"
}

# what only bash can know: outputs of commands, functions, files that the script writes; other tasks run unchanged
cat >"$work/job.sh" <<'JOB'
#!/bin/bash
#SBATCH -p h100 --nodes=2 --gpus-per-node=4 --ntasks-per-node=4
export FOO=$(cat settings | tr a-z A-Z)
host=$(srun --ntasks=1 hostname)
[ -n "$host" ] || exit 7
mkdir -p run && cd run
start()
{
	srun ../train --host-known $((${#host} > 0)) "$@"
}
start --lr "$1" || touch ../failed
touch ../went-on
JOB
echo warm >"$work/settings"
exits 0 p4d rehearse --shell "$work/job.sh" 3e-4
prints "Verdict: pass" "on 8 x h100-80gb" "Rank 0: " "Rank 7: "
ranks "RANK= PROCID=0 NTASKS=8 NODES=2 FOO=WARM --host-known 1 --lr 3e-4" \
	"RANK= PROCID=7 NTASKS=8 NODES=2 FOO=WARM --host-known 1 --lr 3e-4"
# it ends where the training begins
[ -d "$work/run" ] || fail "the script did not run"
[ ! -e "$work/failed" ] && [ ! -e "$work/went-on" ] || fail "the script goes on behind its training"

# an activated environment is in front of PATH, but not of the launchers
mkdir -p "$work/venv/bin"
printf '#!/bin/sh\necho the real deepspeed runs >&2\nexit 1\n' >"$work/venv/bin/deepspeed"
chmod +x "$work/venv/bin/deepspeed"
cat >"$work/activates.sh" <<JOB
#!/bin/bash
#SBATCH -p h100 --gpus-per-node=2
PATH=$work/venv/bin:\$PATH
deepspeed --num_gpus 2 --no_python ./train --x
JOB
exits 0 p4d rehearse --shell --ranks last "$work/activates.sh"
ranks "RANK=1 PROCID=0 NTASKS=1 NODES=1 FOO= --x --local_rank=1"

# a task that is a shell itself, with a launcher in it
cat >"$work/nested.sh" <<'JOB'
#!/bin/bash
#SBATCH -p h100 -N 2 --gpus-per-node=2 --ntasks-per-node=1
srun bash -c 'FOO=$SLURM_NODEID torchrun --nnodes $SLURM_NNODES --nproc-per-node 2 --no-python ./train'
JOB
exits 0 p4d rehearse --shell --ranks last "$work/nested.sh"
grep -q "RANK=3 " "$work/seen" || fail "no rank 3: $(cat "$work/seen")"
rm "$work/seen"

# nvidia-smi answers for the simulated GPUs, in the script and in the program, also if the machine has another one
cat >"$work/asks.sh" <<'JOB'
#!/bin/bash
#SBATCH -p h100 --gpus-per-node=2
gpus=$(nvidia-smi -L | wc -l)
nvidia-smi --query-gpu=name,memory.total,memory.used,power.draw --format=csv -i 1 >asked
nvidia-smi >>asked
nvidia-smi --query-compute-apps=pid --format=csv,noheader >>asked
torchrun --nproc-per-node $gpus --no-python ./asks
JOB
printf '#!/bin/sh\nnvidia-smi --query-gpu=index,memory.free --format=csv,noheader,nounits >>asked\nexec ./train asks\n' >"$work/asks"
chmod +x "$work/asks"
exits 0 p4d rehearse --shell --ranks last "$work/asks.sh"
ranks "RANK=1 PROCID=0 NTASKS=1 NODES=1 FOO= asks"
sed -n '1,2p;$p' "$work/asked" >"$work/lines"
diff "$work/lines" - <<'LINES' || fail "nvidia-smi printed: $(cat "$work/asked")"
name, memory.total [MiB], memory.used [MiB], power.draw
NVIDIA H100 SXM5 80 GB, 80998 MiB, 0 MiB, [N/A]
1, 80998
LINES
grep -q "|   1  NVIDIA H100 SXM5 80 GB *|        0MiB /  80998MiB |" "$work/asked" || fail "no table: $(cat "$work/asked")"

# without a launcher the script itself is what uses the GPU
printf '#!/bin/sh\n#SBATCH -p h100 --gpus-per-node=1\n./train alone\necho done >ended\n' >"$work/alone.sh"
exits 0 p4d rehearse --shell "$work/alone.sh"
prints "Verdict: pass" "Rank 0: 1.5 of 79.1"
ranks "RANK= PROCID=0 NTASKS=1 NODES=1 FOO= alone"
[ -e "$work/ended" ] || fail "the script did not end by itself"
# a script that fails says so
printf '#!/bin/sh\n#SBATCH -p h100 --gpus-per-node=1\necho no such data >&2\nexit 4\n' >"$work/fails.sh"
exits 9 p4d rehearse --shell "$work/fails.sh"
prints "the program ended with status 4"
says "no such data"
exits 1 p4d rehearse --shell -- ./train
says "--shell is for a job script"
