#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scontrol update to a partition with smaller GPUs is judged again.
. "${0%/*}/lib.sh"

run sbatch -H $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
accepted
held=$id
run scontrol update jobid="$held" partition=a100
[ "$status" != 0 ] || fail "moved to GPUs that are too small"
same "$(job "$held" Partition)" h100
run scontrol update jobid="$held" name=other
accepted
run scontrol update jobid="$held" partition=warn
accepted
scancel "$held"
