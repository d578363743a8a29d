#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A complete, true plan is accepted on any route; one that does not fit on none.
. "${0%/*}/lib.sh"

mkdir empty
sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/empty/plugstack.conf|" "$SLURM_CONF" >empty/slurm.conf
: >empty/plugstack.conf
run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
P4D_PLAN=$(job "$id" AdminComment)
export P4D_PLAN
run env SLURM_CONF="$work/empty/slurm.conf" sbatch -H $node job.sh
accepted
same "$(job "$id" AdminComment)" "$P4D_PLAN"
# the plan of an h100 node on the smaller a100, approved nowhere
run sbatch -H $node $full --p4d-micro-batch=8 --p4d-global-batch=1024 job.sh
accepted
P4D_PLAN=$(job "$id" AdminComment)
run env SLURM_CONF="$work/empty/slurm.conf" sbatch -H $node -p a100 job.sh
[ "$status" != 0 ] || fail "a plan for h100 was accepted on a100"
says "p4d: ["
