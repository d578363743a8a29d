#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d rehearse with a program without PyTorch (tests/rehearsal/played.c): its answers, and that nothing is left.
. "${0%/*}/lib.sh"

played=$P4D_TEST_BUILDDIR/tests/rehearsal/played
[ -x "$played" ] || exit 77
TMPDIR=$work/left
export TMPDIR
mkdir "$TMPDIR"

# its memory: 10 GiB and the context, on a GPU of 79.1 GiB
exits 0 p4d rehearse --gpu h100-80gb -- "$played" 10240
prints "Verdict: pass: 10.5 of 79.1 GiB (13 %) on 1 x h100-80gb" "Rank 0: 10.5 of 79.1 GiB on the GPU (13 %)"
exits 0 p4d rehearse --json -- "$played" 1024
prints '"verdict": "pass"' '"device_bytes": 1598029824' '"schema": 1'
# the same program on a GPU that is too small gets CUDA's error
exits 12 p4d rehearse --gpu a100-40gb -- "$played" 40960
prints "Verdict: reject on 1 x a100-40gb: it requested 40.00 GiB when 0.5 of 39.4 GiB were in use"
says "CUDA error: out of memory"
# once more with enough room: how much is missing, and where it fits
prints "On a GPU with enough memory the program would use 40.5 GiB, 1.1 GiB more than this GPU has."
prints "Fits:  l40s-48gb (91 %), h100-80gb (51 %)" "Does not fit:  l4-24gb, a100-40gb."
exits 0 p4d rehearse --gpu a100-80gb -- "$played" 78336
prints "Verdict: warn: 77.0 of 79.1 GiB (97 %) on 1 x a100-80gb: above 95 % of the GPU"

# kernels are those of the wheels: a GPU between two of their architectures runs the lower one
exits 0 p4d rehearse --gpu l40s-48gb -- "$played" kernel 86
exits 0 p4d rehearse --gpu h200-141gb -- "$played" kernel 90
exits 0 p4d rehearse --gpu b300-288gb -- "$played" kernel 100

# refused once, but that is not why it ended: too slow, or a mistake of the program
exits 9 p4d rehearse --gpu a100-40gb --timeout 2 -- sh -c "$played 40960; sleep 30"
prints "Verdict: incomplete on 1 x a100-40gb: it did not end within"
exits 9 p4d rehearse --gpu a100-40gb -- sh -c "echo '{\"raised\": \"KeyError\", \"out_of_memory\": false}' >\"\$P4D_REHEARSAL_PHASES\"; $played 40960"
prints "Verdict: incomplete on 1 x a100-40gb: the program ended with status 1"
exits 12 p4d rehearse --gpu a100-40gb -- sh -c "echo '{\"raised\": \"OutOfMemoryError\", \"out_of_memory\": true}' >\"\$P4D_REHEARSAL_PHASES\"; $played 40960"

# the program limits itself: the GPU has memory left, and another GPU would have another limit
exits 12 p4d rehearse --gpu a100-40gb -- sh -c "echo '{\"raised\": \"OutOfMemoryError\", \"out_of_memory\": true, \"allowed_bytes\": 1610612736}' >\"\$P4D_REHEARSAL_PHASES\"; $played 1024; exit 1"
prints "Verdict: reject on 1 x a100-40gb: it ran out of the 1.50 GiB to which the program limits PyTorch (torch.cuda.set_per_process_memory_fraction)"
case $out in *Fits:*) fail "it knows the limit on other GPUs" ;; esac
# the limit is larger than what was free
exits 12 p4d rehearse --gpu a100-40gb -- sh -c "echo '{\"raised\": \"OutOfMemoryError\", \"out_of_memory\": true, \"allowed_bytes\": 1610612736}' >\"\$P4D_REHEARSAL_PHASES\"; $played 40960"
prints "it requested 40.00 GiB when 0.5 of 39.4 GiB were in use"
# steps that p4d cannot count, because the program has no optimizer
exits 9 p4d rehearse --timeout 1 -- sh -c "echo '{\"passes_without_optimizer\": 64}' >\"\$P4D_REHEARSAL_PHASES\"; exec $played hang"
prints "it did not end within 1 s; in 64 backward passes it called no torch.optim.Optimizer, whose steps p4d counts: let the program end by itself after two steps"

# what it cannot answer
exits 9 p4d rehearse -- "$played" missing
prints "Verdict: incomplete on 1 x h100-80gb: it called cudaArrayGetInfo, which p4d does not simulate"
exits 9 p4d rehearse -- sh -c "echo '{\"missing_places\": [\"train.py:17\"]}' >\"\$P4D_REHEARSAL_PHASES\"; $played missing"
prints "it called cudaArrayGetInfo at train.py:17, which p4d does not simulate"
exits 0 p4d rehearse -- sh -c "echo '{\"unknown_reads\": [{\"operator\": \"nonzero\", \"place\": \"moe.py:9\", \"count\": 3}]}' >\"\$P4D_REHEARSAL_PHASES\"; $played 10"
prints "unvalidated: the program read 1 values that only a GPU computes" \
	"Note: the program read a value that only a GPU computes at moe.py:9 (nonzero, 3 times)."
exits 0 p4d rehearse -- "$played" unsure
prints "Verdict: warn: 0.5 of 79.1 GiB (1 %) on 1 x h100-80gb: unvalidated: another rank knows more"
exits 9 p4d rehearse -- "$played" none
prints "Verdict: incomplete on 1 x h100-80gb: the program used no GPU"
exits 9 p4d rehearse -- "$work/nosuch"
prints "Verdict: incomplete on 1 x h100-80gb: the program ended with status 127"
says "nosuch: No such file"
exits 9 p4d rehearse --timeout 1 -- "$played" hang
prints "Verdict: incomplete on 1 x h100-80gb: it did not end within 1 s"

# numbers that the shell makes up are as good as others where they do not change the memory
cat >random.sh <<'JOB'
#!/bin/bash
#SBATCH -N2 --gpus-per-node=4
mpirun -np $(scontrol show hostnames | wc -l) "$PLAYED" 1024 --seed $RANDOM --run_name=x$RANDOM
JOB
PLAYED=$played exits 0 p4d rehearse random.sh
says "1024 --seed 1 --run_name=x1" "rehearsing rank 1 of 2"
sed 's/--seed/--length/' random.sh >length.sh
PLAYED=$played exits 9 p4d rehearse length.sh
says '--length ?: $RANDOM is known only to the running job'

# the program starts elsewhere
mkdir -p own-tmp elsewhere
printf '#!/bin/bash\n#SBATCH -N1 --gpus-per-node=1 -D elsewhere\n%s 1024\n' "$played" >there.sh
TMPDIR=own-tmp exits 0 p4d rehearse there.sh
[ -z "$(ls own-tmp)" ] || fail "left $(ls own-tmp)"
TMPDIR=nosuch exits 3 p4d rehearse there.sh
says "TMPDIR=nosuch: No such file"

# ranks of several nodes, one after the other, with a store that answers for the others
exits 0 p4d rehearse --nodes 2 --gpus-per-node 8 -- "$played" store
prints "Verdict: pass: 0.5 of 79.1 GiB (1 %) on 16 x h100-80gb" "Rank 0: " "Rank 15: "
exits 0 p4d rehearse --nodes=2 --gpus-per-node=8 --ranks=3,5 -- "$played" store
prints "Rank 3: " "Rank 5: "

# A program that prints what it finds: $seen has a line of variables and a line of words per rank.
seen=$work/seen
export seen
cat >"$work/prog" <<PROG
#!/bin/sh
for name in \$PRINTS; do
	eval "printf '%s ' \"\$name=\\\${\$name-}\""
done >>"\$seen"
printf '|%s' "\$@" >>"\$seen"
printf '\n' >>"\$seen"
exec "$played" 1024
PROG
chmod +x "$work/prog"
mkdir -p "$work/venv/bin" "$work/code"
cp "$work/prog" "$work/venv/bin/python"
printf '#!/bin/sh\nexit 1\n' >"$work/venv/bin/torchrun"
chmod +x "$work/venv/bin/torchrun"
cat >"$work/venv/bin/activate" <<'ACTIVATE'
VIRTUAL_ENV=${0%/*}/venv
PATH="VENV/bin:$PATH"
export PATH
ACTIVATE
sed -i "s|VENV|$work/venv|" "$work/venv/bin/activate"

# ranks LINE...: what the program saw
ranks()
{
	printf '%s\n' "$@" >"$work/wanted"
	diff "$work/wanted" "$seen" >"$work/differs" || fail "the program saw: $(cat "$work/differs")"
	rm -f "$seen"
}

# a job script: launchers, environment, directory and geometry are those of the job
cat >"$work/ranks.sh" <<'JOB'
#!/bin/bash
#SBATCH -p h100 --nodes=2 --gpus-per-node=4 --ntasks-per-node=1
module load cuda
source venv/bin/activate
export DATA=/data OUT=$SLURM_JOB_ID HOST=$(hostname) PRINTS="RANK LOCAL_RANK WORLD_SIZE SLURM_PROCID SLURM_NTASKS DATA MORE HOST"
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
python prepare_data.py
cd code
MORE=x srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=4 --rdzv-endpoint=$MASTER_ADDR:29500 my_train.py --lr $1 \
	--name "a b" --out $OUT
JOB
exits 0 p4d rehearse "$work/ranks.sh" 3e-4
prints "Verdict: pass: 1.5 of 79.1 GiB (2 %) on 8 x h100-80gb" "Rank 0: " "Rank 7: "
says "ranks.sh:9: $work/venv/bin/python my_train.py --lr 3e-4" "module load cuda, \$HOST"
ranks "RANK=0 LOCAL_RANK=0 WORLD_SIZE=8 SLURM_PROCID=0 SLURM_NTASKS=2 DATA=/data MORE=x HOST= |my_train.py|--lr|3e-4|--name|a b|--out|0" \
	"RANK=7 LOCAL_RANK=3 WORLD_SIZE=8 SLURM_PROCID=1 SLURM_NTASKS=2 DATA=/data MORE=x HOST= |my_train.py|--lr|3e-4|--name|a b|--out|0"
# options of sbatch go before those of the script
exits 0 p4d rehearse --conf p4d.conf --nodes 1 -p strict --ranks all "$work/ranks.sh" 1
prints "Verdict: pass: 1.5 of 39.4 GiB (4 %) on 4 x a100-40gb" "Rank 3: "
exits 0 p4d rehearse --gpu a100-80gb "$work/ranks.sh" 1
prints "on 8 x a100-80gb"
rm -f "$seen"
# each rank reads its own place in the job
cat >"$work/place.sh" <<'JOB'
#!/bin/sh
#SBATCH -p h100 -N 2 --gpus-per-node=2 --ntasks-per-node=2
export PRINTS="SLURM_PROCID SLURM_LOCALID WORLD_SIZE"
srun sh -c 'if [ $SLURM_PROCID = 0 ]; then ./prog --first; else ./prog --rank $SLURM_PROCID; fi'
JOB
exits 0 p4d rehearse "$work/place.sh"
ranks "SLURM_PROCID=0 SLURM_LOCALID=0 WORLD_SIZE= |--first" "SLURM_PROCID=3 SLURM_LOCALID=1 WORLD_SIZE= |--rank|3"
# variables of sbatch's --export: the script's own override them, unless srun sets them again
cat >"$work/exported.sh" <<'JOB'
#!/bin/sh
#SBATCH -p h100 -N 1 --gpus-per-node=1 --export=ALL,DATA=/d,MORE=x,LESS=l,"'SET=1,2'"
export MORE=y PRINTS="DATA MORE LESS SET"
unset LESS
./prog "$DATA"
JOB
exits 0 p4d rehearse "$work/exported.sh"
ranks "DATA=/d MORE=y LESS= SET=1,2 |/d"
exits 0 p4d rehearse --export=ALL,DATA=/e "$work/exported.sh"
ranks "DATA=/e MORE=y LESS= SET= |/e"
MORE=y exits 0 p4d rehearse "$work/exported.sh"
ranks "DATA=/d MORE=y LESS= SET=1,2 |/d"
sed 's|^./prog|srun ./prog|' "$work/exported.sh" >"$work/exported_srun.sh"
exits 0 p4d rehearse "$work/exported_srun.sh"
ranks "DATA=/d MORE=x LESS=l SET=1,2 |/d"
sed 's|^./prog|srun --export=ALL,MORE=z ./prog|' "$work/exported.sh" >"$work/exported_srun.sh"
exits 0 p4d rehearse "$work/exported_srun.sh"
ranks "DATA=/d MORE=z LESS= SET=1,2 |/d"
# what cannot be read is named
printf '#!/bin/sh\n#SBATCH -p h100 --gpus-per-node=1\n./train --data $NO_SUCH_DATA/x\n' >"$work/unknown.sh"
exits 9 p4d rehearse "$work/unknown.sh"
says '--data ?/x: $NO_SUCH_DATA is not set' "p4d rehearse --shell JOB.sh, or p4d rehearse -- PROGRAM"
printf '#!/bin/sh\n#SBATCH -p h100 --gpus-per-node=1\necho hello\n' >"$work/nothing.sh"
exits 9 p4d rehearse "$work/nothing.sh"
says "found no command that starts a program"
exits 1 p4d rehearse "$played" 1024
says "put a program's command after --" "fix: p4d rehearse -- $played"
echo 'import torch' >"$work/own.py"
exits 1 p4d rehearse own.py
says "fix: p4d rehearse -- python own.py"

# typed launchers: each sets its own variables
PRINTS="RANK LOCAL_RANK WORLD_SIZE LOCAL_SIZE SLURM_PROCID OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK FOO"
export PRINTS
none="RANK= LOCAL_RANK= WORLD_SIZE= LOCAL_SIZE="
exits 0 p4d rehearse --ranks last -- torchrun --nproc-per-node=8 --no-python ./prog --x
ranks "RANK=7 LOCAL_RANK=7 WORLD_SIZE=8 LOCAL_SIZE= SLURM_PROCID= OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= PMI_RANK= FOO= |--x"
for threads in "" 7; do # a user's own number stays
	export PRINTS="LOCAL_RANK OMP_NUM_THREADS"
	exits 0 env ${threads:+OMP_NUM_THREADS=$threads} p4d rehearse --ranks last -- torchrun --nproc-per-node=8 --no-python ./prog
	ranks "LOCAL_RANK=7 OMP_NUM_THREADS=${threads:-1} |"
done
PRINTS="RANK LOCAL_RANK WORLD_SIZE LOCAL_SIZE SLURM_PROCID OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK FOO"
exits 0 p4d rehearse --ranks last -- srun -N2 --gpus-per-node=8 --ntasks-per-node=8 ./prog
prints "on 16 x h100-80gb"
ranks "$none SLURM_PROCID=15 OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= PMI_RANK= FOO= |"
exits 0 p4d rehearse --ranks last -- srun -N 2 -n 4 env FOO=1 torchrun --nnodes 2 --nproc_per_node 4 --no-python ./prog
ranks "RANK=7 LOCAL_RANK=3 WORLD_SIZE=8 LOCAL_SIZE= SLURM_PROCID=1 OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= PMI_RANK= FOO=1 |"
exits 0 p4d rehearse --ranks last -- mpirun -np 8 -x FOO=1 --bind-to none nohup ./prog -n 3
ranks "$none SLURM_PROCID= OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=8 PMI_RANK= FOO=1 |-n|3"
exits 0 p4d rehearse --ranks last -- mpiexec.hydra -n 16 -ppn 8 -genv FOO 2 ./prog
prints "on 16 x h100-80gb"
ranks "$none SLURM_PROCID= OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= PMI_RANK=15 FOO=2 |"
exits 0 p4d rehearse --ranks last -- deepspeed --include localhost:0,1,2 --no_python ./prog --x
ranks "RANK=2 LOCAL_RANK=2 WORLD_SIZE=3 LOCAL_SIZE=3 SLURM_PROCID= OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= PMI_RANK= FOO= |--x|--local_rank=2"
printf 'a slots=4\nb slots=4\n' >"$work/hosts"
exits 0 p4d rehearse --ranks last -- deepspeed --hostfile hosts --no_local_rank --no_python ./prog
ranks "RANK=7 LOCAL_RANK=3 WORLD_SIZE=8 LOCAL_SIZE=4 SLURM_PROCID= OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= PMI_RANK= FOO= |"
exits 0 p4d rehearse --ranks last -- deepspeed --hostfile hosts --include "a:0,2@b:1,3" --no_local_rank --no_python ./prog
prints "on 4 x h100-80gb"
exits 0 p4d rehearse --ranks last -- deepspeed --hostfile hosts --exclude a --no_local_rank --no_python ./prog
prints "on 4 x h100-80gb"
exits 0 p4d rehearse --ranks last -- deepspeed --hostfile hosts -e a:0@b:3 --no_local_rank --no_python ./prog
prints "on 6 x h100-80gb"
exits 0 p4d rehearse --gpus-per-node 8 --ranks last -- deepspeed --exclude localhost:0,1 --no_local_rank --no_python ./prog
prints "on 6 x h100-80gb"
rm -f "$seen"
exits 9 p4d rehearse -- deepspeed --hostfile hosts --exclude a:0 --no_python ./prog
says "deepspeed starts 3 ranks on one host and 4 on b; p4d rehearses the same number on each"
exits 9 p4d rehearse -- deepspeed --exclude localhost:0 --no_python ./prog
says "p4d rehearse --gpus-per-node N"
for option in "--exclude c" "--include a:7" "--exclude a@b" "--include a:x"; do
	exits 5 p4d rehearse -- deepspeed --hostfile hosts $option --no_python ./prog
	says "[P4D005] deepspeed"
done
exits 0 p4d rehearse --ranks last -- "$work/venv/bin/python" -m torch.distributed.launch --nproc_per_node=2 train.py
ranks "RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 LOCAL_SIZE= SLURM_PROCID= OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= PMI_RANK= FOO= |train.py|--local-rank=1"
exits 9 p4d rehearse -- apptainer exec --nv image.sif python train.py
says "apptainer starts the program in a container"
exits 9 p4d rehearse -- ssh host python train.py
says "p4d cannot rehearse ssh"

# a program that starts ranks itself reports them; p4d plays them, with its environment
cat >"$work/starts" <<'STARTS'
#!/bin/sh
[ -z "${RANK-}" ] || exit 1
printf '{"nodes": 2, "ranks_per_node": 4, "words": ["env", "FOO=told", "./prog", "--local-rank=${local_rank}"],
	"environment": ["FOO=1", "PRINTS=RANK FOO SLURM_PROCID"], "directory": "%s"}' "$PWD" >"$P4D_REHEARSAL_LAUNCH"
STARTS
chmod +x "$work/starts"
exits 0 p4d rehearse --ranks last -- srun -N2 --gpus-per-node=4 ./starts
prints "on 8 x h100-80gb"
ranks "RANK=7 FOO=told SLURM_PROCID=1 |--local-rank=3"
printf '#!/bin/sh\nprintf "{}" >"$P4D_REHEARSAL_LAUNCH"\n' >"$work/starts"
exits 3 p4d rehearse -- ./starts
says "p4d cannot read which program the launcher starts"
printf '#!/bin/sh\nprintf "{\\"words\\": [\\"./starts\\"], \\"environment\\": []}" >"$P4D_REHEARSAL_LAUNCH"\n' >"$work/starts"
exits 9 p4d rehearse -- ./starts
says "more than 4 launchers start each other"
# why an engine did not start: only the GPU's memory refuses
if python=$(command -v python3); then
	cat >"$work/short.py" <<'PY'
import os
from p4d_rehearsal import engines
kind = type("OutOfMemoryError", (RuntimeError,), {"__module__": "torch"})
behind = RuntimeError("CUDA out of memory occurred when warming up sampler")
behind.__cause__ = kind("CUDA out of memory. Tried to allocate 2.00 GiB")
itself = KeyError("rope")
itself.__cause__ = itself
for error, short in ((kind("CUDA out of memory."), True), (behind, True),
                     (ValueError("No available memory for the cache blocks. Try increasing"), True),
                     (ValueError("KV cache is needed, which is larger than the available KV cache memory (1.0 GiB)."), True),
                     (OSError(12, "Cannot allocate memory"), False), (MemoryError("memory"), False), (itself, False),
                     (ValueError("KV cache group block sizes must be divisible by prefix_match_unit"), False)):
    assert engines._is_short(error) == short, error
for words, server in ((["python", "/venv/bin/vllm", "serve", "m"], True), (["python", "train.py", "serve"], False),
                      (["python", "-m", "vllm.entrypoints.openai.api_server"], True), (["python", "offline.py"], False)):
    assert engines._is_server(words) == server, words
for own in "/tmp/p4d", "/tmp/" + 80 * "d":
    os.environ.update(P4D_REHEARSAL_SERVED=own + "/served-0", VLLM_CACHE_ROOT="/home", VLLM_RPC_BASE_PATH="/run")
    engines._env(None)
    assert os.environ["VLLM_CACHE_ROOT"] == own + "/vllm"
    assert os.environ["VLLM_RPC_BASE_PATH"] == (own if len(own) < 71 else "/run")
external = type("ExecutorWithExternalLauncher", (), {})
config = type("Config", (), {"parallel_config": type("Parallel", (), {"world_size": 1})})
assert engines._Start(config, external).external and not engines._Start(config, type("UniProcExecutor", (), {})).external
PY
	exits 0 env PYTHONPATH="$P4D_TEST_SRCDIR/rehearsal/python" PYTHONDONTWRITEBYTECODE=1 "$python" "$work/short.py"
fi
# a program without a seed draws the same in each rehearsal
if python=$(command -v python3); then
	cat >"$work/draws.py" <<'PY'
import os, random
print(random.random(), hash("a name"), file=open("drawn", "a"))
os.execv("./prog", ["./prog"])
PY
	for _ in 1 2; do
		exits 0 p4d rehearse -- "$python" draws.py
	done
	rm -f "$seen"
	[ "$(sort -u drawn | wc -l)" = 1 ] || fail "two rehearsals drew other numbers: $(cat drawn)"
fi
# accelerate's own code reports what it would start
if python=$(command -v python3); then
	mkdir -p "$work/site/accelerate/utils" "$work/site/accelerate/commands"
	: >"$work/site/accelerate/__init__.py"
	: >"$work/site/accelerate/utils/__init__.py"
	: >"$work/site/accelerate/commands/__init__.py"
	printf 'def prepare_simple_launcher_cmd_env(args):\n\treturn ["./prog", args], {"FSDP_VERSION": "2", "PRINTS": "FSDP_VERSION"}\n' \
		>"$work/site/accelerate/utils/launch.py"
	printf 'from accelerate.utils import launch\nlaunch.prepare_simple_launcher_cmd_env("--x")\nraise SystemExit(1)\n' \
		>"$work/site/accelerate/commands/launch.py"
	exits 0 env PYTHONPATH="$work/site" p4d rehearse -- "$python" -m accelerate.commands.launch --config_file fsdp.yaml ./prog
	ranks "FSDP_VERSION=2 |--x"
fi

# what PyTorch says of a step: the files of a rehearsed Llama 3 8B (AdamW, checkpointing, 1 x 4,096 tokens)
stored=$P4D_TEST_SRCDIR/tests/data/rehearsals/llama3-8b.jsonl
cat >"$work/llama" <<EOF
#!/bin/sh
cp "$stored" "\$P4D_REHEARSAL_PHASES"
exec "$played" 66672
EOF
chmod +x "$work/llama"
exits 0 p4d rehearse --gpu h100-80gb -- "$work/llama"
prints "Verdict: pass: 65.6 of 79.1 GiB (83 %) on 1 x h100-80gb" "reserved 65.10 GiB, most in backward of step 2"
for row in "largest at the peak *GiB" "optimizer *29.92" "logits of lm_head *0.98" "all else *0.10" \
	"0 *2 *update *14.96 *14.96 *29.92 *60.81 *65.10"; do
	printf '%s\n' "$out" | grep -q "$row" || fail "no row \"$row\""
done
prints "Step:  226 TFLOP of matrix products, at least 228.7 ms at 989 TFLOP/s"
# the time of its step: 226 TFLOP at 0.72 of 989, 12 of attention, 600 GB moved, 20,000 kernels; 3 GB to 16 ranks on two nodes
step()
{
	sed "s/\"phase\": \"update\", \"step\": 2,/& \"attention_forward\": 12000000000000, \"moved\": 600000000000, \"kernels\": 20000, $1,/" \
		"$stored" >"$work/counted.jsonl"
	exits 0 p4d rehearse --gpu h100-80gb -- sh -c "cp counted.jsonl \"\$P4D_REHEARSAL_PHASES\"; exec $played 66672"
}
step '"foreign": 10'
prints "Step:  226 TFLOP of matrix products, 598.0 ms to 688.1 ms; at least 228.7 ms at 989 TFLOP/s"
step '"wires": [[16, 8, 1, 3000000000, 0, 0]]'
prints "226 TFLOP of matrix products, 598.0 ms to 696.0"
step '"foreign": 1001'
prints "598.0 ms or more without 1001 of 20000 kernels, which PyTorch did not start; at least"
step '"wires": [[2, 1, 1, 0, 0, 3000000000]]'
prints "598.0 ms or more without the time that it waits for other pipeline stages; at least"
sed 's/"flops": \([0-9]\)/"flops": 9\1/' "$stored" >"$work/many.jsonl"
exits 0 p4d rehearse -- sh -c "cp many.jsonl \"\$P4D_REHEARSAL_PHASES\"; exec $played 66672"
prints " PFLOP of matrix products"
exits 0 p4d rehearse --gpu h100-80gb -- "$work/llama"
# a phase that comes again in a step is one row
[ "$(printf '%s\n' "$out" | grep -c "0 *1 *backward")" = 1 ] || fail "a phase has several rows"
exits 0 p4d rehearse --svg "$work/llama.svg" -- "$work/llama"
for text in "65.6 of 79.1 GiB on NVIDIA H100" optimizer logits reserved "capacity 79.1" "peak 65.6" "allocated 60.9" \
	backward "step 2"; do
	grep -q ">$text" "$work/llama.svg" || fail "the picture has no $text"
done
exits 0 p4d rehearse --gpu b300-288gb --svg "$work/llama.svg" -- "$work/llama"
grep -q ">↑ capacity 267.7" "$work/llama.svg" || fail "the picture has no capacity above it"
exits 9 p4d rehearse --svg "$work/none.svg" -- "$played" 1
says "--svg: there is no memory history of rank 0"
# the members of --json that p4d(1) names
exits 0 p4d rehearse --json -- "$work/llama"
for member in schema verdict reason gpu usable_bytes nodes gpus_per_node ranks rank exit seconds peak allocated_bytes \
	reserved_bytes device_bytes phase phases step parameters_bytes gradients_bytes optimizer_bytes flops \
	collective_bytes largest kind module bytes blocks least_seconds low_seconds high_seconds kernels host resident_bytes pinned_bytes managed_bytes \
	copied_bytes unknown_reads not_played not_seen doubts excess_bytes node_bytes job_bytes fits rehearsed; do
	prints "\"$member\": "
	grep -q "_${member}_" "$P4D_TEST_SRCDIR/man/p4d-rehearse.1.scd" || grep -q "\*$member\*" "$P4D_TEST_SRCDIR/man/p4d-rehearse.1.scd" ||
		fail "p4d(1) does not name $member"
done
# reserved memory does not fit, allocated memory does: p4d plays it there, where the allocator copes
sed 's/"reserved": [0-9]*/"reserved": 85899345920/' "$stored" >"$work/wide.jsonl"
cat >"$work/wide" <<EOF
#!/bin/sh
cp "$work/wide.jsonl" "\$P4D_REHEARSAL_PHASES"
[ "\$P4D_REHEARSAL_BYTES" -gt 90000000000 ] && exec "$played" 81920
exec "$played" 76800
EOF
chmod +x "$work/wide"
exits 0 p4d rehearse --gpu h200-141gb -- "$work/wide"
says "p4d: rehearsing rank 0 on h100-80gb, on which it may just fit"
prints "Fits:  h100-80gb (95 %), a100-80gb (95 %), h200-141gb (58 %)"

# an inference engine ends the rehearsal when it has its cache; it starts its workers itself, and sees all GPUs
cat >"$work/vllm" <<EOF
#!/bin/sh
printf '{"serving": {"engine": "vLLM", "release": "0.33.0", "workers": %s, "external": %s, "server": %s, \
"pid": %s, "worker_resident": 1073741824, \
"max_model_len": 8192, "max_num_seqs": 1024, "max_num_batched_tokens": 8192, "blocks": 27525, "tokens": 440400, "concurrency": 53.76, \
"weights": 16106127360, "graphs": 0, "activations": 1986422374, "budget": 76441111756, "cache": 57724361932%s}}\n' \
	"\$WORKERS" "\${EXTERNAL:-false}" "\${SERVER:-true}" "\${PID:-\$\$}" "\$ERROR" >"\$P4D_REHEARSAL_PHASES"
[ -z "\$UPDATE" ] || printf '{"phase": "%s", "step": 1, "allocated": 1, "reserved": 1}\n' "\$UPDATE" >>"\$P4D_REHEARSAL_PHASES"
"$played" "\${HOLDS:-71680}" || exit 1
printf 'GPUS=%s|%s\n' "\$P4D_REHEARSAL_GPUS" "\$*" >"$seen"
[ -z "\$ERROR\$EXTERNAL" ] || exit "\${STATUS:-0}"
: >"\$P4D_REHEARSAL_SERVED"
[ -z "\$STATUS" ] || exit "\$STATUS"
sleep 60
EOF
chmod +x "$work/vllm"
WORKERS=1 ERROR='' UPDATE=''
export WORKERS ERROR UPDATE
exits 0 p4d rehearse --gpu h100-80gb -- ./vllm serve llama3.1-8b --max-model-len 8192 --gpu-memory-utilization 0.9
prints "Verdict: pass: 70.5 of 79.1 GiB (89 %) on 1 x h100-80gb" \
	"vLLM 0.33.0: weights 15.00 GiB, activations at most 1.85, CUDA graphs 0.00, KV cache 53.76: 440400 tokens, 53.76 sequences of 8192" \
	"p4d estimates a KV cache of " "Fits:  l4-24gb (84 %)" "Host:  0.0 GiB per rank"
PID=0 exits 0 p4d rehearse -- ./vllm serve llama3.1-8b
prints "Host:  1.0 GiB per rank"
# it ended by itself before p4d saw that it was up
STATUS=1 exits 0 p4d rehearse -- ./vllm serve llama3.1-8b
prints "Verdict: pass: "
# a program that starts an engine and perhaps goes on
SERVER=false exits 0 p4d rehearse -- ./vllm offline
prints "(89 %) on 1 x h100-80gb: the rehearsal includes only the start of vLLM, not what the program does with it"
exits 0 p4d rehearse --json -- ./vllm serve llama3.1-8b --max-model-len 8192
for member in serving engine release error weights_bytes activations_bytes graphs_bytes budget_bytes cache_bytes cache_tokens \
	cache_blocks max_model_len max_num_seqs max_num_batched_tokens concurrency workers; do
	prints "\"$member\": "
	grep -q "\*$member\*" "$P4D_TEST_SRCDIR/man/p4d-rehearse.1.scd" || fail "p4d-rehearse(1) does not name $member"
done
WORKERS=8
exits 0 p4d rehearse -- ./vllm serve llama3.1-8b --tensor_parallel_size=4 -pp 2
prints "on 8 x h100-80gb" "Rank 0: "
ranks "GPUS=8|serve llama3.1-8b --tensor_parallel_size=4 -pp 2"
cat >"$work/serve.sh" <<'JOB'
#!/bin/sh
#SBATCH -p h100 --gpus-per-node=8
./vllm serve llama3.1-8b --tensor-parallel-size 8 &
sleep 60
python benchmark.py
JOB
exits 0 p4d rehearse "$work/serve.sh"
prints "on 8 x h100-80gb"
ranks "GPUS=8|serve llama3.1-8b --tensor-parallel-size 8"
# a program of ranks that turns out to start such an engine is played once
exits 0 p4d rehearse --gpus-per-node 8 -- ./vllm offline
prints "on 8 x h100-80gb"
! printf '%s\n' "$out" | grep -q "Rank 7" || fail "an engine with 8 workers was played twice"
WORKERS=1
ERROR=', "error": "ValueError: To serve at least one request with a length of 8192 tokens, 1.0 GiB KV cache is needed", "short_of_memory": true'
exits 9 p4d rehearse -- ./vllm serve llama3.1-8b
prints "Verdict: incomplete on 1 x h100-80gb: vLLM: ValueError: To serve at least" # the program caught it
STATUS=1 exits 12 p4d rehearse -- ./vllm serve llama3.1-8b
prints "Verdict: reject on 1 x h100-80gb: vLLM: ValueError: To serve at least one request with a length of 8192 tokens"
ERROR=', "error": "KeyError: rope", "short_of_memory": false'
STATUS=1 exits 9 p4d rehearse -- ./vllm serve llama3.1-8b
prints "Verdict: incomplete on 1 x h100-80gb: vLLM: KeyError: rope"
ERROR=
# one whose workers are the program's own ranks does not end it, nor says where the program fits
EXTERNAL=true
export EXTERNAL
UPDATE=forward exits 0 p4d rehearse -- ./vllm train
prints "Verdict: warn: " ": no optimizer ran"
UPDATE=update exits 0 p4d rehearse -- ./vllm train
prints "Verdict: pass: " "Fits:  h100-80gb (89 %)." "May fit:  l4-24gb, "
HOLDS=102400 exits 12 p4d rehearse -- ./vllm train
prints "May fit:  a100-80gb, h200-141gb, b200-180gb, b300-288gb; " "Does not fit:  l4-24gb, a100-40gb, l40s-48gb, h100-80gb."
! printf '%s\n' "$out" | grep -q "^Fits" || fail "it fits where it ran out of memory"
unset EXTERNAL
rm -f "$seen"

# the largest micro-batch that fits, from what two values take
cat >"$work/batch" <<EOF
#!/bin/sh
[ "\$1" = --size ] || set -- --size "\${1#*=}"
exec "$played" \$((10240 + 1500 * \$2))
EOF
chmod +x "$work/batch"
exits 0 p4d rehearse --gpu a100-40gb --micro-batch-option --size -- "$work/batch" --size 4
says "p4d: rehearsing rank 0 with --size 8" "p4d: rehearsing rank 0 with --size 19" "p4d: rehearsing rank 0 with --size 20"
prints "Largest that fits: --size 19."
! printf '%s\n' "$err" | grep -q -e "--size 1[0-8]" || fail "needless tries"
exits 0 p4d rehearse --json --gpu a100-40gb --micro-batch-option size -- "$work/batch" size=19
prints '"largest": 19' '"sure": true' '"option": "size"'
exits 12 p4d rehearse --gpu a100-40gb --micro-batch-option=--size -- "$work/batch" --size 40
prints "Largest that fits: --size 19."
exits 12 p4d rehearse --gpu l4-24gb --micro-batch-option --size -- "$work/batch" --size 400
prints "Largest that fits: --size 7."
# one that takes more than the first two say
cat >"$work/leaps" <<EOF
#!/bin/sh
[ "\$2" -gt 12 ] && exec "$played" 50000
exec "$played" \$((10240 + 1000 * \$2))
EOF
chmod +x "$work/leaps"
exits 0 p4d rehearse --gpu a100-40gb --micro-batch-option --size -- "$work/leaps" --size 4
says "with --size 29" "with --size 18" "with --size 13" "with --size 12"
prints "Largest that fits: --size 12."
exits 1 p4d rehearse --micro-batch-option --batch -- "$work/batch" --size 4
says "the command does not have the option --batch"
exits 5 p4d rehearse --micro-batch-option --size -- "$work/batch" --size x4
says "x4, not a number"

# p4d's own estimate of a program that it knows, typed or in a job script
printf '#!/bin/sh\nexec "%s" 24000\n' "$played" >"$work/bin/litgpt"
chmod +x "$work/bin/litgpt"
train="litgpt finetune_lora meta-llama/Llama-3.2-1B --train.micro_batch_size 4 --train.max_seq_length 2048 --precision bf16-true"
# shellcheck disable=SC2086
exits 0 p4d check --json --gpu h100-80gb --gpus-per-node=1 --wrap "$train"
estimate=$(printf '%s\n' "$out" | sed -n 's/.*"device_bytes": *\([0-9]*\).*/\1/p' | head -n 1)
# shellcheck disable=SC2086
exits 0 p4d rehearse --json -- $train
prints "\"device_bytes\": $estimate" '"difference": 0.0'
printf '#!/bin/sh\n#SBATCH -N1 --gpus-per-node=1\n%s\n' "$train" >"$work/known.sh"
exits 0 p4d rehearse --gpu h100-80gb "$work/known.sh"
prints "p4d estimates 25.2 GiB from the command line (+5."
exits 0 p4d rehearse --json -- "$played" 1024
prints '"estimate": null'

# a rank that is played again has its own words, not those of the last one
cat >"$work/first.sh" <<JOB
#!/bin/sh
#SBATCH -N1 --gpus-per-node=2 --ntasks-per-node=2
srun sh -c 'if [ \$SLURM_PROCID = 0 ]; then "$played" 50000; else "$played" 1000; fi'
JOB
exits 12 p4d rehearse --gpu a100-40gb --ranks all "$work/first.sh"
prints "On a GPU with enough memory the program would use 49.3 GiB, 9.9 GiB more than this GPU has."

# the host's memory of a node against the job's
printf '#!/bin/sh\n#SBATCH -N1 --gpus-per-node=4 --ntasks-per-node=4 --mem=%s\nsrun "%s" 1024\n' 1M "$played" >"$work/host.sh"
exits 0 p4d rehearse --gpu h100-80gb "$work/host.sh"
prints "Verdict: warn: 1.5 of 79.1 GiB (2 %) on 4 x h100-80gb: the ranks of a node need " "but the job has 0.0 GiB" ": too little."
sed -i s/1M/64G/ "$work/host.sh"
exits 0 p4d rehearse --gpu h100-80gb "$work/host.sh"
prints "Verdict: pass" "; the job has 64.0 GiB."

# the site's GPUs, with where they are
exits 0 p4d rehearse --conf p4d.conf --gpu h100-80gb -- "$work/llama"
prints "Fits:  h100-80gb (83 %; -p h100,debug)." "Does not fit:  a100-40gb."
exits 0 p4d rehearse --conf p4d.conf --json --gpu h100-80gb -- "$work/llama"
prints '"partitions": "h100,debug"' '"partitions": "strict"'

# how far it goes
exits 0 p4d rehearse --phases train,eval,save -- sh -c "test \$P4D_REHEARSAL_UNTIL = train,eval,save && exec $played 1"
# it catches running out of memory, and takes less: what it takes elsewhere is not known
printf '{"phase": "update", "step": 1, "allocated": 1, "reserved": 1}\n{"caught": 2}\n' >"$work/caught.jsonl"
exits 0 p4d rehearse --gpu a100-40gb -- sh -c "cp caught.jsonl \"\$P4D_REHEARSAL_PHASES\" && exec $played 20000"
prints "(51 %) on 1 x a100-40gb: it ran out of memory 2 times and continued" "May fit:  l4-24gb, "
printf '{"phase": "update", "step": 1, "allocated": 1, "reserved": 1}\n{"unseen": ["save"]}\n' >"$work/unseen.jsonl"
exits 0 p4d rehearse --phases save -- sh -c "cp unseen.jsonl \"\$P4D_REHEARSAL_PHASES\" && exec $played 1"
prints "Verdict: warn: " ": the program did not save"
exits 5 p4d rehearse --phases eval,saves -- "$played" 1
says "--phases=eval,saves: not a list of train, eval and save"

exits 1 p4d rehearse
says "no program given" "p4d help rehearse"
exits 1 p4d rehearse --node 2 -- "$played" 1
says "unknown option --node; nearest: --nodes"
exits 5 p4d rehearse --steps many -- "$played" 1
says "--steps=many: not a whole number from 0 to 1000"
exits 5 p4d rehearse --gpus-per-node 2 --ranks 2 -- "$played" 1
says "--ranks=2: not a whole number from 0 to 1"
exits 10 p4d rehearse --gpu nosuch -- "$played" 1
says 'unknown GPU "nosuch"'
exits 11 p4d rehearse --gpu a100 -- "$played" 1
exits 9 p4d rehearse --gpu mi250x -- "$played" 1
says "has no CUDA"

# a signal ends the program, and removes its files; without p4d the program does not go on
signals="INT HUP KILL"
case $(sed -n 's/^SigIgn:.*\(.\)$/\1/p' /proc/self/status) in
*[13579bdf]) signals="INT KILL" ;; # nohup
esac
for signal in $signals; do
	setsid "$P4D_TEST_BUILDDIR/p4d" rehearse --timeout 60 -- "$played" hang >"$work/out" 2>&1 &
	command=$!
	tries=100
	while [ $((tries -= 1)) -gt 0 ]; do
		child=$(pgrep -P $command -f "played hang") && break
		sleep 0.1
	done
	[ -n "$child" ] || fail "the program was not started"
	kill -$signal $command
	wait $command && fail "SIG$signal is no success"
	tries=20
	while kill -0 "$child" 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do
		sleep 0.1
	done
	! kill -0 "$child" 2>/dev/null || fail "the program goes on after SIG$signal"
	[ $signal = KILL ] || [ -z "$(ls -A "$TMPDIR")" ] || fail "left: $(ls -R "$TMPDIR")"
done
