#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `p4d check` answers what the guard answers.
. "${0%/*}/lib.sh"

# agrees CODE FLAG...: both print the code (nothing when it is empty)
agrees()
{
	code=$1
	shift
	run sbatch -H $node "$@" job.sh
	submitted=$status
	guard=$(printf '%s\n' "$err" | grep -o 'P4D[0-9][0-9][0-9]' | sort -u | xargs)
	run p4d check $node "$@" job.sh
	check=$(printf '%s\n' "$out$err" | grep -o 'P4D[0-9][0-9][0-9]' | sort -u | xargs)
	same "$guard" "$code" "the guard said"
	same "$check" "$code" "p4d check said"
	[ "$submitted" = 0 ] || [ "$status" != 0 ] || fail "p4d check has status 0 for a refused job"
	[ "$submitted" != 0 ] || [ "$status" = 0 ] || fail "p4d check has status $status for an accepted job"
}
agrees P4D110 --p4d-model=llama13b --p4d-tp=8
agrees "P4D013 P4D114" $toobig
agrees P4D013 $toobig --p4d-framework=p4d
agrees P4D020 --p4d-model=llama13b --p4d-tp=3
agrees "" $full
