#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Judging p4d's own output again changes nothing: plan and options of a job are a fixed point.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
plan=$(job "$id" AdminComment)
contains "$plan" "p4d1:"
run submit --gpus=8 --env="P4D_PLAN=$plan"
accepted
silent
same "$(job "$id" AdminComment)" "$plan"
