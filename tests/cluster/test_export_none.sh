#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --export=NONE does not get a job past p4d, nor does it lose its plan.
. "${0%/*}/lib.sh"

run sbatch --export=NONE $node --p4d-model=llama13b --p4d-tp=8 -o out job.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"
finished "$id"
same "$state" COMPLETED
run sbatch -H --export=NONE $node $toobig job.sh
refused P4D013
# nor in a job that got the whole environment, instead of a copy of its own
cat >steps.sh <<'END'
#!/bin/sh
/usr/bin/env | sed -n 's/^\(P4D_PLAN\|P4D_JOB_KEY\)=/batch \1=/p'
srun -n1 --export=NONE /usr/bin/env | sed -n 's/^\(P4D_PLAN\|P4D_JOB_KEY\)=/step \1=/p'
END
for export in "" --export=ALL --export=NONE; do
	rm -f out
	run sbatch $export -o out $node $full steps.sh
	accepted
	finished "$id"
	same "$(sed -n 's/^step //p' out | wc -l)" 2 "${export:-no --export}: the step has plan and key"
	same "$(sed -n 's/^step //p' out)" "$(sed -n 's/^batch //p' out)" "$export: the step has"
done
