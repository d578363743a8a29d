#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In a job without a plan, a step with p4d options is judged on its own; other steps run as ever.
. "${0%/*}/lib.sh"

cat >steps.sh <<END
srun -n8 --p4d-model=llama13b --p4d-tp=8 sh -c 'echo "tp=\$P4D_TP"'
echo "fits=\$?"
srun -n8 $toobig true
echo "toobig=\$?"
srun -n1 hostname
echo "plain=\$?"
END
run salloc $node -n8 sh steps.sh
contains "$out" "tp=8"
contains "$out" "fits=0"
lacks "$out" "toobig=0"
says "p4d: [P4D013]"
contains "$out" "plain=0"
nodes_are_up
