#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sbatch --help lists the usual options, in at most twenty lines, and says where the others are.
. "${0%/*}/lib.sh"

for command in sbatch salloc srun; do
	run "$command" --help
	contains "$out" "--p4d-model=NAME|FILE"
	contains "$out" "--p4d-fix"
	contains "$out" "man p4d-options"
	lines=$(echo "$out" | awk '/--p4d-/ { last = NR; if (!first) first = NR } END { print last - first + 1 }')
	[ "$lines" -le 20 ] || fail "$lines lines"
	run "$command" -h
	lacks "$out" "--p4d-te-wgrad"
done
