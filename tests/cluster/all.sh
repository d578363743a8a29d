#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# all.sh --plugins=DIR: all that is tested in private Slurm clusters, one line for each test; with P4D_TEST_ALL=1 also what
# takes minutes. Run from the build directory.
set -u
here=$(cd "$(dirname "$0")" && pwd)
plugins=$1

# As root, an unprivileged user runs the cluster with auth/none. So both kinds of users are tested, and no other user
# of this machine can submit to it as root. That user is not nobody: Slurm 26.05 takes nobody for no user at all.
without_rights()
{
	if [ "$(id -u)" = 0 ] && setpriv --reuid=daemon --regid=daemon --clear-groups \
		test -r "${plugins#*=}/p4d.so" -a -x "$here/cluster.sh"; then
		setpriv --reuid=daemon --regid=daemon --clear-groups env HOME=/nonexistent "$@"
	else
		"$@"
	fi
}

# Cluster tests whose result depends on who runs slurmctld and slurmd, and on whom Slurm takes as the sender of a
# request: plugins in the daemons, files that they read, processes and memory of jobs. The messages of sbatch's plugin
# are the same for everybody.
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
