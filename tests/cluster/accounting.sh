# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154
# Sourced after lib.sh by tests that need accounting: a Slurm ($own) with a slurmdbd and a MariaDB of its own.

PATH=$PATH:/usr/sbin
for program in slurmdbd mariadbd sacctmgr; do
	command -v "$program" >/dev/null || skip "no $program (packages slurmdbd and mariadb-server-core)"
done
for dir in /usr/lib/*/slurm-wlm /usr/lib64/slurm /usr/lib/slurm /usr/local/lib/slurm; do
	[ ! -f "$dir/accounting_storage_mysql.so" ] || mysql=yes
done
for tables in /usr/share/m*/m*_system_tables.sql ''; do
	[ ! -f "$tables" ] || break
done
[ -n "$tables" ] || skip "no system tables of MariaDB (package mariadb-server-core)"
[ -n "${mysql:-}" ] || skip "no accounting_storage/mysql (package slurm-wlm-mysql-plugin)"

own=$work/cluster database=$work/database user=$(id -un) shared=$SLURM_CONF preload=${LD_PRELOAD:-}
at_end()
{
	"$SOURCE/tests/cluster/cluster.sh" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
	for pid in ${slurmdbd:-} ${mariadbd:-}; do
		kill "$pid" && wait "$pid"
	done 2>/dev/null
}
explain() { tail -n 5 "$work"/*.log "$own"/log/slurmctld.*; scontrol show assoc_mgr flags=assoc; scontrol ping; }

# The database, on a socket only. Slurm has procedures there, so it needs its own tables; and its own database is there from the
# start, since slurmdbd 26.05 and MariaDB's client library 11.8.9 fail after slurmdbd has made it.
start_database()
{
	mkdir -p "$database/data"
	{ printf 'create database p4d;\ncreate database mysql;\nuse mysql;\n' && cat "$tables"; } | mariadbd --no-defaults --bootstrap \
		--datadir="$database/data" --user="$user" --skip-grant-tables >"$work/bootstrap.log" 2>&1 || fail "$(cat "$work/bootstrap.log")"
	run_database
}

run_database()
{
	mariadbd --no-defaults --datadir="$database/data" --socket="$database/socket" --pid-file="$database/pid" \
		--skip-networking --user="$user" --skip-grant-tables --innodb-flush-log-at-trx-commit=0 \
		>"$work/mariadbd.log" 2>&1 &
	mariadbd=$!
	wait_until test -S "$database/socket"
}

start_slurmdbd()
{
	port=$(sed -n 's/^SlurmctldPort=//p' "$SLURM_CONF")
	cat >"$own/etc/slurmdbd.conf" <<END
AuthType=auth/none
DbdHost=localhost
DbdPort=$((port + 5))
SlurmUser=$user
StorageType=accounting_storage/mysql
StorageHost=localhost
StoragePort=0
StorageUser=root
StorageLoc=p4d
LogFile=$work/slurmdbd.log
PidFile=$work/slurmdbd.pid
PluginDir=$(scontrol show config | sed -n 's/^PluginDir *= *//p')
END
	chmod 600 "$own/etc/slurmdbd.conf"
	run_slurmdbd
}

run_slurmdbd()
{
	MYSQL_UNIX_PORT=$database/socket slurmdbd -D >"$work/slurmdbd.err" 2>&1 &
	slurmdbd=$!
}

# change_database SQL: without those who use it
change_database()
{
	for pid in $slurmdbd $mariadbd; do
		kill "$pid" && wait "$pid"
	done 2>/dev/null
	printf 'use p4d;\n%s\n' "$1" | mariadbd --no-defaults --bootstrap --datadir="$database/data" --user="$user" --skip-grant-tables \
		>"$work/change.log" 2>&1 || fail "$(cat "$work/change.log")"
	run_database
	run_slurmdbd
	wait_until sacctmgr -n show cluster
}

down() { ! scontrol ping | grep -q 'is UP'; }
up() { scontrol ping | grep -q 'is UP' && scontrol show assoc_mgr flags=assoc | grep -q physics; }

# start_accounting [OPTION of cluster.sh...]: slurmdbd, next to a Slurm that starts without it. Then slurmctld begins again, with
# accounting and the lines in $PARAMETERS, but does not enforce associations.
start_accounting()
{
	start_database
	"$SOURCE/tests/cluster/cluster.sh" start --auth=none --plugins="$BUILD/.libs" "$@" "$own" || fail "no cluster"
	. "$own/env"
	start_slurmdbd
	cat >>"$SLURM_CONF" <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((port + 5))
AccountingStorageTRES=gres/gpu
${PARAMETERS:-}
END
	wait_until sacctmgr -n show cluster
	kill "$(cat "$own/run/slurmctld.pid")"
	wait_until down
	rm -f "$own/state/clustername" # has an identity that slurmdbd did not give it
	{ sacctmgr -i add cluster p4d; sacctmgr -i add qos large; sacctmgr -i add account staff,trusted
		sacctmgr -i add account physics parent=staff
		sacctmgr -i add user "$user" account=physics defaultaccount=physics; } >"$work/sacctmgr.log" 2>&1
	(cd "$own/log" && PRIVATE_SLURM=$own exec setsid slurmctld -D >"$own/log/slurmctld.err" 2>&1) &
	wait_until up
}
