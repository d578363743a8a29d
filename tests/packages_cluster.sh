#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packages_cluster.sh FOLDER: as root, on a bare Debian that is thrown away afterwards, without a network except the loopback. The
# packages in FOLDER and, of the next version, in FOLDER/next are installed with the commands of doc/ADMINS.md, used in a cluster,
# upgraded, removed and purged. Slurm is installed, with nothing configured. One line for each test.
# shellcheck disable=SC2317 # functions are called by test_that
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$(cd "$1" && pwd) || exit 1
log=/var/log/slurm/slurmctld.log
export DEBIAN_FRONTEND=noninteractive

failed=0
# test_that NAME FUNCTION: a line. After a failure the rest would say nothing.
test_that()
{
	[ "$failed" = 0 ] || return
	if "${@:2}" >"$folder/said" 2>&1; then
		echo "ok    packages/$1"
	else
		echo "FAIL  packages/$1"
		{ tail -40 "$folder/said"; grep -E 'error|fatal' "$log" | tail -5; } 2>&1 | sed 's/^/      | /'
		failed=1
	fi
}

# Debian's slurm.conf of one machine, with two nodes of eight GPUs that this machine plays.
configure_slurm()
{
	mkdir -p /etc/slurm/plugstack.conf.d /var/log/slurm /var/lib/slurm/slurmctld
	chown slurm: /var/log/slurm /var/lib/slurm /var/lib/slurm/slurmctld
	cat >/etc/slurm/slurm.conf <<'END'
ClusterName=bare
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd-%n.log
SlurmdPidFile=/run/slurmd-%n.pid
SlurmdSpoolDir=/var/lib/slurm/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
GresTypes=gpu
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=7001 CPUs=64 RealMemory=100000 Gres=gpu:h100:8
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=7002 CPUs=64 RealMemory=100000 Gres=gpu:h100:8
PartitionName=gpus Nodes=n1,n2 Default=YES
END
	mkdir -p /srv/gpus
	for gpu in 0 1 2 3 4 5 6 7; do
		ln -sf /dev/null /srv/gpus/gpu$gpu
	done
	echo 'NodeName=n[1-2] Name=gpu Type=h100 File=/srv/gpus/gpu[0-7]' >/etc/slurm/gres.conf
	echo 'CgroupPlugin=cgroup/v1' >/etc/slurm/cgroup.conf
	# as in Debian's slurm-client
	[ -e /etc/slurm/plugstack.conf ] || echo 'include /etc/slurm/plugstack.conf.d/*.conf' >/etc/slurm/plugstack.conf
}

waited_for()
{
	local until=$((SECONDS + 30))
	while ! "$@"; do
		[ "$SECONDS" -lt "$until" ] || { echo "waited for: $*"; return 1; }
		sleep 0.2
	done
}
controller_answers() { timeout 5 scontrol ping 2>/dev/null | grep -q 'is UP'; }
nodes_idle() { [ "$(timeout 5 sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = 2 ]; }
ended() { ! kill -0 "$1" 2>/dev/null; }

# Like `systemctl restart slurmctld` with systemd.
restart_slurmctld()
{
	local old
	old=$(cat /run/slurmctld.pid 2>/dev/null)
	[ -z "$old" ] || ! kill "$old" 2>/dev/null || waited_for ended "$old" || return
	slurmctld && waited_for controller_answers
}
systemctl()
{
	[ "$*" = "restart slurmctld" ] && restart_slurmctld
}

start_cluster()
{
	install -d -o munge -g munge /run/munge
	su -s /bin/sh munge -c munged && restart_slurmctld && slurmd -N n1 && slurmd -N n2 && waited_for nodes_idle
}

as_user() { su user -s /bin/bash -c "cd && $*"; }
# A job without p4d options runs on both nodes, and Slurm prints nothing of its own.
job_runs()
{
	waited_for nodes_idle || return
	as_user "timeout 60 srun -N2 --gpus-per-node=1 sh -c 'echo \$SLURMD_NODENAME'" >"$folder/job" 2>&1
	[ "$(sort "$folder/job" | tr '\n' ' ')" = "n1 n2 " ] || { cat "$folder/job"; sinfo -lN; squeue; return 1; }
}
without_p4d() { start_cluster && job_runs; }

# The first block of the section.
commands() { awk '/^## /{ here = /^## Install by package$/ } here && /^```/{ n++; next } here && n == 1' "$source/doc/ADMINS.md"; }

# They are five, and each succeeds; the packages are where the administrator is.
installs()
{
	commands >"$folder/commands"
	cat "$folder/commands"
	[ "$(wc -l <"$folder/commands")" = 5 ] || return
	while read -r line; do
		(cd "$folder" && eval "$line" </dev/null) || { echo "failed: $line"; return 1; }
	done <"$folder/commands"
}

# What README shows at its top: a job that slurmctld refuses, and the fix that it accepts.
refuses()
{
	: >"$log"
	as_user "PATH=$PATH $source/tests/documents.sh slurm $source/README.md" || return
	as_user scancel --user=user
	grep 'p4d: .*verdict="refuse" code="P4D012"' "$log"
}


installed_version() { dpkg-query -W -f '${Version}' slurm-wlm-p4d-plugin; }

# The administrator's p4d.conf stays; the new sample lies next to it.
upgrades()
{
	local before
	before=$(installed_version)
	cp /etc/slurm/p4d.conf "$folder/p4d.conf"
	(cd "$folder/next" && apt-get install -y -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
		./p4d_*.deb ./slurm-wlm-p4d-plugin_*.deb ./p4d-train_*.deb ./p4d-rehearsal_*.deb ./p4d-doc_*.deb ./libp4d*.deb) || return
	dpkg --compare-versions "$(installed_version)" gt "$before" && cmp /etc/slurm/p4d.conf "$folder/p4d.conf" &&
		grep -q '^# The sample of a later release' /etc/slurm/p4d.conf.dpkg-dist &&
		grep -q '^optional' /etc/slurm/plugstack.conf.d/p4d.conf && refuses && restart_slurmctld && refuses
}

# The other packages: the trainer trains, the rehearsal's libraries load.
others_work()
{
	# shellcheck disable=SC2086 # packages
	dpkg -L $packages | grep -v '^/\.$' | sort -u | comm -23 - "$folder/files.before" >"$folder/files.ours"
	[ "$(wc -l <"$folder/files.ours")" -gt 200 ] && p4d-train --version && p4d rehearse --help | grep -q . && man_pages
}
man_pages() { for page in man1/p4d-train.1 man1/p4d-rehearse.1 man1/p4d.1 man3/p4d.3 man5/p4d.conf.5 man8/p4d-spank.8; do
	[ -s "/usr/share/man/$page.gz" ] || { echo "no $page"; return 1; }
done; }

# What it says has to be done is enough.
removes()
{
	said=$(apt-get remove -y slurm-wlm-p4d-plugin 2>&1) || { echo "$said"; return 1; }
	echo "$said"
	[[ $said == *"slurmctld will not start"* ]] && [[ $said == *"plugstack.conf loads p4d.so"* ]] && [ -e /etc/slurm/p4d.conf ] || return
	sed -i '/^JobSubmitPlugins/d' /etc/slurm/slurm.conf
	sed -i 's/^optional/#optional/' /etc/slurm/plugstack.conf.d/p4d.conf
	restart_slurmctld && job_runs
}

# Nothing remains of the files that the packages installed, or that were made from them, in a new folder. Packages
# that these needed or recommended are not p4d's.
purges()
{
	# shellcheck disable=SC2086 # packages
	apt-get purge -y $packages && ls -A /etc/slurm >"$folder/etc.after" && diff "$folder/etc.before" "$folder/etc.after" || return
	while read -r file; do
		[ ! -e "$file" ] || { echo "left: $file"; return 1; }
	done <"$folder/files.ours"
	! find / -xdev \( -path /p4d -o -path /proc -o -path /sys -o -path /var/log -o -path /etc/apt \) -prune -o -name '*p4d*' -print | grep .
}

grep -qw "$(uname -n)" /etc/hosts || echo "127.0.0.1 $(uname -n)" >>/etc/hosts
useradd -m user || exit 1
configure_slurm
packages="p4d p4d-train p4d-rehearsal p4d-doc libp4d0 libp4d-dev slurm-wlm-p4d-plugin"
find / -xdev \( -path /proc -o -path /sys -o -path /p4d \) -prune -o -print | sort >"$folder/files.before"
ls -A /etc/slurm >"$folder/etc.before"
test_that cluster-without-p4d without_p4d
test_that five-commands installs
test_that refuses-README refuses
test_that other-jobs job_runs
test_that upgrade upgrades
test_that other-packages others_work
test_that remove removes
test_that purge purges
exit "$failed"
