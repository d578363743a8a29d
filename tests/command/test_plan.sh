#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d plan: what it offers is accepted, and when nothing fits it says what would.
. "${0%/*}/lib.sh"

exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8
silent
prints "on 8 nodes of 8 x h100-80gb" "rank" "Flags for sbatch:"
[ "$(printf '%s\n' "$out" | grep -c -- '--p4d-model=')" = 5 ] || fail "not five plans"
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --top 12
[ "$(printf '%s\n' "$out" | grep -c -- '--p4d-model=')" = 12 ] || fail "not twelve plans"

# the guard accepts every one of them as it stands
printf '%s\n' "$out" | sed -n 's/^ *[0-9]*  \(--p4d-model=.*\)/\1/p' >plans
[ "$(wc -l <plans)" = 12 ] || fail "flags are not on lines of their own"
printf '#!/bin/sh\ntrue\n' >any.sh
while read -r flags; do
	exits 0 p4d check --conf p4d.conf -p h100 -N8 --gpus-per-node=8 $flags any.sh
	case $err in *P4D110*) fail "the guard had to choose something with $flags" ;; esac
done <plans

# the best one as an environment
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --env
silent
eval "$out"
case $P4D_PLAN in p4d1:model=llama3-70b@u:*:nodes=8@u:gpus-per-node=8@u:hash=*) ;; *) fail "no plan line: $P4D_PLAN" ;; esac
case $P4D_PLAN in *":tp=$P4D_TP@p:"*) ;; *) fail "P4D_TP is $P4D_TP" ;; esac
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --json
prints "$P4D_PLAN"

# what the user decided is kept
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --tp 4 --recompute full
[ "$(printf '%s\n' "$out" | grep -c -- '--p4d-tp=4 .*--p4d-recompute=full')" = 5 ] || fail "tp or recompute was changed"

# nothing fits: the fix names a larger job that does
exits 13 p4d plan --model llama3-70b --gpu h100
says "[P4D013]" "none below the limit" "p4d: fix: p4d estimate "
fix=$(fix)
exits 0 $fix
# nothing fits with these flags: the fix is on the same GPUs
exits 13 p4d plan --model llama13b --gpu h100 --nodes 1 --tp 1 --pp 1 --cp 1
says "--nodes=1 --gpus-per-node=8"
fix=$(fix)
exits 0 $fix
exits 13 p4d plan --model llama3.1-405b --gpu h100 --nodes 1
exits 13 p4d plan --model llama13b --gpu h100 --tp 7
says "nothing divides"

exits 1 p4d plan --model llama13b
says "no GPU is given" "--gpu NAME"
exits 0 p4d plan --conf p4d.conf --model llama13b
prints "h100-80gb"
