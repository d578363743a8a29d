#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d rehearse while a program runs: its output, its progress, and that nothing of it is left.
. "${0%/*}/lib.sh"

played=$P4D_TEST_BUILDDIR/tests/rehearsal/played
[ -x "$played" ] || exit 77

# what the program prints is shown if it fails, at the end, or as it comes
printf '#!/bin/sh\necho a loss\nexec "$@"\n' >"$work/prints"
chmod +x "$work/prints"
exits 0 p4d rehearse -- ./prints "$played" 1
! printf '%s' "$err" | grep -q "a loss" || fail "it prints what the program does, though it did not fail"
exits 0 p4d rehearse --verbose -- ./prints "$played" 1
says "a loss"
printf '#!/bin/sh\ni=0\nwhile [ $i -lt 100 ]; do echo line $i; i=$((i + 1)); done\nexit 3\n' >"$work/fails"
chmod +x "$work/fails"
exits 9 p4d rehearse -- ./fails
prints "Verdict: incomplete" "the program ended with status 3"
says "the last lines that rank 0 printed:" "line 99"
! printf '%s' "$err" | grep -q "line 9$" || fail "it prints more than the last lines"
# of an error of many kilobytes in one line, the beginning says what it is
printf '#!/bin/sh\nprintf "ValueError: too %%090000d\\n" 1\nexit 1\n' >"$work/chatters"
chmod +x "$work/chatters"
exits 9 p4d rehearse -- ./chatters
says "ValueError: too 000" "more bytes)"
[ "$(printf '%s' "$err" | wc -c)" -lt 4000 ] || fail "it prints all of a very long line"
printf '#!/bin/sh\nprintf '\''{"phase": "forward", "step": 2, "reserved": 3221225472}\\n'\'' >"$P4D_REHEARSAL_PHASES"\nsleep 2\nexec "$@"\n' \
	>"$work/steps"
chmod +x "$work/steps"
exits 0 p4d rehearse --progress -- ./steps "$played" 1
says "p4d: rank 0: step 2 after forward, 3.0 GiB reserved"
# Python's last error, with its meaning here
for error in "ModuleNotFoundError: No module named 'x'=lacks a package" "FileNotFoundError: x=small data set in their place"; do
	printf '#!/bin/sh\necho KeyError: 1; echo "%s"\nexit 1\n' "${error%=*}" >"$work/fails"
	exits 9 p4d rehearse -- ./fails
	says "KeyError: 1" "${error#*=}"
done
printf '#!/bin/sh\necho FileNotFoundError: x; echo "ModuleNotFoundError: y"\nexit 1\n' >"$work/fails"
exits 9 p4d rehearse -- ./fails
says "lacks a package"
! printf '%s' "$err" | grep -q "small data set" || fail "it explains an error that was not the last"
# a program that hangs: Python says where, also under a shell
if python=$(command -v python3); then
	printf 'import time\ndef wait_for_data():\n\ttime.sleep(60)\nwait_for_data()\n' >"$work/hangs.py"
	exits 9 p4d rehearse --timeout 2 -- sh -c "$python hangs.py; exit 1"
	prints "Verdict: incomplete" "it did not end within"
	says 'hangs.py", line 3 in wait_for_data'
fi
# Python that p4d cannot follow
if [ -n "$python" ]; then
	printf 'import ctypes\nassert not ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 30))\n' \
		>"$work/takes.py"
	exits 0 p4d rehearse -- sh -c "$python -I takes.py"
	prints "Verdict: warn: 1.5 of 79.1 GiB" "unvalidated: Python did not load p4d's module"
fi
# services that it starts in sessions of their own end with it
printf '#!/bin/sh\nsetsid sleep 4321 &\nexec "$@"\n' >"$work/leaves"
chmod +x "$work/leaves"
exits 0 p4d rehearse -- ./leaves "$played" 1
! pgrep -f "^sleep 4321" >/dev/null || fail "it leaves a process"

# first, last, and the pipeline stage between that holds most by p4d's formulas: here the second
mkdir "$work/bin2"
printf '#!/bin/sh\nexec "%s" 1024\n' "$played" >"$work/bin2/python"
chmod +x "$work/bin2/python"
cat >"$work/stages.sh" <<JOB
#!/bin/sh
#SBATCH -p h100 -N 1 --gpus-per-node=8 --ntasks-per-node=8
srun $work/bin2/python pretrain_gpt.py --num-layers 30 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \\
	--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer \\
	--pipeline-model-parallel-size 4 --tensor-model-parallel-size 2 --decoder-first-pipeline-num-layers 3 \\
	--decoder-last-pipeline-num-layers 3 --vocab-size 32000 --tokenizer-type NullTokenizer --mock-data
JOB
exits 0 p4d rehearse --conf p4d.conf "$work/stages.sh"
prints "Rank 0: " "Rank 2: " "Rank 7: "

# what only the job knows: how many GPUs and nodes there are is its geometry, where processes meet does not matter
mkdir "$work/bin3"
cat >"$work/bin3/accelerate" <<'ACCELERATE'
#!/bin/sh
[ "$*" = "launch --main_process_ip 127.0.0.1 --machine_rank=0 train.py" ] || exit 1
printf '{"nodes": 2, "ranks_per_node": 4, "words": ["./told"], "environment": []}' >"$P4D_REHEARSAL_LAUNCH"
ACCELERATE
printf '#!/bin/sh\necho "$RANK of $WORLD_SIZE" >>"%s/told.txt"\nexec "%s" 1\n' "$work" "$played" >"$work/told"
chmod +x "$work/bin3/accelerate" "$work/told"
cat >"$work/meets.sh" <<JOB
#!/bin/bash
#SBATCH -p h100 -N 2 --gpus-per-node=4 --ntasks-per-node=1
export PATH=$work/bin3:\$PATH
nodes=\$(scontrol show hostnames \$SLURM_JOB_NODELIST | wc -l)
srun accelerate launch --main_process_ip \$(scontrol show hostnames | head -n 1) --machine_rank=\$(cat rank) train.py
JOB
exits 0 p4d rehearse --conf p4d.conf --ranks last "$work/meets.sh"
[ "$(cat "$work/told.txt")" = "7 of 8" ] || fail "the last rank is $(cat "$work/told.txt")"
sed '$d' "$work/meets.sh" >"$work/counts.sh"
echo 'srun torchrun --nnodes $nodes --nproc-per-node $(nvidia-smi -L | wc -l) --no-python ./told' >>"$work/counts.sh"
rm "$work/told.txt"
exits 0 p4d rehearse --conf p4d.conf --ranks last "$work/counts.sh"
[ "$(cat "$work/told.txt")" = "7 of 8" ] || fail "the last rank is $(cat "$work/told.txt")"
