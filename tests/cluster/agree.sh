#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `p4d check` answers what sbatch answers, of generated jobs at sites with various policies: the same verdict, codes and plan.
# AGREE_JOBS=1000 takes more jobs, AGREE_SEED=N others. To see one again: agree --seed=N --first=I --count=1.
. "${0%/*}/lib.sh"

conf=$CLUSTER/etc/p4d.conf
jobs=${AGREE_JOBS:-200}
failed=0

# site NAME [SED-SCRIPT]: a fifth of the jobs at the site of the other tests, changed by the script
first=0
site()
{
	echo "site $1"
	sed "${2:-}" "$CLUSTER/p4d.conf.good" >"$conf.new"
	mv "$conf.new" "$conf"
	sleep 1.5
	agree --seed="${AGREE_SEED:-1}" --first="$first" --count=$((jobs / 5)) || failed=1
	first=$((first + jobs / 5))
}
site enforce
site warn 's/^mode = enforce/mode = warn/'
site defaults '$i defaults { framework = megatron seq_len = 4096 }'
site rewriting 's/^mode = enforce/&\nrewrite = all\nunmodelled = reject\non_error = reject/'
site careful 's/^mode = enforce/&\nsafe = 0.5\nlimit = 0.6\nunmodelled = pass/'
exit $failed
