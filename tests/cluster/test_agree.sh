#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `p4d check` answers what sbatch answers, of generated jobs at sites with various policies: the same verdict, codes and plan, and
# the fixes work. AGREE_JOBS=1000 takes more jobs, AGREE_SEED=N others. To see one again: agree --seed=N --first=I --count=1.
. "${0%/*}/lib.sh"

[ -x "$BUILD/agree" ] || make -C "$BUILD" agree >make.log 2>&1 || fail "$(cat make.log)"
own=$work/cluster shared=$SLURM_CONF preload=${LD_PRELOAD:-} failed=0
jobs=${AGREE_JOBS:-150}
at_end()
{
	"$SOURCE/tests/cluster/cluster.sh" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
}
"$SOURCE/tests/cluster/cluster.sh" start --plugins="$BUILD/.libs" --conf="$SOURCE/tests/cluster/p4d.conf" --no-nodes --mig \
	--partition=strict --partition=warn --partition=observe --partition=off --partition=fixing --partition=frozen \
	--partition=lenient "$own" || fail "no cluster"
. "$own/env"
unset SBATCH_JOB_NAME # p4d check does not read it
conf=$own/etc/p4d.conf
cp "$conf" site.conf
printf 'h1\nh2\n' >hosts

# site NAME [SED-SCRIPT]: a seventh of the jobs at the site of the other tests, changed by the script
first=0
site()
{
	echo "site $1"
	sed "${2:-}" site.conf >"$conf.new"
	put_site "$conf.new" "$own"
	agree --seed="${AGREE_SEED:-1}" --first="$first" --count=$((jobs / 7)) || failed=1
	first=$((first + jobs / 7))
}
site enforce
site warn 's/^mode = enforce/mode = warn/'
site defaults '$i defaults { framework = megatron seq_len = 4096 }'
site rewriting 's/^mode = enforce/&\nrewrite = all\nunmodelled = reject\non_error = reject/'
site careful 's/^mode = enforce/&\nsafe = 0.5\nlimit = 0.6\nunmodelled = pass/'
site judging 's/^mode = enforce/&\nscripts = judge/'
site ignoring 's/^mode = enforce/&\nscripts = ignore/'
exit $failed
