#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A node dies under a training: the ranks on the other node end with one line that says who is missing, slurmctld finds the node
# down and requeues the job, and when the node is back it goes on from the newest checkpoint as if nothing had happened.
. "${0%/*}/lib.sh"
. "$SOURCE/tests/cluster/training.sh"
cluster=$SOURCE/tests/cluster/cluster.sh
steps=1000 # so that it is not at its end while its node is taken away

at_end()
{
	sed -i '/^SlurmdTimeout=/d' "$CLUSTER/etc/slurm.conf"
	reconfigure
	[ -d "/proc/$(cat "$CLUSTER/run/slurmd-h2.pid")" ] || "$cluster" boot "$CLUSTER" h2
	until_true 100 h2_is idle
}
# If asked for one node (-n), slurmctld answers with its earlier state.
h2_is() { sinfo -h -N -p h100 -o '%N %T' | grep -q "^h2 $1"; }
submit parts $steps --requeue
hurt=$id
saved() { grep -qs '"event":"saved"' parts/log.jsonl; }
until_true 300 saved || fail "no checkpoint: $(cat parts.out)"
"$cluster" crash "$CLUSTER" h2
ranks() { pgrep -f "^[^ ]*p4d-train .*--checkpoint $work/parts "; }
survivors_gone() { ! ranks >/dev/null; }
until_true 50 survivors_gone || fail "still there after 5 seconds: $(ranks | tr '\n' ' ')"
told() { grep -q '^p4d-train: \[P4D050\] rank [4-7] (h2) ' parts.out; }
until_true 50 told || fail "it does not say who was lost: $(cat parts.out)"
# A node is down when one whole attempt to reach it, ten seconds, fails and its last answer is older than this. Other tests keep the
# default of five minutes.
echo "SlurmdTimeout=10" >>"$CLUSTER/etc/slurm.conf"
reconfigure
last=$(losses parts/log.jsonl | tail -n 1)
[ "${last%% *}" -lt $steps ] || fail "it was at its end already"

# The same without a failure, on two other nodes.
submit whole $steps -p a100
finished "$id"
same "$state" COMPLETED
losses whole/log.jsonl >whole.txt
same "$(wc -l <whole.txt)" $steps "steps"

until_true 600 restarted "$hurt" || fail "slurmctld did not requeue it: $(sinfo -R)"
until_true 100 h2_is down || fail "h2 is not down: $(sinfo -N)"
"$cluster" boot "$CLUSTER" h2
until_true 100 h2_is idle || fail "h2 did not return: $(sinfo -R)"
put_back "$hurt"
finished "$hurt"
cat parts.out
same "$state" COMPLETED
same "$(grep -c '^p4d-train: ' parts.out)" 1 "lines of p4d-train"
# the job's script may be faster than the order to end it
grep -qE 'JOB [0-9]* ON h1 CANCELLED AT .* DUE TO NODE FAILURE|^srun: error: Node failure on h2' parts.out || fail "slurmctld did not end it"
begins=$(sed -n 's/.*"event":"start".*"resumed_step":\([0-9]*\).*/\1/p' parts/log.jsonl | tr '\n' ' ')
case $begins in
"0 "[1-9]*) ;;
*) fail "it began at steps $begins" ;;
esac
losses parts/log.jsonl | cmp -s - whole.txt || fail "it did not go on bit by bit"
