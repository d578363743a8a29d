#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ACCURACY.md's tables of predicted step times agree with p4d: rows with a number of GPUs of a type, measured and
# predicted.
. "${0%/*}/lib.sh"

for file in measured experts recipes; do
	name=$file\_throughput
	[ $file = recipes ] && name=recipes_measured
	p4d validate "$P4D_TEST_SRCDIR/tests/data/$name.csv"
done >validated || fail "p4d validate"

awk -F'|' '
	function near(text, value) { # rounded to as many digits as the table has
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
			if (!found) { print "ACCURACY.md:" FNR ": " $0; wrong++ }
			compared++
		}
	}
	END { exit wrong || compared < 30 }
' validated "$P4D_TEST_SRCDIR/ACCURACY.md" >stale || fail "ACCURACY.md has other figures than p4d validate: $(cat stale)"

# and the means
for mean in measured_throughput:'Mean absolute error: %s %%' experts_throughput:'the mean error of 22 runs is %s %%, the worst'; do
	value=$(p4d validate "$P4D_TEST_SRCDIR/tests/data/${mean%%:*}.csv" |
		sed -n 's/^step time: mean absolute error \([0-9.]*\) .*/\1/p')
	# shellcheck disable=SC2059
	grep -q "$(printf "${mean#*:}" "$(printf %.1f "$value")")" "$P4D_TEST_SRCDIR/ACCURACY.md" ||
		fail "ACCURACY.md has another mean of ${mean%%:*} than $value %"
done

# The summary has the same means, where `p4d validate` prints them
summary=$(sed -n '/^## Summary/,/^## Memory/p' "$P4D_TEST_SRCDIR/ACCURACY.md")
while read -r file begins; do
	value=$(p4d validate "$P4D_TEST_SRCDIR/tests/data/$file.csv" |
		sed -n "s/^ *$begins: mean absolute error \([0-9.]*\) .*/\1/p" | head -n 1)
	echo "$summary" | grep -q "[| ]$(printf %.1f "$value") %" ||
		echo "$summary" | grep -q "[| ]$(printf %.2f "$value") %" ||
		fail "ACCURACY.md's summary lacks the mean of $file ($begins), $value %"
done <<'END'
measured_throughput step time
experts_throughput step time
measured_memory allocated, method closed
experts_memory allocated, method closed
experts_memory of runs whose whole recipe is published
graphs_memory allocated, method closed
frameworks_memory fsdp
frameworks_memory lora
frameworks_memory qlora
END
