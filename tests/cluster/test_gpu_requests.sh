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
