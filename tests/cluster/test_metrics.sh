#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# metrics = PATH: a file that Prometheus can read and that agrees with the submitted jobs; the dashboard shows its
# series.
. "${0%/*}/lib.sh"

command -v python3 >/dev/null || skip "no python3"
metrics() { python3 "$SOURCE/tests/cluster/metrics.py" "$@"; }
explain() { cat "$file"; grep metrics "$CLUSTER/log/slurmctld.log"; }

mkdir "$work/metrics"
file=$work/metrics/p4d.prom
sed "s|^version = 1|metrics = \"$file\"\\npartition 'q\"uote' { gpu = \"h100\" }\\n&|" "$CLUSTER/p4d.conf.good" >conf
put_site conf
wait_until test -s "$file"
same "$(stat -c %a "$file")" 644
cp "$file" before
# calls HOOK: their number in the file
calls() { sed -n "s/^p4d_hook_seconds_count{hook=\"$1\"} //p" "$file"; }
jobs=$(calls submit) updates=$(calls update)

# what each of them is
printf '%s\n' '#!/bin/sh' "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 --bf16 --micro-batch-size 1 --global-batch-size 64" >train.sh
(
	without_spank
	for partition in warn observe h100; do
		sbatch -H -p "$partition" $node train.sh || exit
	done
	sbatch -H -N1 job.sh && sbatch -H -N1 job.sh && sbatch -H -N1 job.sh
) >out 2>&1 || fail "$(cat out)"
id=$(sed -n 's/^Submitted batch job //p' out | tail -1)
run submit --gpus=8 --env=_SLURM_SPANK_OPTION_p4d_p4d_model=llama13b
[ "$status" != 0 ] || fail "accepted"
run submit --gpus=8 --partition=mixed --env=_SLURM_SPANK_OPTION_p4d_p4d_model=llama13b
[ "$status" != 0 ] || fail "accepted"
run scontrol update jobid="$id" partition=a100
accepted
updated=$try # how often that was tried
complete() { [ "$(calls submit)" -ge $((jobs + 8)) ] && [ "$(calls update)" -ge $((updates + updated)) ]; }
wait_until complete
metrics "$file" --since before \
	"8 p4d_hook_seconds_count hook=submit" "8 p4d_verdicts_total event=submit" \
	"$updated p4d_hook_seconds_count hook=update" "$updated p4d_verdicts_total event=update" \
	"3 p4d_verdicts_total verdict=none event=submit" "3 p4d_verdicts_total verdict=would-refuse code=P4D012" \
	"1 p4d_verdicts_total verdict=would-refuse mode=warn partition=warn" \
	"1 p4d_verdicts_total verdict=would-refuse mode=observe partition=observe" \
	"1 p4d_verdicts_total verdict=would-refuse mode=enforce partition=h100" \
	"2 p4d_verdicts_total verdict=refuse code=P4D040 mode=enforce" \
	"1 p4d_verdicts_total verdict=refuse partition=(others)" "0 p4d_rehearsals_total" || fail "$(cat "$file")"
metrics "$file" --dashboard "$SOURCE/etc/grafana.json" || fail "the dashboard"
grep -qx 'p4d_conf_valid 1' "$file" || fail "$(cat "$file")"
grep -qx 'p4d_info{release=".*",mode="enforce"} 1' "$file" || fail "$(cat "$file")"

# a bad edit shows, and does not move the file
printf 'mode = enforce\nmetrics = p4d.prom\nversion = 1\n' >"$CLUSTER/etc/p4d.conf"
run p4d conf "$CLUSTER/etc/p4d.conf"
contains "$err$out" 'metrics = p4d.prom: not an absolute path'
contains "$err$out" 'fix: metrics = "/'
run sbatch -H -N1 job.sh
invalid() { grep -qx 'p4d_conf_valid 0' "$file"; }
wait_until invalid
# the file goes when another is named, and a directory that is not there is a message
gone() { [ ! -e "$file" ]; }
sed "s|^version = 1|metrics = \"$work/nowhere/p4d.prom\"\\n&|" "$CLUSTER/p4d.conf.good" >conf
put_site conf
logged() { grep -q "p4d: \[P4D003\] metrics: $work/nowhere/p4d.prom: .*; fix: a directory" "$CLUSTER/log/slurmctld.log"; }
wait_until logged
gone || fail "the old file is still there"
