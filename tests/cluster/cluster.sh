#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A private, throw-away Slurm: slurmctld and four slurmds (munged too, if wanted) that live in one directory, listen on
# the loopback only and run as whoever starts them. Several may run side by side.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

usage()
{
	cat <<'END'
usage: cluster.sh start [OPTION...] DIR    DIR is new or empty and belongs to the cluster from then on
       cluster.sh stop DIR                 cancels its jobs, ends its processes, removes DIR
       cluster.sh system-plugins           prints Slurm's plugin directory
       cluster.sh home                     prints where to make DIR: tmpfs if it can be used
       cluster.sh pids DIR                 prints the process ids that belong to the cluster
       cluster.sh crash DIR NODE           ends a node as a power failure does: its slurmd, its steps and their processes
       cluster.sh boot DIR NODE            starts the slurmd of a node that crashed
       cluster.sh crash DIR controller     ends slurmctld in the same way
       cluster.sh boot DIR controller      starts it again, with the state that it had saved

  --auth=none|munge    default munge; with none every local user can submit as any user
  --plugins=DIR        directory with p4d.so and job_submit_p4d.so; without it, a Slurm that knows nothing of p4d
  --no-guard           slurmctld does not load job_submit_p4d.so
  --plugin-dir=DIR     the only plugin directory; without it, Slurm's own and that of --plugins
  --conf=FILE          p4d.conf to use in place of the built-in one
  --partition=NAME     one more partition, over the h100 nodes (may be repeated)
  --no-nodes           slurmctld only: enough for jobs that are never started
  --keep-jobs          slurmctld keeps jobs for a day after they have ended
  --threads            nodes of 2 x 16 cores with two threads each, in place of 64 CPUs
  --memory             memory is allocated to jobs, by default 800000 MiB of a node; partitions per-cpu, per-gpu and small with others
  --mig                with --no-nodes: m1 with GPUs and instances of MIG named as NVML does, m2 with short names; partition mig

Nodes: h1 h2 with 8 h100 each, a1 a2 with 8 a100 each. Partitions: h100 (default), a100, mixed.
To use it: . DIR/env
END
}

fail()
{
	echo "cluster.sh: $*" >&2
	exit 1
}

# A directory on tmpfs keeps slurmctld's state writes out of the measurements. Containers mount /dev/shm noexec, and
# then job scripts cannot run there.
home()
{
	for dir in /dev/shm "${TMPDIR:-/tmp}"; do
		probe=$(mktemp "$dir/p4d-probe.XXXXXX" 2>/dev/null) || continue
		printf '#!/bin/sh\n' >"$probe"
		chmod +x "$probe"
		free=$(df -Pk "$dir" | awk 'NR == 2 { print $4 }')
		if "$probe" 2>/dev/null && [ "$free" -gt 200000 ]; then
			rm -f "$probe"
			echo "$dir"
			return
		fi
		rm -f "$probe"
	done
	fail "no usable temporary directory"
}

# Every daemon is started with PRIVATE_SLURM=DIR in its environment and passes it on to its children, except to jobs.
# That mark shows which processes are ours; a name or a number may have been used again.
pids() # DIR
{
	with_environment "PRIVATE_SLURM=$1"
}

# Processes of jobs know their node and, by its slurm.conf, the cluster.
tasks() # DIR NODE
{
	with_environment "SLURM_CONF=$1/etc/slurm.conf" "SLURMD_NODENAME=$2"
}

# with_environment VARIABLE=VALUE...: our processes that have all of these
with_environment()
{
	found=$(echo /proc/[0-9]*/environ)
	for variable in "$@"; do
		# shellcheck disable=SC2086 # a list of words
		found=$(grep -lszxF -e "$variable" $found /dev/null || true)
	done
	for file in $found; do
		proc=${file%/environ}
		[ ! -O "$proc" ] || echo "${proc#/proc/}"
	done
}

# Five consecutive ports on which nobody listens, below the range from which the kernel takes its own.
free_ports()
{
	used=" $(awk '$4 == "0A" { sub(/.*:/, "", $2); printf "%s ", $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)"
	for try in 1 2 3 4 5 6 7 8 9 10; do
		first=$((17000 + 10 * ($(od -An -N2 -tu2 /dev/urandom) % 1400)))
		busy=
		for port in 0 1 2 3 4; do
			case $used in
			*" $(printf %04X $((first + port))) "*) busy=yes ;;
			esac
		done
		if [ -z "$busy" ]; then
			echo "$first"
			return
		fi
	done
	fail "no free ports after $try tries"
}

system_plugins()
{
	for dir in /usr/lib/*/slurm-wlm /usr/lib64/slurm /usr/lib/slurm /usr/local/lib/slurm; do
		if [ -f "$dir/select_cons_tres.so" ]; then
			echo "$dir"
			return
		fi
	done
	fail "Slurm's plugin directory was not found"
}

write_slurm_conf()
{
	cat <<END
ClusterName=p4d
SlurmctldHost=localhost($address)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/$auth
CredType=cred/$auth
END
	[ "$auth" = none ] || echo "AuthInfo=socket=$dir/run/munge.socket"
	cat <<END
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
PluginDir=${plugin_dir:-$(system_plugins)${plugins:+:$plugins}}
PlugStackConfig=$dir/etc/plugstack.conf
${guard:+JobSubmitPlugins=p4d}
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
TmpFS=$dir/tmp-%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
# No cgroups, no MPI, no accounting: nothing outside this directory is touched.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
# The nodes are larger than the machine that plays them.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
${memory:+#}SelectTypeParameters=CR_CPU
${keep_jobs:+MinJobAge=100000}
# Start jobs at once instead of in batches every few seconds.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
KillWait=1
ReturnToService=2
MaxJobCount=100000
GresTypes=gpu
NodeName=DEFAULT $cpus RealMemory=2000000
NodeName=h1 NodeHostname=localhost NodeAddr=$address Port=$((port + 1)) Gres=gpu:h100:8 Feature=h100
NodeName=h2 NodeHostname=localhost NodeAddr=$address Port=$((port + 2)) Gres=gpu:h100:8 Feature=h100
NodeName=a1 NodeHostname=localhost NodeAddr=$address Port=$((port + 3)) Gres=gpu:a100:8 Feature=a100
NodeName=a2 NodeHostname=localhost NodeAddr=$address Port=$((port + 4)) Gres=gpu:a100:8 Feature=a100
PartitionName=h100 Nodes=h1,h2 Default=YES
PartitionName=a100 Nodes=a1,a2
PartitionName=mixed Nodes=h1,h2,a1,a2
PartitionName=whole Nodes=h1,h2 OverSubscribe=EXCLUSIVE
END
	for name in $partitions; do
		echo "PartitionName=$name Nodes=h1,h2"
	done
	[ -z "$memory" ] || cat <<END
SelectTypeParameters=CR_CPU_Memory
DefMemPerNode=800000
PartitionName=small Nodes=h1,h2 DefMemPerNode=20000
PartitionName=per-cpu Nodes=h1,h2 DefMemPerCPU=2000
PartitionName=per-gpu Nodes=h1,h2 DefMemPerNode=20000 DefMemPerGPU=60000
PartitionName=cpus-per-gpu Nodes=h1,h2 DefMemPerCPU=20000 DefCpuPerGPU=6
END
	[ -z "$mig" ] || cat <<END
NodeName=m1 NodeHostname=localhost NodeAddr=$address Port=$((port + 5)) Gres=gpu:nvidia_h100_80gb_hbm3:4,gpu:nvidia_h100_80gb_hbm3_3g.40gb:4
NodeName=m2 NodeHostname=localhost NodeAddr=$address Port=$((port + 6)) Gres=gpu:1g.10gb:7,gpu:3g.40gb:2
PartitionName=mig Nodes=m1,m2
END
}

# What a site would write; `mixed` is left out, so that its GPUs have to be learned from the cluster.
write_p4d_conf()
{
	cat <<'END'
mode = enforce
gpu h100 { name = "h100-80gb" }
gpu a100 { name = "a100-40gb" }
partition h100 {
	gpu = { "h100" }
	gpus_per_node = 8
	default = true
}
partition a100 {
	gpu = { "a100" }
	gpus_per_node = 8
}
version = 1
END
}

# Regular files as GPUs would only be counted; a link to a character device also gives jobs CUDA_VISIBLE_DEVICES.
write_gpus()
{
	mkdir "$dir/dev"
	for gpu in 0 1 2 3 4 5 6 7; do
		ln -s /dev/null "$dir/dev/gpu$gpu"
	done
	cat >"$dir/etc/gres.conf" <<END
NodeName=h[1-2] Name=gpu Type=h100 File=$dir/dev/gpu[0-7]
NodeName=a[1-2] Name=gpu Type=a100 File=$dir/dev/gpu[0-7]
END
}

# Sets $address and writes $dir/env, which makes a shell use the cluster.
write_environment()
{
	echo "export SLURM_CONF=$dir/etc/slurm.conf" >"$dir/env"
	address=$(getent ahostsv4 "$(uname -n)" | awk '{ print $1; exit }')
	# 127.0.1.1, Debian's address, is not one at which slurmdbd finds slurmctld: it looks at where a connection
	# comes from
	[ "$address" != 127.0.0.1 ] || return 0
	address=127.0.0.1
	cc -shared -fPIC -o "$dir/localhost.so" "$here/localhost.c"
	echo "export LD_PRELOAD=$dir/localhost.so" >>"$dir/env"
}

write_cluster()
{
	write_environment
	mkdir "$dir/etc" "$dir/state" "$dir/log" "$dir/run"
	for node in h1 h2 a1 a2; do
		mkdir "$dir/spool-$node" "$dir/tmp-$node"
	done
	chmod 755 "$dir" "$dir"/*
	write_gpus
	write_slurm_conf >"$dir/etc/slurm.conf"
	# No cgroup is used, but slurmd looks for a mounted hierarchy nevertheless, unless the file names the kind.
	echo "CgroupPlugin=cgroup/v1" >"$dir/etc/cgroup.conf"
	: >"$dir/etc/plugstack.conf"
	if [ -n "$plugins" ]; then
		echo "required $plugins/p4d.so" >"$dir/etc/plugstack.conf"
		{ if [ -n "$conf" ]; then cat "$conf"; else write_p4d_conf; fi; } >"$dir/etc/p4d.conf"
	fi
	chmod 644 "$dir"/etc/*
	if [ "$auth" = munge ]; then
		(umask 077 && head -c 1024 /dev/urandom >"$dir/etc/munge.key")
	fi
}

# Daemons stay in the foreground of a session of their own: Ctrl-C in the terminal does not reach them before the
# jobs are cancelled, and the process started is the daemon itself.
launch()
{
	log=$dir/log/$1.err
	shift
	(
		cd "$dir/log" || exit # where a core file would be looked for
		export PRIVATE_SLURM="$dir"
		exec setsid "$@" </dev/null >"$log" 2>&1
	) &
}

# Waits until `command` holds, at most $1 tenths of a second.
wait_for()
{
	tries=$(($1 * 5))
	shift
	while ! "$@"; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		sleep 0.02
	done
}

munge_ready() { [ -S "$dir/run/munge.socket" ]; }
controller_ready() { grep -q 'Running as primary controller' "$dir/log/slurmctld.log" 2>/dev/null || ! alive; }
nodes_ready() { [ "$(sinfo -h -N -p mixed -t idle -o %N 2>/dev/null | wc -l)" = 4 ] || ! alive; }
alive() { kill -0 "$controller" 2>/dev/null; }

start_daemons()
{
	. "$dir/env"
	if [ "$auth" = munge ]; then
		launch munged munged --foreground --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.socket" \
			--pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/run/munge.seed" \
			--num-threads=2
		wait_for 600 munge_ready || return 1
	fi
	launch slurmctld slurmctld -D -c
	controller=$!
	if [ "$nodes" = yes ]; then
		for node in h1 h2 a1 a2; do
			launch "slurmd-$node" slurmd -D -N "$node"
		done
		wait_for 600 nodes_ready || return 1
	else
		wait_for 600 controller_ready || return 1
	fi
	alive
}

start()
{
	auth=munge plugins='' guard=yes plugin_dir='' conf='' partitions='' nodes=yes mig='' memory='' keep_jobs='' cpus=CPUs=64
	while [ $# -gt 1 ]; do
		case $1 in
		--auth=none | --auth=munge) auth=${1#*=} ;;
		--plugins=*) plugins=$(readlink -f "${1#*=}") ;;
		--no-guard) guard='' ;;
		--plugin-dir=*) plugin_dir=$(readlink -f "${1#*=}") ;;
		--conf=*) conf=${1#*=} ;;
		--partition=*) partitions="$partitions ${1#*=}" ;;
		--no-nodes) nodes=no ;;
		--mig) mig=yes ;;
		--memory) memory=yes ;;
		--keep-jobs) keep_jobs=yes ;;
		--threads) cpus="Sockets=2 CoresPerSocket=16 ThreadsPerCore=2" ;;
		*) fail "unknown option $1" ;;
		esac
		shift
	done
	[ $# = 1 ] || fail "start: directory missing"
	[ -n "$plugins" ] || guard=
	PATH=$PATH:/usr/sbin:/sbin
	for program in slurmctld slurmd sinfo $([ "$auth" = none ] || echo munged); do
		command -v "$program" >/dev/null || fail "$program not found"
	done
	user=$(id -un) || fail "the user that runs this has no name, which Slurm needs"
	mkdir -p "$1"
	dir=$(readlink -f "$1")
	[ -z "$(ls -A "$dir")" ] || fail "$dir is not empty"
	if [ -n "$plugins" ] && { [ ! -f "$plugins/p4d.so" ] || [ ! -f "$plugins/job_submit_p4d.so" ]; }; then
		fail "$plugins has no p4d.so and job_submit_p4d.so"
	fi

	# The ports were free a moment ago; if somebody else was faster, take others.
	for try in 1 2 3; do
		port=$(free_ports)
		write_cluster
		if start_daemons; then
			return
		fi
		cause=$(cat "$dir"/log/*.log "$dir"/log/*.err 2>/dev/null | grep -E 'error|fatal' | sort -u | head -20)
		stop "$dir"
		mkdir "$dir"
		case $cause in
		*"Address already in use"*) ;;
		*) break ;;
		esac
	done
	rmdir "$dir"
	fail "the cluster did not come up (try $try):
$cause"
}

cancel_jobs()
{
	export SLURM_CONF="$1/etc/slurm.conf"
	[ -f "$SLURM_CONF" ] && timeout 5 scancel --user="$(id -un)" 2>/dev/null || return 0
	wait_for 50 jobs_gone || return 0
}
jobs_gone() { [ -z "$(timeout 5 squeue -h -t R,CG -o %A 2>/dev/null)" ]; }

stop()
{
	unset LD_PRELOAD # it may lie in the directory that goes
	stopped=$(readlink -f "$1")
	[ -d "$stopped" ] || return 0
	ours=$(pids "$stopped")
	if [ -n "$ours" ]; then
		cancel_jobs "$stopped"
		for signal in TERM KILL; do
			for pid in $(pids "$stopped"); do
				kill -s "$signal" "$pid" 2>/dev/null || true
			done
			wait_for 80 all_gone && break
		done
		all_gone || fail "still alive: $(pids "$stopped" | tr '\n' ' ')"
	fi
	rm -rf "$stopped"
}
all_gone() { [ -z "$(pids "$stopped")" ]; }

# A slurmstepd is not a child of slurmd; it is the father of tasks.
crash()
{
	if [ "$2" = controller ]; then
		controller=$(cat "$1/run/slurmctld.pid")
		kill -s KILL "$controller"
		! alive || wait_for 50 gone "$controller"
		return
	fi
	slurmd=$(cat "$1/run/slurmd-$2.pid")
	tasks=$(tasks "$1" "$2")
	fathers=
	for pid in $tasks; do
		father=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
		case $(tr '\0' ' ' <"/proc/${father:-0}/cmdline" 2>/dev/null) in
		slurmstepd:*) fathers="$fathers $father" ;;
		esac
	done
	# shellcheck disable=SC2086 # lists of words; a task may have ended by itself
	kill -s KILL $slurmd $fathers $tasks 2>/dev/null || true
	! kill -0 "$slurmd" 2>/dev/null || wait_for 50 gone "$slurmd"
}
gone() { ! kill -0 "$1" 2>/dev/null; }

boot()
{
	dir=$1
	. "$dir/env"
	if [ "$2" = controller ]; then
		launch slurmctld slurmctld -D
		wait_for 600 answers
	else
		launch "slurmd-$2" slurmd -D -N "$2"
	fi
}
answers() { timeout 5 scontrol ping 2>/dev/null | grep -q 'is UP'; }

case ${1:-} in
start)
	shift
	start "$@"
	;;
stop) stop "${2:?directory missing}" ;;
pids) pids "$(readlink -f "${2:?directory missing}")" ;;
home) home ;;
system-plugins) system_plugins ;;
crash) crash "$(readlink -f "${2:?directory missing}")" "${3:?node missing}" ;;
boot) boot "$(readlink -f "${2:?directory missing}")" "${3:?node missing}" ;;
*)
	usage
	[ "${1:-}" = --help ] || exit 2
	;;
esac
