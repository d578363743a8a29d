#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d chooses the options that the user leaves open, prints them in one message, and exports them.
. "${0%/*}/lib.sh"

run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o out job.sh
accepted
says "p4d: [P4D110] chose "
says "on h100"
finished "$id"
same "$state" COMPLETED
run cat out
same "$(variable P4D_TP)" 8
same "$(variable P4D_PP)" 1
same "$(variable P4D_DP)" 1
contains "$(variable P4D_PLAN)" ":tp=8@u:"
contains "$(variable P4D_MEGATRON_ARGS)" "--tensor-model-parallel-size 8"
for name in CP CP_COMM VPP MICRO_BATCH GLOBAL_BATCH SEQ_LEN RECOMPUTE SCHEDULE; do
	[ -n "$(variable P4D_$name)" ] || fail "P4D_$name is missing"
done
