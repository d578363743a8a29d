#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# salloc is judged like sbatch, and its shell and steps see the plan.
. "${0%/*}/lib.sh"

run salloc $node --p4d-model=llama13b --p4d-tp=8 sh -c 'echo "tp=$P4D_TP"; srun sh -c "echo step=\$P4D_TP"'
accepted
says "p4d: [P4D110]"
contains "$out" "tp=8"
contains "$out" "step=8"
run salloc $node $toobig true
refused P4D013
