#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A step with other options than its job's plan fails; plain steps always run; no node is drained.
. "${0%/*}/lib.sh"

cat >steps.sh <<'END'
#!/bin/sh
srun -n1 --p4d-tp=4 true
echo "other=$?"
srun -n1 hostname
echo "plain=$?"
srun -n1 --p4d-tp=8 true
echo "same=$?"
END
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o out steps.sh
accepted
finished "$id"
same "$state" COMPLETED
run cat out
contains "$out" "p4d: [P4D044]"
lacks "$out" "other=0"
contains "$out" "plain=0"
contains "$out" "same=0"
nodes_are_up
