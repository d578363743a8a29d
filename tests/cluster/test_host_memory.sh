#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --mem too small for a checkpoint is refused with what would do.
. "${0%/*}/lib.sh"

run sbatch -H $node $full --mem=4G job.sh
refused P4D033
contains "$(fix)" "--mem="
run sbatch -H $node $full $(fix) job.sh
accepted

# more than a node has, of a job that asks for none
for command in "sbatch -H" "p4d check"; do
	run $command $node --p4d-model=deepseek-v3 --p4d-framework=deepspeed --p4d-zero-stage=3 --p4d-offload=optimizer,params --p4d-recompute=full job.sh
	accepted
	says "[P4D121] unvalidated (host memory of offloaded tensors): the ranks of a node need "
	says " GiB if PyTorch pins each tensor, a node here has 1953.1 GiB ("
	says ", limit 95 %)"
	run $command $node --p4d-model=llama3-8b --p4d-framework=deepspeed --p4d-zero-stage=3 --p4d-offload=optimizer,params --p4d-recompute=full job.sh
	accepted
	does_not_say "host memory of offloaded tensors"
done

# in the words of the job
for words in --mem-per-gpu=1G "--mem-per-cpu=1G --ntasks-per-node=8" --mem=1G; do
	run sbatch -H $node $full $words job.sh
	refused P4D033
	contains "$(fix)" "${words%%=*}="
	run sbatch -H $node $full $words $(fix) job.sh
	accepted
done
