#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A changed option is the same in the batch step, in srun steps and in the approved plan.
. "${0%/*}/lib.sh"

cat >steps.sh <<'END'
#!/bin/sh
echo "batch=$P4D_TP,$P4D_PP"
srun -n1 sh -c 'echo "step=$P4D_TP,$P4D_PP"'
END
run sbatch $node --p4d-fix --p4d-model=llama13b --p4d-tp=1 --p4d-pp=1 --p4d-cp=1 --p4d-optimizer-sharding=off -o out steps.sh
accepted
says "p4d: [P4D111]"
plan=$(job "$id" AdminComment)
finished "$id"
same "$state" COMPLETED
run cat out
layout=$(printf '%s\n' "$out" | sed -n 's/^batch=//p')
contains "$out" "step=$layout"
contains "$plan" ":tp=${layout%,*}@"
contains "$plan" ":pp=${layout#*,}@"
