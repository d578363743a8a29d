#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every task of an array carries the plan; an array that does not fit is refused as a whole.
. "${0%/*}/lib.sh"

run sbatch $node --array=0-1 --p4d-model=llama13b --p4d-tp=8 -o 'out-%a' job.sh
accepted
finished "${id}_0"
finished "${id}_1"
for task in 0 1; do
	run cat "out-$task"
	same "$(variable P4D_TP)" 8
done
run sbatch -H $node --array=0-1 $toobig job.sh
refused P4D013
