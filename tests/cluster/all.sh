#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# all.sh --plugins=DIR: all that is tested in private Slurm clusters, one line for each test; with P4D_TEST_ALL=1 also what
# takes minutes. Run from the build directory.
set -u
here=$(cd "$(dirname "$0")" && pwd)
plugins=$1

# As root, the cluster with auth/none is run by a user without rights: so both kinds are seen to work, and no other user
# of this machine could submit to it as root meanwhile. Not by nobody: Slurm 26.05 takes that for no user at all.
without_rights()
{
	if [ "$(id -u)" = 0 ] && setpriv --reuid=daemon --regid=daemon --clear-groups \
		test -r "${plugins#*=}/p4d.so" -a -x "$here/cluster.sh"; then
		setpriv --reuid=daemon --regid=daemon --clear-groups env HOME=/nonexistent "$@"
	else
		"$@"
	fi
}

# Of the cluster tests those that depend on who runs slurmctld and slurmd, and whom Slurm takes a request to be from: what plugins
# do in the daemons, files that they read, processes and memory of jobs. What sbatch's plugin says is the same for everybody.
without=(bypass_spank c_api complete_plan_without_spank completed conf_reload edited_options exempt_account job_key live_cluster
	loopback_only mode_observe modify nested_sbatch override refused_with_fix require_plan rewrite_reaches_steps salloc srun
	step_differs step_without_plan tampered_batch tampered_nodes tampered_step train)
tests=("${without[@]/#/$here/test_}")

exec 2>&1
all=${P4D_TEST_ALL:-}
unset P4D_TEST_ALL # jobs would have it
[ -z "$all" ] || export AGREE_JOBS=1000
"$here/run.sh" --auth=munge "$plugins"
without_rights "$here/run.sh" --auth=none "$plugins" "${tests[@]/%/.sh}"
without_rights "$here/flood.sh" "$plugins"
[ -z "$all" ] || "$here/soak.sh" "$plugins" --count="${SOAK_JOBS:-4000}"
