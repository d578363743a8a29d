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

# What an update empties is gone: without the constraint an a100 is possible.
fits_h100="$full --p4d-micro-batch=8 --p4d-seq-len=2560"
run sbatch -H -p mixed -C h100 $node $fits_h100 job.sh
accepted
held=$id
run scontrol update jobid="$held" Features=
[ "$status" != 0 ] || fail "cleared the constraint"
run scontrol update jobid="$held" Features=h100 name=another
accepted
scancel "$held"
run sbatch -H -p mixed -w h1 $node $fits_h100 job.sh
accepted
held=$id
run scontrol update jobid="$held" ReqNodeList=
[ "$status" != 0 ] || fail "cleared the list of nodes"
run scontrol update jobid="$held" ReqNodeList=h2
accepted
scancel "$held"
run sbatch -H -N1 --gpus=8 $full job.sh
accepted
held=$id
run scontrol update jobid="$held" TresPerJob=
[ "$status" != 0 ] || fail "gave the GPUs back"
run scontrol update jobid="$held" MinMemoryNode=0 name=third
accepted
scancel "$held"
# Jobs without -N, which slurmctld keeps with one node as the lower bound.
run sbatch -H --gpus=16 $full job.sh
accepted
run scontrol update jobid="$id" TimeLimit=10 partition=h100
accepted
scancel "$id"
