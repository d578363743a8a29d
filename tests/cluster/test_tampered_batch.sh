#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job whose approved plan is another one than it carries fails with the message; no node is drained.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 -o out job.sh
accepted
job=$id
other=$(job "$job" AdminComment | sed 's/:tp=8@/:tp=4@/')
run scontrol update jobid="$job" admincomment="$other"
accepted
scontrol release "$job"
finished "$job"
same "$state" FAILED
run cat out
contains "$out" "p4d: [P4D04"
nodes_are_up
