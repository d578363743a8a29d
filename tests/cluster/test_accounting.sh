#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With accounting a job counts with the account and the QOS that it gets: the user's default account, those above it, the default
# QOS, the QOS of the partition; and an account that is not the user's exempts nobody. A Slurm and a database of its own.
. "${0%/*}/lib.sh"

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
mkdir -p "$database/data"
{ printf 'create database p4d;\ncreate database mysql;\nuse mysql;\n' && cat "$tables"; } | mariadbd --no-defaults --bootstrap \
	--datadir="$database/data" --user="$user" --skip-grant-tables >"$work/bootstrap.log" 2>&1 || fail "$(cat "$work/bootstrap.log")"
mariadbd --no-defaults --datadir="$database/data" --socket="$database/socket" --pid-file="$database/pid" \
	--skip-networking --user="$user" --skip-grant-tables --innodb-flush-log-at-trx-commit=0 \
	>"$work/mariadbd.log" 2>&1 &
mariadbd=$!
wait_until test -S "$database/socket"

# slurmdbd, beside a Slurm that starts without it and is then told of it
"$SOURCE/tests/cluster/cluster.sh" start --auth=none --plugins="$BUILD/.libs" --no-nodes "$own" ||
	fail "no cluster"
. "$own/env"
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
MYSQL_UNIX_PORT=$database/socket slurmdbd -D >"$work/slurmdbd.err" 2>&1 &
slurmdbd=$!

# slurmctld begins again, with accounting, but does not enforce associations
cat >>"$SLURM_CONF" <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((port + 5))
AccountingStorageTRES=gres/gpu
PartitionName=qos Nodes=h1,h2 QOS=large
END
wait_until sacctmgr -n show cluster
kill "$(cat "$own/run/slurmctld.pid")"
down() { ! scontrol ping | grep -q 'is UP'; }
wait_until down
rm -f "$own/state/clustername" # has an identity that slurmdbd did not give it
{ sacctmgr -i add cluster p4d; sacctmgr -i add qos large; sacctmgr -i add account staff,trusted
	sacctmgr -i add account physics parent=staff
	sacctmgr -i add user "$user" account=physics defaultaccount=physics; } >"$work/sacctmgr.log" 2>&1
(cd "$own/log" && PRIVATE_SLURM=$own exec setsid slurmctld -D >"$own/log/slurmctld.err" 2>&1) &
up() { scontrol ping | grep -q 'is UP' && scontrol show assoc_mgr flags=assoc | grep -q physics; }
wait_until up

# site TEXT: waits until slurmctld has read it
site()
{
	printf 'mode = enforce\ndata = "%s"\n%s\nversion = 1\n' "$SOURCE/etc" "$1" >"$own/etc/p4d.conf.new"
	put_site "$own/etc/p4d.conf.new" "$own"
}
# comes_to CHECK COMMAND...: runs the command until the check holds. slurmctld reads the accounts after p4d.conf, and again after half
# a minute.
comes_to()
{
	check=$1
	shift
	wait_until comes_now "$@"
	eval "$check"
}
comes_now() { run "$@" && (eval "$check"); }
# changes CHECK WHAT...: changes it until slurmctld knows: slurmdbd tells only a slurmctld that is registered at that time
changes()
{
	check=$1
	shift
	wait_until changes_now "$@"
}
changes_now()
{
	sacctmgr -i modify "$@"
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		if $check; then
			return
		fi
		sleep 0.2
	done
	false
}
plain="sbatch -H $node"

site 'account staff { require_plan = true }'
comes_to 'refused P4D043' $plain job.sh
site 'qos large { require_plan = true }'
comes_to 'accepted' $plain job.sh
run $plain -p qos job.sh
refused P4D043
sacctmgr -i modify user "$user" set qos=normal,large defaultqos=large >/dev/null
site 'qos "l*e" { require_plan = true }'
comes_to 'refused P4D043' $plain job.sh
run $plain --qos=normal job.sh
accepted
# the same at the client, which judges first
site 'exempt_accounts = { staff }'
comes_to 'accepted' sbatch -H $node $toobig job.sh
site 'exempt_accounts = { trusted }'
comes_to 'refused P4D013' sbatch -H -A trusted $node $toobig job.sh
site "user $user { mode = warn }"
comes_to 'accepted' sbatch -H $node $toobig job.sh
says P4D013
# this cluster is no other, whose GPUs nobody knew here
site 'admin_comment = digest'
comes_to 'accepted' sbatch -M p4d -H $node $full job.sh
silent

# any QOS can be typed where Slurm does not enforce them: one that the user does not have exempts nobody
sacctmgr -i add qos free >/dev/null
site 'exempt_qos = { free }'
comes_to 'refused P4D013' sbatch -H --qos=free $node $toobig job.sh
sacctmgr -i modify user "$user" set qos=normal,large,free >/dev/null
site 'exempt_qos = { free, unused }'
comes_to 'accepted' sbatch -H --qos=free $node $toobig job.sh

# limits of nodes, once Slurm enforces them: a fix takes no more than a job gets
site ''
comes_to 'refused P4D013' sbatch -H $node $toobig job.sh
says 'fix: --nodes='
sed -i 's/^AccountingStoragePort=.*/&\nAccountingStorageEnforce=limits/' "$SLURM_CONF"
reconfigure
enforces() { scontrol show config | grep -qi '^AccountingStorageEnforce.*limits'; }
wait_until enforces
limited() { scontrol show assoc_mgr flags=qos | grep -q 'MaxTRESPJ=.*node=1'; }
changes limited qos large set maxtresperjob=node=1
run sbatch -H --qos=large $node $toobig job.sh
refused P4D013
says 'and a job there gets at most 1'
lacks "$err" '--nodes='
run sbatch -H -p qos --qos=normal $node $toobig job.sh
says 'and a job there gets at most 1'
run sbatch -H --qos=normal $node $toobig job.sh
says 'fix: --nodes='
limited() { scontrol show assoc_mgr flags=assoc | grep -q 'MaxTRESPJ=.*node=1'; }
changes limited user "$user" set maxtresperjob=node=1
run sbatch -H --qos=normal $node $toobig job.sh
says 'and a job there gets at most 1'
sacctmgr -i modify user "$user" set maxtresperjob=node=-1 >/dev/null
# a limit of the account is the user's, but for one of his own
changes limited account physics set maxtresperjob=node=1
run sbatch -H --qos=normal $node $toobig job.sh
says 'and a job there gets at most 1'
limited() { scontrol show assoc_mgr flags=assoc | grep -q 'MaxTRESPJ=.*node=64'; }
changes limited user "$user" set maxtresperjob=node=64
run sbatch -H --qos=normal $node $toobig job.sh
says 'fix: --nodes='
sacctmgr -i modify user "$user" set maxtresperjob=node=-1 >/dev/null
sacctmgr -i modify account physics set maxtresperjob=node=-1 >/dev/null
# the same of GPUs
limited() { scontrol show assoc_mgr flags=qos | grep -q 'MaxTRESPJ=.*gres/gpu=8'; }
changes limited qos large set maxtresperjob=node=-1,gres/gpu=8
run sbatch -H --qos=large $node $toobig job.sh
refused P4D013
says 'GPUs, and a job there gets at most 8'
lacks "$err" '--nodes='
sacctmgr -i modify qos large set maxtresperjob=gres/gpu=-1 >/dev/null
sed -i '/^AccountingStorageEnforce=limits/d' "$SLURM_CONF"
reconfigure
lifted() { ! enforces; }
wait_until lifted

# a user who may not see the accounts above his own is not refused for what slurmctld knows
[ "$(id -u)" = 0 ] || exit 0
sacctmgr -i add user daemon account=physics defaultaccount=physics >/dev/null
echo 'PrivateData=accounts,users,usage' >>"$SLURM_CONF"
reconfigure
user_sees() { setpriv --reuid=daemon --regid=daemon --clear-groups scontrol show assoc_mgr flags=assoc; }
wait_until sh -c 'scontrol show config | grep -q "^PrivateData.*accounts"'
user_sees | grep -i 'account' | head
chmod 755 "$work" "$own"
site 'exempt_accounts = { staff }'
comes_to 'accepted' setpriv --reuid=daemon --regid=daemon --clear-groups sbatch -H -o /dev/null $node $toobig job.sh
site 'exempt_accounts = { trusted }'
comes_to 'refused P4D013' setpriv --reuid=daemon --regid=daemon --clear-groups sbatch -H -o /dev/null $node $toobig job.sh
