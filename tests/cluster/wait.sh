# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by lib.sh and run.sh, which have fail.

explain() { :; } # what a test prints if it waited in vain

# wait_until COMMAND...: until it succeeds. A busy machine may take minutes.
wait_until()
{
	limit=$(($(date +%s) + 300))
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -lt "$limit" ] || { explain; fail "in vain: $*"; }
		sleep 0.1
	done
}

# Whether slurmctld has put a p4d.conf into force since it had done so that many times, and has kept this one
has_reloaded()
{
	[ "$(grep -c 'p4d: reloaded' "$1/log/slurmctld.log")" -gt "$2" ] &&
		[ -n "$(find "$1/state/p4d.conf.good" -newer "$1/etc/p4d.conf")" ]
}

# put_site FILE [CLUSTER]: makes it p4d.conf, and waits until slurmctld judges by it. FILE is moved if it is a p4d.conf.new.
put_site()
{
	set -- "$1" "${2:-$CLUSTER}"
	[ "$1" = "$2/etc/p4d.conf.new" ] || cp "$1" "$2/etc/p4d.conf.new"
	seen=$(grep -c 'p4d: reloaded' "$2/log/slurmctld.log")
	touch "$2/etc/p4d.conf.new" # newer than what a reload keeps that has just come for the file before
	mv "$2/etc/p4d.conf.new" "$2/etc/p4d.conf"
	wait_until has_reloaded "$2" "$seen"
}
