#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The GPUs of a partition that p4d.conf does not name are learned from the cluster; the worst counts.
. "${0%/*}/lib.sh"

run sbatch -H -p mixed $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
[ "$status" != 0 ] || fail "not judged for a100"
says a100
# a typed GRES or a constraint decides
run sbatch -H -p mixed -N1 --gpus-per-node=h100:8 $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
accepted
run sbatch -H -p mixed -C h100 $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
accepted
