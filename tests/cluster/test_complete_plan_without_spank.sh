#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A complete, true plan is accepted on any route; one that does not fit on none.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
P4D_PLAN=$(job "$id" AdminComment)
run sbatch -H $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
larger=$(job "$id" AdminComment)
export P4D_PLAN
without_spank
run sbatch -H $node job.sh
accepted
same "$(job "$id" AdminComment)" "$P4D_PLAN"
# a plan that was right for a node of h100, on the smaller a100
P4D_PLAN=$larger
run sbatch -H $node -p a100 job.sh
[ "$status" != 0 ] || fail "a plan for h100 was accepted on a100"
says "p4d: ["
run sbatch -H $node -p h100 job.sh
accepted
