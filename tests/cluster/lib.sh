# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154
# Sourced by every test_*.sh. run.sh sets SLURM_CONF (of a running cluster), CLUSTER (its directory), SOURCE and BUILD.
set -u
work=$(mktemp -d "$CLUSTER/test.XXXXXX")
chmod 755 "$work"
cd "$work" || exit 1
at_end() { :; } # what else a test has to put right
trap 'finish=$?; at_end; scancel --name="${0##*/}" 2>/dev/null; cd /; rm -rf "$work"; exit "$finish"' EXIT
export XDG_CACHE_HOME="$work/cache" # what whoever runs this has rehearsed is not the tests'
export SBATCH_JOB_NAME="${0##*/}" SLURM_JOB_NAME="${0##*/}" SALLOC_JOB_NAME="${0##*/}"

# One node of eight H100, and a 13B job on it that leaves no choice to p4d.
node="-N1 --gpus-per-node=8"
layout="--p4d-tp=8 --p4d-cp=1 --p4d-pp=1 --p4d-vpp=1 --p4d-schedule=1f1b --p4d-micro-batch=1 --p4d-recompute=none"
full="--p4d-model=llama13b $layout --p4d-seq-len=2048 --p4d-global-batch=1024 --p4d-framework=p4d"
# This one does not fit on a node.
toobig="--p4d-model=llama2-70b --p4d-tp=8"

fail() { echo "FAIL: $*"; exit 1; }
skip() { echo "skip: $*"; exit 77; }
. "$SOURCE/tests/cluster/wait.sh"

# run COMMAND...: its status, output and messages are in $status, $out and $err; if it submitted a job, that is in $id
run()
{
	for try in $(seq 100); do
		out=$("$@" 2>"$work/.err" </dev/null)
		status=$?
		err=$(cat "$work/.err")
		# Where there is no accounting, Slurm 26.05 takes what errno happens to be for the result of a change of partition.
		case $1$out$err in
		scontrol*"Resource temporarily unavailable"*) sleep 0.1 ;;
		*) break ;;
		esac
	done
	printf '+ %s\n%s\n%s\n(%s)\n' "$*" "$out" "$err" "$status"
	case $out in
	"Submitted batch job "*) id=${out##* } ;;
	*[!0-9]* | '') ;;
	*) id=$out ;;
	esac
}

accepted() { [ "$status" = 0 ] || fail "refused"; }
silent() { [ -z "$err" ] || fail "it said something"; }
says() { case $err in *"$1"*) ;; *) fail "it did not say: $1" ;; esac; }
does_not_say() { case $err in *"$1"*) fail "it said: $1" ;; *) ;; esac; }

# refused CODE [BY]: with this code, and by sbatch's plugin (spank) or by slurmctld
refused()
{
	[ "$status" != 0 ] || fail "not refused"
	says "p4d: [$1]"
	case ${2:-} in
	slurmctld) says "job submission failed" ;;
	spank) does_not_say "job submission failed" ;;
	esac
}

# The flags of the (first) printed fix
fix() { printf '%s\n' "$err" | sed -n 's/.*p4d: fix: //p' | head -1; }

same() { [ "$1" = "$2" ] || fail "${3:-got} '$1', expected '$2'"; }
contains() { case $1 in *"$2"*) ;; *) fail "no '$2' in: $1" ;; esac; }
lacks() { case $1 in *"$2"*) fail "'$2' is in: $1" ;; *) ;; esac; }

# job ID FIELD: one field of scontrol's description
job() { scontrol -o show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p" | head -1; }

# finished ID: waits until the job has ended; its state is in $state
finished()
{
	for try in $(seq 6000); do
		state=$(job "$1" JobState)
		case $state in
		PENDING | RUNNING | COMPLETING | CONFIGURING) sleep 0.05 ;;
		*) return ;;
		esac
	done
	fail "job $1 is still $state: $(job "$1" Reason) (try $try)"
}

# A script whose output is the P4D_ environment of the job
cat >job.sh <<'END'
#!/bin/sh
env | grep '^P4D_' | sort
END

# From here on sbatch runs with a slurm.conf of the user's own that knows no SPANK plugin.
without_spank()
{
	: >"$work/plugstack.conf"
	sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/plugstack.conf|" "$SLURM_CONF" >"$work/slurm.conf"
	export SLURM_CONF="$work/slurm.conf"
}

# variable NAME: its value in an `env` listing in $out
variable() { printf '%s\n' "$out" | sed -n "s/^$1=//p"; }
nodes_are_up() { ! sinfo -h -o %t | grep -qE 'drain|down|fail' || fail "a node was drained: $(sinfo -R)"; }

# Slurm 24.11 restarts its processes for it, and on a busy machine answers too late: callers wait for the effect.
reconfigure() { scontrol reconfigure || echo "reconfigure: no answer in time"; }
