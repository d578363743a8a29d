#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README's tables of predicted step times say what p4d predicts: rows of so many GPUs of a type, measured and predicted.
. "${0%/*}/lib.sh"

for file in measured experts recipes; do
	name=$file\_throughput
	[ $file = recipes ] && name=recipes_measured
	p4d validate "$P4D_TEST_SRCDIR/tests/data/$name.csv"
done >validated || fail "p4d validate"

awk -F'|' '
	function near(text, value) { # rounded to the digits that README has
		return text - value < 0.51 * 10 ^ -digits(text) && value - text < 0.51 * 10 ^ -digits(text)
	}
	function digits(text) { return length(text) - index(text, ".") }
	NR == FNR {
		if (split($0, of, / +/) > 6 && of[6] ~ /^[-+]/) {
			sub(/-.*/, "", of[2])
			gpus[++rows] = of[3] " " of[2]; measured[rows] = of[4]; predicted[rows] = of[5]; error[rows] = of[6]
		}
		next
	}
	$3 ~ /^ [0-9]+ (A100|H100|B200|GB200|GB300) $/ {
		for (column = 4; column + 1 < NF; column += 3) {
			here = $3; a = $column; b = $(column + 1); c = $(column + 2)
			gsub(/^ | $/, "", here); gsub(/ /, "", a); gsub(/ /, "", b); gsub(/[ %]/, "", c)
			found = 0
			for (i = 1; i <= rows && !found; i++)
				found = gpus[i] == here && near(a, measured[i]) && near(b, predicted[i]) &&
					(column > 4 || c == error[i])
			if (!found) { print "README.md:" FNR ": " $0; wrong++ }
			compared++
		}
	}
	END { exit wrong || compared < 30 }
' validated "$P4D_TEST_SRCDIR/README.md" >stale || fail "README has other figures than p4d validate: $(cat stale)"

# and the means
for mean in measured_throughput:'Mean absolute error: %s %%; layouts of the same' experts_throughput:'^mean %s %%, worst'; do
	value=$(p4d validate "$P4D_TEST_SRCDIR/tests/data/${mean%%:*}.csv" |
		sed -n 's/^step time: mean absolute error \([0-9.]*\) .*/\1/p')
	# shellcheck disable=SC2059
	grep -q "$(printf "${mean#*:}" "$(printf %.1f "$value")")" "$P4D_TEST_SRCDIR/README.md" ||
		fail "README has another mean of ${mean%%:*} than $value %"
done
