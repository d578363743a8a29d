#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A complete, true plan is accepted on any route; one that does not fit on none.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
P4D_PLAN=$(job "$id" AdminComment)
run sbatch -H $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
larger=$(job "$id" AdminComment)
export P4D_PLAN
without_spank
run sbatch -H $node job.sh
accepted
same "$(job "$id" AdminComment)" "$P4D_PLAN"
# a plan that was right for a node of h100, on the smaller a100
P4D_PLAN=$larger
run sbatch -H $node -p a100 job.sh
[ "$status" != 0 ] || fail "a plan for h100 was accepted on a100"
says "p4d: ["
run sbatch -H $node -p h100 job.sh
accepted

# slurmctld takes what the site measured from a file that p4d.conf includes, and reads that file again when it changes
measured()
{
	printf 'framework "p4d" { reserve_gib = %s }\nversion = 1\n' "$1" >"$CLUSTER/etc/margins.conf.new"
	mv "$CLUSTER/etc/margins.conf.new" "$CLUSTER/etc/margins.conf"
}
measured 60
{ echo "include = { \"$CLUSTER/etc/margins.conf\" }"; cat "$CLUSTER/p4d.conf.good"; } >"$CLUSTER/etc/p4d.conf.new"
put_site "$CLUSTER/etc/p4d.conf.new"
run sbatch -H $node -p h100 job.sh
[ "$status" != 0 ] || fail "slurmctld does not count the reserve that the site measured"
says P4D012
seen=$(grep -c 'p4d: reloaded' "$CLUSTER/log/slurmctld.log")
measured 1
reloaded_again() { [ "$(grep -c 'p4d: reloaded' "$CLUSTER/log/slurmctld.log")" -gt "$seen" ]; }
wait_until reloaded_again
run sbatch -H $node -p h100 job.sh
accepted
put_site "$CLUSTER/p4d.conf.good"
