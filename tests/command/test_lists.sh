#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# models, gpus, explain, dump-features.
. "${0%/*}/lib.sh"

exits 0 p4d models
silent
for file in "$P4D_DATADIR"/models/*.json; do
	name=${file##*/}
	prints "${name%.json} "
done
printf '%s\n' "$out" | grep -q '^llama13b  *13.016 B  *13.016 B  *40  *5120 ' || fail "llama13b is not as published"
exits 0 p4d gpus
printf '%s\n' "$out" | grep -q '^h100-80gb  *79.10  *79.65  *989 ' || fail "h100-80gb is not as in gpus.json"

for code in 12 012 P4D012 p4d12; do
	exits 0 p4d explain $code
	prints "P4D012: does not fit in GPU memory" "run out of GPU memory"
done
exits 0 p4d explain
[ "$(printf '%s\n' "$out" | grep -c '^P4D[0-9][0-9][0-9]  ')" = "$(grep -c '^CODE(' "$P4D_TEST_SRCDIR/estimator/base/codes.def")" ] ||
	fail "not every code is listed"
for code in 0 999 P4D 12x -12 P4D099 ''; do
	exits 1 p4d explain "$code"
done

# predicted and measured; ACCURACY.md's table is made of this
exits 0 p4d validate "$P4D_TEST_SRCDIR/tests/data/measured_memory.csv"
silent
prints "simumax-02" "60.67" "allocated, method closed: mean absolute error 0." "reserved: mean absolute error"
exits 0 p4d validate --json "$P4D_TEST_SRCDIR/tests/data/measured_memory.csv"
prints '"mean_absolute_error"'
prints '"false_passes"'
exits 0 p4d validate "$P4D_TEST_SRCDIR/tests/data/measured_throughput.csv"
silent
prints "ptdp-1008.0B" "405b_l4_tp2_pp1_dp4_mbc4" "step time: mean absolute error " "wrong order: 0 of 2 pairs"
exits 0 p4d validate --json "$P4D_TEST_SRCDIR/tests/data/measured_throughput.csv"
prints '"predicted_seconds"' '"orders":' '"wrong":'
# runs that died: one that p4d can judge, one that it cannot
{
	awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print }
		/^simumax-09,/ { $1 = "died"; $at["gpu"] = "A100-80GB"; $at["oom"] = 1; $at["validate"] = 0; print }' \
		"$P4D_TEST_SRCDIR/tests/data/measured_memory.csv"
	grep '^titan-oom1,' "$P4D_TEST_SRCDIR/tests/data/measured_memory.csv"
} >died.csv
exits 0 p4d validate died.csv
prints "refuse" "not modelled: fsdp is not modelled" "false passes: 0 of 1 that are modelled"
exits 1 p4d validate
exits 3 p4d validate nowhere.csv
printf 'a,b\n1,2\n' >bad.csv
exits 5 p4d validate bad.csv
says "bad.csv:2: no column row_id"

exits 0 p4d dump-features
for key in version slurm frameworks methods schedules plan conf data; do
	printf '%s\n' "$out" | grep -q "^$key: ." || fail "no $key"
done
prints "frameworks: p4d megatron" "methods: closed paper" "data: $P4D_DATADIR"

# without a directory, the presets of the build
unset P4D_DATADIR
exits 0 p4d models
[ "$(printf '%s\n' "$out" | grep -c '^[a-z]')" -ge "$(ls "$P4D_TEST_DATADIR"/models/*.json | wc -l)" ] || fail "presets are missing"
exits 0 p4d dump-features
prints "data: built in"

P4D_DATADIR=$work/nowhere
export P4D_DATADIR
exits 0 p4d gpus
exits 16 p4d models
says "nowhere"
exits 0 p4d dump-features
