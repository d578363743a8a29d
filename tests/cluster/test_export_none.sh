#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --export=NONE does not get a job past p4d, nor does it lose its plan.
. "${0%/*}/lib.sh"

run sbatch --export=NONE $node --p4d-model=llama13b --p4d-tp=8 -o out job.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"
finished "$id"
same "$state" COMPLETED
run sbatch -H --export=NONE $node $toobig job.sh
refused P4D013
