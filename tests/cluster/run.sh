#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh --plugins=DIR [--auth=none|munge] [TEST...]: starts one private Slurm and runs the tests in it, one line for
# each; what failed tests printed follows their line. Run from the build directory.
set -u
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=$PWD
. "$SOURCE/tests/setup.sh"
auth=munge plugins=''
while [ $# -gt 0 ]; do
	case $1 in
	--auth=*) auth=${1#*=} ;;
	--plugins=*) plugins=${1#*=} ;;
	*) break ;;
	esac
	shift
done
here=$SOURCE/tests/cluster
fail() { echo "FAIL  cluster/$auth: $*"; exit 1; }
. "$here/wait.sh"
[ $# -gt 0 ] || set -- "$here"/test_*.sh

CLUSTER=$(mktemp -d "$("$here/cluster.sh" home)/p4d.XXXXXX") || exit 1
trap 'unset LD_PRELOAD; "$here/cluster.sh" stop "$CLUSTER"' EXIT
trap 'exit 130' INT TERM HUP PIPE # PIPE: behind it is head
"$here/cluster.sh" start --auth="$auth" --plugins="$plugins" --conf="$here/p4d.conf" \
	--partition=strict --partition=warn --partition=observe --partition=off --partition=fixing \
	--partition=frozen --partition=lenient "$CLUSTER" || {
	echo "FAIL  cluster/$auth: no cluster"
	exit 1
}
. "$CLUSTER/env"
PATH=$BUILD:$PATH:/usr/sbin
export SOURCE BUILD CLUSTER PATH
cp "$CLUSTER/etc/p4d.conf" "$CLUSTER/p4d.conf.good"

failed=0
for test in "$@"; do
	name=$(basename "$test" .sh)
	name=cluster/$auth/${name#test_}
	since=$(date +%s)
	timeout 900 sh "$test" >"$CLUSTER/output" 2>&1
	case $? in
	0) echo "ok    $name$(p4d_took "$since")" ;;
	77) echo "skip  $name: $(sed -n 's/^skip: //p' "$CLUSTER/output")" ;;
	*)
		echo "FAIL  $name"
		sed 's/^/      | /' "$CLUSTER/output"
		failed=1
		;;
	esac
	if ! scontrol ping | grep -q 'is UP'; then
		echo "FAIL  $name: slurmctld is dead"
		tail -30 "$CLUSTER/log/slurmctld.log" | sed 's/^/      | /'
		exit 1
	fi
	# Every test starts from the same site. slurmctld looks at it each second.
	if ! cmp -s "$CLUSTER/p4d.conf.good" "$CLUSTER/etc/p4d.conf" || [ -n "$(find "$CLUSTER/etc/p4d.conf" -newer "$CLUSTER/p4d.conf.good")" ]; then
		put_site "$CLUSTER/p4d.conf.good"
		touch "$CLUSTER/p4d.conf.good"
	fi
done

# Whatever the tests did to it, slurmctld and the nodes have to be there still.
if [ "$(sinfo -h -N -p mixed -o %t 2>/dev/null | grep -cE 'idle|mix|alloc|comp|plnd')" = 4 ]; then
	echo "ok    cluster/$auth/all_alive"
else
	echo "FAIL  cluster/$auth/all_alive"
	sinfo -R
	tail -50 "$CLUSTER/log/slurmctld.log"
	failed=1
fi
exit $failed
