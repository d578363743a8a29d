#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d does not touch a job without p4d options, and the job sees none of p4d's variables.
. "${0%/*}/lib.sh"

run sbatch $node -o out job.sh
accepted
silent
finished "$id"
run cat out
lacks "$out" P4D_
same "$(job "$id" AdminComment)" ""
