#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d calibrate: margins from generated rows hold for other rows of the same kind, never go below p4d's own constants, and refuse
# no job that ran. Rows that are shared name nobody.
. "${0%/*}/lib.sh"

header=row_id,class,gpu,validate,options,what,measured_gib,oom,seen,date,slurm,driver,user
# row ID OPTIONS [MEASURED [OOM]]: of h100-80gb
row() { echo "$1,c,h100-80gb,1,$2,device,${3-1},${4-0},,2026-11-0$((1 + ${#1} % 9)),24.05.4,550.54.15,anna"; }
fsdp='--framework=fsdp --model-code=transformers --gpus-per-node=8'

# measured by a machine that holds 3 % and 0.8 GiB more than p4d predicts, and 0.6 GiB of noise: two halves of 4,000 rows
{
	echo $header
	for seq in 2048 3072 4096; do
		for micro in 1 2 3; do
			for model in llama3.2-1b llama3.2-3b qwen3-4b; do
				row "$seq-$micro-$model" "$fsdp --model=$model --seq-len=$seq --micro-batch=$micro --global-batch=$((8 * micro))"
			done
		done
	done
} >base.csv
p4d validate --json base.csv >base.json || fail "base.csv"
awk -v header=$header '
	function uniform() { seed = (seed * 16807) % 2147483647; return seed / 2147483647 }
	FILENAME == "base.json" {
		if (/"row":/) { split($0, word, "\""); id = word[4] }
		if (/"predicted_gib"/) { split($0, word, ":"); predicted[id] = word[2] + 0 }
		next
	}
	FNR > 1 { split($0, f, ","); if (predicted[f[1]] > 8 && predicted[f[1]] < 60) row[rows++] = $0 }
	END {
		seed = 12345
		print header >"a.csv"
		print header >"b.csv"
		for (i = 0; i < 4000; i++) {
			split(row[i % rows], f, ",")
			for (noise = -6 + (k = 0); k < 12; k++)
				noise += uniform()
			printf "%s-%d,%s,%s,%s,%s,%s,%.3f,0,,2026-1%d-%02d,24.05.4,550.54.15,user%d\n", f[1], i, f[2], f[3], f[4], f[5], f[6],
				1.03 * predicted[f[1]] + 0.8 + 0.6 * noise, i % 2, 1 + i % 28, i % 9 >(uniform() < 0.5 ? "a.csv" : "b.csv")
		}
	}' base.json base.csv
exits 0 p4d calibrate a.csv -o margins.conf --share shared.csv
silent
prints "fsdp/transformers/bf16/h100-80gb" "raised" "margins.conf: written; in p4d.conf: include = { \"$work/margins.conf\" }"
grep -Eq '^	reserve_gib = [0-9.]+	# n=[0-9]+, 95 % bound \+[0-9.]+ GiB, 2026-10-01 to 2026-11-28, Slurm 24.05.4, driver 550.54.15$' margins.conf ||
	fail "$(cat margins.conf)"
{ echo "include = { \"$work/margins.conf\" }"; cat p4d.conf; } >with.conf
exits 0 p4d conf with.conf
prints "Jobs of fsdp/transformers/bf16/h100-80gb: reserve"
exits 0 p4d calibrate --json --conf with.conf b.csv
printf '%s\n' "$out" | awk -F '[:,]' '
	/"bound_own_gib"/ { own = $2 } /"bound_in_force_gib"/ { bound = $2 } /"covered_in_force"/ { covered = $2 } /"covered_own"/ { before = $2 }
	END { exit !(own > 2 && bound > -0.79 && bound < 0.79 && before < 0.2 && covered > 0.94 && covered < 0.96) }' ||
	fail "the margins of one half do not hold for the other"

# shared rows have no name of a model or a person and no day, but the same predictions
! grep -Ei 'user|anna|llama3[.]|qwen3-|2026-1[01]-' shared.csv || fail "names are shared"
[ "$(wc -l <shared.csv)" = "$(wc -l <a.csv)" ] || fail "rows are missing"
p4d calibrate --json a.csv >first.json && p4d calibrate --json shared.csv >second.json || fail "shared.csv"
paste first.json second.json | awk '/"bound_own_gib"/ { a = $1; b = $2; sub(/.*:/, "", a); sub(/.*:/, "", b); exit !(a - b < 0.01 && b - a < 0.01) }' ||
	fail "shared rows are predicted otherwise"
sed '/,user[5-9]$/s/,user[5-9]$/,user4/; s/,user0$/,user1/' a.csv >few.csv
exits 0 p4d calibrate few.csv --share few-shared.csv
prints "wrote 0 rows without names to few-shared.csv; left out"
[ "$(wc -l <few-shared.csv)" = 1 ] || fail "rows of four users are shared"

# rows N MEASURED: of one kind, of 18.5 GiB
megatron='--framework=megatron --model=llama2-7b --gpus-per-node=8 --tp=8 --seq-len=4096 --micro-batch=1 --global-batch=8 --recompute=none'
rows() { i=0; while [ $i -lt "$1" ]; do i=$((i + 1)); row "m$i" "$megatron" "$2"; done; }
predicted()
{
	{ echo $header; row one "$1"; } >one.csv
	p4d validate --json one.csv | sed -n 's/.*"predicted_gib":\([0-9]*\.[0-9]\{3\}\).*/\1/p'
}
usual=$(predicted "$megatron")
plus() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a + b }'; }
calibrate() { { echo $header; cat body; } >rows.csv; exits 0 p4d calibrate rows.csv -o out.conf; }

rows 19 "$(plus "$usual" 2)" >body
calibrate
grep -q '^# megatron/\*/bf16/h100-80gb: 19 rows below 0.9 of the GPU.s memory; a margin needs 20 rows$' out.conf && ! grep -q '^framework' out.conf || fail "19 rows are too few: $(cat out.conf)"
rows 20 "$(plus "$usual" 2)" >body
calibrate
grep -q '^	reserve_gib = 2.5[01]	' out.conf || fail "2 GiB more than p4d's own: $(cat out.conf)"
# never below p4d's own
rows 20 "$(plus "$usual" -1)" >body
calibrate
prints "p4d's own margins are enough"
! grep -q '^framework' out.conf || fail "a margin below p4d's own: $(cat out.conf)"
# a job that ran near the GPU's limit is not refused, whatever others measured, even though its own measurement is
# censored
for seq in 65536 73728 81920 90112 98304 106496 114688; do
	long=$(echo "$megatron" | sed "s/--seq-len=4096/--seq-len=$seq/")
	need=$(predicted "$long")
	[ "${need%.*}" -lt 64 ] || break
done
[ "${need%.*}" -lt 74 ] || fail "no layout of 64 to 74 GiB: $need"
{ rows 20 "$(plus "$usual" 20)"; row long "$long" 78; } >body
calibrate
prints "held by long"
grep -q '1 measurements of at least 0.9 of the GPU.s memory are only upper bounds; with a larger margin, p4d would refuse job long, which ran' out.conf || fail "$(cat out.conf)"
exits 0 p4d conf out.conf
{ sed -n '/^framework/,/^}/p' out.conf; cat p4d.conf; } >with.conf
# shellcheck disable=SC2086
exits 0 p4d estimate $long --gpu h100 --conf with.conf --quiet
prints "warn"
# a run reported to have died 2 GiB below the safe share no longer passes silently; a run that died far below it does
# not affect margins
for seq in 49152 57344 61440 65536 69632 73728; do
	died=$(echo "$megatron" | sed "s/--seq-len=4096/--seq-len=$seq/")
	need=$(predicted "$died")
	[ "${need%.*}" -lt 56 ] || break
done
{ rows 20 "$usual"; row died "$died" '' 1; row far "$megatron" '' 1; } >body
calibrate
grep -q '2 jobs ran out of memory, 1 of them would pass' out.conf || fail "$need: $(cat out.conf)"
{ sed -n '/^framework/,/^}/p' out.conf; cat p4d.conf; } >with.conf
# shellcheck disable=SC2086
exits 0 p4d estimate $died --gpu h100 --conf with.conf --quiet
prints "warn"

# what cannot be read
exits 1 p4d calibrate
says "p4d report --rows rows.csv"
exits 5 p4d calibrate "$P4D_TEST_SRCDIR/tests/data/measured_memory.csv"
says "has no column named options"
{ echo $header; row bad --model=no-such-model; } >bad.csv
refused P4D007 p4d calibrate bad.csv
# bad FILE CODE TEXT...: says what is wrong with a file, and where
bad()
{
	file=$1
	refused "$2" p4d calibrate "$file"
	shift 2
	says "$@"
}
bad bad.csv P4D007 'bad.csv:2: bad: unknown model'
: >empty.csv
bad empty.csv P4D005 'empty.csv is empty' 'fix: p4d report --rows rows.csv'
echo hello >text.csv
bad text.csv P4D005 'text.csv:1: no names of columns, such as row_id,gpu,options' 'fix: p4d report --rows rows.csv'
# what spreadsheets make of it: other separators, and a mark in front, which changes nothing
{ echo $header; row good "$megatron"; } >good.csv
tr ',' ';' <good.csv >semicolons.csv
bad semicolons.csv P4D005 'semicolons.csv:1: commas separate columns, not semicolons'
{ printf '\357\273\277'; sed 's/$/\r/' good.csv; } >marked.csv
exits 0 p4d calibrate marked.csv
marked=$out
exits 0 p4d calibrate good.csv
[ "$out" = "$marked" ] || fail "a mark in front changes the rows"
# another unit: no GPU has so much
{ echo $header; row far "$megatron" 41000; } >unit.csv
bad unit.csv P4D005 'unit.csv:2: far: measured_gib=41000 is more than the ' 'are these MiB or bytes?'

# Of a kind that was never measured there is no bound.
{ echo $header; row d1 "$megatron" '' 1; } >rows.csv
exits 0 p4d calibrate rows.csv
printf '%s\n' "$out" | grep -qE '^megatron/[^ ]* +0 +0 +1 +- +- +- ' || fail "a bound of nothing"
