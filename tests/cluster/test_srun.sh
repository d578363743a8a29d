#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# srun is judged like sbatch, and its tasks see the plan.
. "${0%/*}/lib.sh"

run srun $node -n8 --p4d-model=llama13b --p4d-tp=8 env
accepted
says "p4d: [P4D110]"
same "$(variable P4D_TP | sort -u)" 8
run srun $node -n8 $toobig true
refused P4D013
