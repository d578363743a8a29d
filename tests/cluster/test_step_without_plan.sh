#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Options given to a step of a job without a plan are refused.
. "${0%/*}/lib.sh"

run salloc $node sh -c 'srun -n1 --p4d-model=llama13b --p4d-tp=8 true; echo "status=$?"; srun -n1 hostname; echo "plain=$?"'
contains "$err" "p4d: [P4D04"
lacks "$out" "status=0"
contains "$out" "plain=0"
nodes_are_up
