#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example job_submit.lua, which asks libp4d inside slurmctld through lua_p4d.c: it sends a job to the smallest GPUs on which the job fits,
# says why none do, survives what users write into a comment, and reads no file for them.
. "${0%/*}/lib.sh"

directory=$(sed -n 's/^PluginDir=\([^:]*\).*/\1/p' "$SLURM_CONF")
[ -e "$directory/job_submit_lua.so" ] || skip "no job_submit_lua.so"
lua=$(ldd "$directory/job_submit_lua.so" | sed -n 's/^[^a-z]*liblua\(5\.[0-9]\).*/\1/p')
[ -n "$lua" ] || skip "job_submit_lua.so names no Lua"
flags=$(pkg-config --cflags "lua$lua" 2>&1) || skip "no headers of Lua $lua: apt-get install liblua5.1-0-dev"
own=$work/cluster shared=$SLURM_CONF preload=${LD_PRELOAD:-} cluster=$SOURCE/tests/cluster/cluster.sh
at_end()
{
	"$cluster" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
}
# shellcheck disable=SC2086 # a list of words
cc -std=c11 -Wall -Wextra -Werror -shared -fPIC -Wl,-z,nodelete -o lua_p4d.so "$SOURCE/doc/examples/lua_p4d.c" $flags \
	-I"$SOURCE/command/library" -L"$BUILD/library/.libs" -Wl,-rpath,"$BUILD/library/.libs" -lp4d || fail "lua_p4d.c does not compile"
export LUA_CPATH="$work/?.so"
"$cluster" start --auth=none --plugins="$BUILD/.libs" --no-nodes "$own" || fail "no cluster"
. "$own/env"
cp "$SOURCE/doc/examples/job_submit.lua" "$own/etc"

# restarted PLUGINS
restarted()
{
	"$cluster" crash "$own" controller
	sed -i "s/^JobSubmitPlugins=.*/JobSubmitPlugins=$1/" "$own/etc/slurm.conf"
	"$cluster" boot "$own" controller || {
		grep -qi 'liblua' "$own"/log/slurmctld.* && skip "job_submit_lua.so finds no liblua of its version"
		fail "slurmctld did not start with $1: $(cat "$own"/log/slurmctld.*)"
	}
}
# sent SIZE COMMENT: submits a job of this size to no partition in particular
sent()
{
	# shellcheck disable=SC2086 # options
	run sbatch -H -p any $1 --comment="$2" job.sh
}
# goes_to PARTITION
goes_to()
{
	accepted
	silent
	same "$(job "$id" Partition)" "$1"
}
stays_out()
{
	[ "$status" != 0 ] || fail "not refused"
	says "p4d: $1"
}
printf '#!/bin/sh\n' >job.sh
fits="p4d llama3.2-1b --framework=fsdp --micro-batch=1 --seq-len=2048 --recompute=full"
larger="p4d llama3-8b --framework=fsdp --micro-batch=1 --seq-len=4096 --recompute=full"

restarted lua
grep -h 'lua_p4d' "$own"/log/slurmctld.* && fail "the module was not found"
sent "-N1 --gpus-per-node=8" "$fits"
goes_to a100
sent "--gpus-per-node=4" "$fits"
goes_to a100
sent "-N1 --gres=gpu:8" "$fits"
goes_to a100
sent "-N1 --gpus-per-node=4" "$larger"
goes_to h100
sent "-N1 --gpus-per-node=1" "$larger"
stays_out "llama3-8b needs"
# the GPUs are those of the job, whatever the comment says
sent "-N1 --gpus-per-node=1" "$larger --gpus-per-node=8 --nodes=9 --gpu=b200"
stays_out "--gpu has two values, b200 and h100-80gb"
# other jobs are left alone
run sbatch -H -p h100 --comment="$fits" -N1 --gpus-per-node=8 job.sh
goes_to h100

# Comments are of users, who cannot make slurmctld read, wait or die.
mkdir model
echo '{}' >model/config.json
sent "-N1 --gpus-per-node=8" "p4d $work/model/config.json"
stays_out "$work/model/config.json: a quick query reads no model files"
sent "-N1 --gpus-per-node=8" "p4d llama3-8b --conf=$own/etc/p4d.conf"
stays_out "unknown option --conf"
sent "-N1 --gpus-per-node=8" "p4d llama3-8b --micro-batch=auto"
stays_out "--micro-batch=auto: not a whole number"
for words in "--help" "--" "-- llama3-8b" "-x" "llama3-8b llama3-8b" "--tp" "--tp=99999999999999999999" "%s%n%s%n" "--svg=$work/page.svg" \
	"\$(touch pwned)" "$(head -c 900 /dev/zero | tr '\0' a)" "llama3-8b $(seq -s ' ' 300)"; do
	sent "-N1 --gpus-per-node=8" "p4d $words"
	stays_out ""
done
[ ! -e page.svg ] || fail "it wrote a file"
run sbatch -H -p h100 -N1 job.sh
accepted

# Slurm loads the script again after a change, in another Lua. p4d judges what the script chose.
restarted lua,p4d
for partition in a100 h100 a100; do
	sleep 1
	if [ "$partition" = a100 ]; then
		cp "$SOURCE/doc/examples/job_submit.lua" "$own/etc"
	else
		sed '/gpu = "a100-40gb"/d' "$SOURCE/doc/examples/job_submit.lua" >"$own/etc/job_submit.lua"
	fi
	sent "-N1 --gpus-per-node=8" "$fits"
	goes_to $partition
done
# ... also a plan that p4d.so judged for another
sleep 1
sed 's/^local any = "any"/local any = "mixed"/' "$SOURCE/doc/examples/job_submit.lua" >"$own/etc/job_submit.lua"
# shellcheck disable=SC2086 # options
run sbatch -H -p mixed $node $full --comment="$fits" job.sh
accepted
same "$(job "$id" Partition)" a100
contains "$(job "$id" AdminComment)" gpu=a100-40gb
# shellcheck disable=SC2086 # options
run sbatch -H -p mixed $node $toobig --p4d-pp=1 --comment="$fits" job.sh
[ "$status" != 0 ] || fail "p4d did not judge the partition"
says "p4d: [P4D0"

# Without the module all jobs stay where they are.
rm lua_p4d.so
restarted lua
grep -qh 'p4d: .*lua_p4d' "$own"/log/slurmctld.* || fail "slurmctld does not say that there is no module"
run sbatch -H -p h100 --comment="$fits" -N1 --gpus-per-node=8 job.sh
goes_to h100
