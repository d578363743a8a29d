#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs of p4d-train get a key that no other job has; others get none.
. "${0%/*}/lib.sh"

# key ARGUMENT...: the P4D_JOB_KEY of such a job
key()
{
	rm -f out
	run sbatch -o out "$@" job.sh
	accepted
	finished "$id"
	key=$(sed -n 's/^P4D_JOB_KEY=//p' out)
}

key $node $full
first=$key
case $first in
*[!0-9a-f]*) fail "key '$first' is not hexadecimal" ;;
????????????????????????????????) ;;
*) fail "key '$first' has not 32 digits" ;;
esac
export P4D_JOB_KEY=$first
key $node $full
[ -n "$key" ] && [ "$key" != "$first" ] || fail "the second job has key '$key'"
key -N1
same "$key" "" "a job without p4d options has key"
unset P4D_JOB_KEY
key $node ${full%framework=p4d}framework=megatron
same "$key" ""
run srun $node -n8 $full env
accepted
same "$(variable P4D_JOB_KEY | sort | uniq -c | awk '{ print $1 }')" 8 "tasks with the same key"
