#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All the ways to ask for GPUs and memory mean the same, whatever the form of their numbers.
. "${0%/*}/lib.sh"

for request in "-N1 --gres=gpu:8" "-N1 --gres=gpu:h100:8" "-N1 --gpus=8" "-N1 --gpus=h100:8" "-N1 --gpus-per-node=h100:8" \
	"-N1 -n8 --gpus-per-task=1" "-N2 --gres=gpu:4" "-N+1 --gres=gpu:+8" "-N1 --gpus-per-node=h100:00000008" "-N1 --gpus=+8" \
	"-N1 -n+8 --gpus-per-task=+1" "-N1 --gres=gpu:4,gpu:8"; do
	run sbatch -H $request --p4d-model=llama13b --p4d-tp=4 job.sh
	accepted
	does_not_say "P4D03"
	run p4d check $request --p4d-model=llama13b --p4d-tp=4 job.sh
	accepted
	contains "$out" " x h100-80gb"
done

# Slurm prints what --hint takes back as -2.
run sbatch -H $node --sockets-per-node=1 --hint=nomultithread $full job.sh
accepted
silent

# What excludes --hint: before 25.11 not the number of sockets, which it takes back.
codes() { printf '%s\n%s\n' "$out" "$err" | grep -o 'P4D[0-9]*' | sort -u; }
for words in "--sockets-per-node=2 --hint=nomultithread --gpus-per-socket=4" "--cores-per-socket=4 --hint=nomultithread --gpus-per-node=8" \
	"--threads-per-core=2 --hint=nomultithread --gpus-per-node=8" "-B 2:4 --hint=nomultithread --gpus-per-node=8" \
	"--ntasks-per-core=1 --hint=nomultithread --gpus-per-node=8" "--hint=nomultithread --gpus-per-node=8"; do
	for variables in A=1 SBATCH_THREADS_PER_CORE=2 SBATCH_HINT=compute_bound "SBATCH_HINT=nomultithread SBATCH_THREADS_PER_CORE=2"; do
		run env $variables sbatch -H -N1 $words $full job.sh
		same=$status/$(codes)
		run env $variables p4d check -N1 $words $full job.sh
		[ "$status" = 0 ] || status=1
		same "$status/$(codes)" "$same" "p4d check ($variables $words)"
	done
done
run env SBATCH_GPUS_PER_SOCKET=8 sbatch -H -N1 --sockets-per-node=1 $full job.sh
accepted
run env SBATCH_GPUS_PER_SOCKET=8 p4d check -N1 --sockets-per-node=1 $full job.sh
accepted
contains "$out" " on 1 node of 8 x "

# Slurm prints a size of zero as "0?".
for memory in --mem=0 --mem=0G --mem-per-gpu=0 --mem-per-cpu=0 --mem=512000M --mem=600GB; do
	run sbatch -H $node $memory $full job.sh
	accepted
	silent
	run p4d check $node $memory $full job.sh
	accepted
	run salloc $node $memory $full true
	accepted
	does_not_say P4D
done
for variable in SBATCH_MEM_PER_NODE SBATCH_MEM_PER_GPU SBATCH_MEM_PER_CPU; do
	run env $variable=0 sbatch -H $node $full job.sh
	accepted
	silent
done

# sbatch takes no more nodes of --nodelist than there are tasks, though --nodes is not set.
for command in "sbatch -H" "p4d check"; do
	run $command -n1 --nodelist='h[1-2]' --gpus=12 --p4d-model=llama13b --p4d-tp=4 --wrap='srun p4d-train'
	refused P4D032
	says "1 task and 12 GPUs per node"
done
