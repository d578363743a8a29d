#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --p4d-override passes where the site allows it, is logged, and nowhere else.
. "${0%/*}/lib.sh"

run sbatch -H -p lenient $node $toobig --p4d-override=deadline job.sh
accepted
says "p4d: [P4D113]"
grep -q 'p4d.*deadline' "$CLUSTER/log/slurmctld.log" || fail "not in the log of slurmctld"
run sbatch -H -p h100 $node $toobig --p4d-override=deadline job.sh
refused P4D048
# of what no plan could be made of, too
run sbatch -H -p lenient $node --p4d-model=llama13b --p4d-tp=3 --p4d-override=deadline job.sh
accepted
says "p4d: [P4D113]"
run sbatch -H $node --p4d-model=llama13b --p4d-tp=3 --p4d-override=deadline job.sh
refused P4D020
