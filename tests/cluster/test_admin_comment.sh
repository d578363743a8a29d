#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Users cannot change the approved plan.
. "${0%/*}/lib.sh"

[ "$(id -u)" = 0 ] || skip "needs root, to submit as another user"
[ "$(scontrol show config | sed -n 's/^AuthType *= *//p')" = auth/munge ] || skip "needs munge, to tell users apart"
as_nobody() { setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }
run as_nobody sbatch -H -D / -o /dev/null $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
plan=$(job "$id" AdminComment)
contains "$plan" ":tp=8@u:"
held=$id
run as_nobody scontrol update jobid="$held" admincomment=p4d1:mine
[ "$status" != 0 ] || fail "the user changed it"
same "$(job "$held" AdminComment)" "$plan"
scancel "$held"
