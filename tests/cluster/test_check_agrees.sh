#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `p4d check` says what the guard says.
. "${0%/*}/lib.sh"

for flags in "--p4d-model=llama13b --p4d-tp=8" "$toobig" "--p4d-model=llama13b --p4d-tp=3" "$full"; do
	run sbatch -H $node $flags job.sh
	theirs=$err
	code=$(printf '%s\n' "$err" | sed -n 's/.*p4d: \[\(P4D[0-9]*\)\].*/\1/p' | head -1)
	run p4d check $node $flags job.sh
	[ -z "$code" ] || contains "$out$err" "$code"
	[ -n "$code" ] || lacks "$out$err" "[P4D"
	printf '%s\n' "$theirs"
done
