#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A partition may require a plan of every job with GPUs.
. "${0%/*}/lib.sh"

run sbatch -H -p strict $node job.sh
refused P4D043
run sbatch -H -p strict -N1 -n1 job.sh
accepted
silent
run sbatch -H -p strict $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
# in whatever form Slurm accepts: 26.05 refuses some of these itself
for request in --gres=gpu:+1 --gres=gpu:h100:+2 "--gres=gpu:\ 1" --gres=gpu:h100:00000001 --gpus=+1 --gpus-per-node=+1 \
	"-n1 --gpus-per-task=+1" "--gpus=\ 2"; do
	eval "run sbatch -H -p strict $request job.sh"
	case $err in
	*"Invalid Trackable RESource"*) ;;
	*) refused P4D043 ;;
	esac
done
# --exclusive comes with all GPUs of the node
run sbatch -H -p strict --exclusive job.sh
refused P4D043
