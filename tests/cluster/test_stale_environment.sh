#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Output variables left in the submitting shell do not make a plain job a p4d job.
. "${0%/*}/lib.sh"

export P4D_TP=4 P4D_MODEL=llama13b P4D_PLAN=p4d1:left-over
run sbatch $node -o out job.sh
accepted
finished "$id"
run cat out
lacks "$out" P4D_
