#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All the ways to ask for GPUs mean the same.
. "${0%/*}/lib.sh"

for request in "-N1 --gres=gpu:8" "-N1 --gres=gpu:h100:8" "-N1 --gpus=8" "-N1 --gpus=h100:8" "-N1 --gpus-per-node=h100:8" \
	"-N1 -n8 --gpus-per-task=1" "-N2 --gres=gpu:4"; do
	run sbatch -H $request --p4d-model=llama13b --p4d-tp=4 job.sh
	accepted
	does_not_say "P4D03"
done
