#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mode = observe: p4d prints and refuses nothing; slurmctld's log has the verdict.
. "${0%/*}/lib.sh"

run sbatch -H -p observe $node $toobig job.sh
accepted
silent
grep -q "p4d: event=\"submit\" verdict=\"would-refuse\" .*job=\"${0##*/}\"" "$CLUSTER/log/slurmctld.log" || fail "not in the log of slurmctld"

# what sbatch found is logged as it was, not as a plan that is missing; also with --export=NONE
since=$(wc -l <"$CLUSTER/log/slurmctld.log")
run sbatch -H --export=NONE -p observe $node --p4d-model=lama13b job.sh
accepted
silent
run sbatch -H -p warn $node --p4d-model=lama13b job.sh
accepted
says "p4d: [P4D007]"
does_not_say P4D040
log=$(tail -n "+$((since + 1))" "$CLUSTER/log/slurmctld.log" | grep 'p4d: event=')
same "$(printf '%s\n' "$log" | grep -c ' verdict="would-refuse" code="P4D007" .* source="client" ')" 2
lacks "$log" P4D040
