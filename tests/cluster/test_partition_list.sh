#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With several partitions, the one with the least GPU memory counts.
. "${0%/*}/lib.sh"

run sbatch -H -p h100,a100 $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
[ "$status" != 0 ] || fail "not judged for a100"
says a100
run sbatch -H -p h100,a100 -N1 --gpus-per-node=h100:8 $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
accepted
