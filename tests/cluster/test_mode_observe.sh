#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mode = observe: nothing is said or refused; slurmctld's log has the verdict.
. "${0%/*}/lib.sh"

run sbatch -H -p observe $node $toobig job.sh
accepted
silent
grep -q "p4d: event=\"submit\" verdict=\"would-refuse\" .*job=\"${0##*/}\"" "$CLUSTER/log/slurmctld.log" || fail "not in the log of slurmctld"
