#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs submitted through libslurm are judged like any other.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
plan=$(job "$id" AdminComment)
run submit --gpus=8
accepted
run submit --gpus=8 --env=_SLURM_SPANK_OPTION_p4d_p4d_tp=8
refused P4D040
run submit --gpus=8 --env="P4D_PLAN=$plan"
accepted
same "$(job "$id" AdminComment)" "$plan"
run submit --gpus=4 --env="P4D_PLAN=$plan"
[ "$status" != 0 ] || fail "a plan for 8 GPUs was accepted on 4"
