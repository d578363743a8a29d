#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurmctld follows p4d.conf: a good edit takes effect, a bad one leaves the previous one in force.
. "${0%/*}/lib.sh"

conf=$CLUSTER/etc/p4d.conf
judge() { run env SLURM_CONF="$SLURM_CONF" submit --gpus=8 --env=_SLURM_SPANK_OPTION_p4d_p4d_tp=8; }
# After an edit: waits until slurmctld has loaded it, or has logged why not. After that nothing changes.
lines() { grep -c "p4d: reloaded\|the previous configuration stays in force" "$CLUSTER/log/slurmctld.log"; }
has_looked() { [ "$(lines)" -gt "$before" ]; }
settle()
{
	wait_until has_looked
	before=$(lines)
	judge
	accepted_before=$status
	sleep 0.2
	judge
	same "$status" "$accepted_before"
}
before=$(lines)
judge
refused P4D040
sed 's/^mode = enforce/mode = off/' "$CLUSTER/p4d.conf.good" >"$conf.new"
mv "$conf.new" "$conf"
settle
accepted
echo 'nonsense = 1' >"$conf"
settle
accepted
# in one step: between a copy and a chmod slurmctld may look
cp "$CLUSTER/p4d.conf.good" "$conf.new"
chmod 666 "$conf.new"
mv "$conf.new" "$conf"
settle
accepted
chmod 644 "$conf"
touch "$conf"
settle
refused P4D040
grep -q 'p4d.conf:1: ' "$CLUSTER/log/slurmctld.log" || fail "the bad edit is not named in the log"
