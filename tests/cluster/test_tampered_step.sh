#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A step whose plan was edited inside the job is refused; the node stays.
. "${0%/*}/lib.sh"

cat >steps.sh <<'END'
#!/bin/sh
P4D_PLAN=$(printf %s "$P4D_PLAN" | sed 's/:layers=[0-9]*@/:layers=4@/')
export P4D_PLAN
srun -n1 true
echo "edited=$?"
END
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o out steps.sh
accepted
finished "$id"
run cat out
lacks "$out" "edited=0"
contains "$out" "p4d: ["
nodes_are_up
