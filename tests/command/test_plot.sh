#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d plot: what is drawn of logs, in a terminal with and without UTF-8, and as a picture; logs that are still written, of runs
# that went back, and that are none.
. "${0%/*}/lib.sh"
# steps FILE FROM TO SLOPE: steps as p4d-train logs them; the loss is 5 - SLOPE*step
steps()
{
	awk -v from="$2" -v to="$3" -v slope="$4" 'BEGIN {
		for (i = from; i <= to; i++)
			printf "{\"event\":\"step\",\"step\":%d,\"steps\":100,\"loss\":%s,\"tokens_per_second\":%d,\"mfu\":null,\"memory_bytes\":%.0f}\n",
				i, 5 - slope * i, 20000 + i, 3221225472
	}' >>"$1"
}
start() { echo "{\"event\":\"start\",\"ranks\":1,\"resumed_step\":$1}"; }
mkdir -p runs/one runs/two
start 0 >runs/one/log.jsonl
steps runs/one/log.jsonl 1 100 0.02
{
	start 0
	echo '{"event":"validation","step":50,"loss":4.5}'
	echo '{"event":"validation","step":100,"loss":4.25}'
} >runs/two/log.jsonl
steps runs/two/log.jsonl 1 100 0.01

# one run, in ASCII: every column and number
LC_ALL=C
export LC_ALL
exits 0 p4d plot runs/one/log.jsonl
silent
cat >want <<'END'
loss
     5.0 +
         | *******
         |        *******
     4.5 +              ********
         |                     ********
     4.0 +                            ********
         |                                   *******
         |                                          *******
     3.5 +                                                 *******
         |                                                        *******
         |                                                               ******
     3.0 +                                                                     *
END
printf '%s\n' "$out" | sed 's/ *$//' | head -n 13 >got
printf '%s\n' "$out" | grep -q 'validation loss' && fail "a validation loss that is not there"
prints "tokens/s" "memory, GiB" "run " "100  3.0000           -     20051  3.00"
[ "$(printf '%s\n' "$out" | grep -c '\*')" -gt 12 ] || fail "too little is drawn"
[ -z "$(printf '%s' "$out" | tr -d '\n -~')" ] || fail "not ASCII alone"
[ "$(printf '%s\n' "$out" | awk '{ if (length > most) most = length } END { print most }')" -le 80 ] || fail "wider than 80 columns"
diff want got >differs || fail "another curve: $(cat differs)"

# two beside each other, named by what tells their paths apart
exits 0 p4d plot runs/one/log.jsonl runs/two/log.jsonl
prints "a one" "b two" "validation loss" "one   100  3.0000           -" "two   100  4.0000      4.2500"
for curve in a b; do
	printf '%s\n' "$out" | grep -q "$curve$curve$curve" || fail "no curve $curve"
done
exits 0 env LC_ALL=C.UTF-8 p4d plot runs/one/log.jsonl runs/two/log.jsonl
prints "┤" "└──" "⠒" " one" " two"
printf '%s\n' "$out" | grep -q 'a one' && fail "letters beside Braille's dots"

# a picture of its own: in light and dark, with a curve and a label of each run's colour, ticks at round numbers
exits 0 p4d plot --svg plot.svg runs/one/log.jsonl runs/two/log.jsonl
for part in 'class="curve s0"' 'class="curve s1"' 'class="t0".*>one<' 'class="t1".*>two<' '>4.5<' '>20k<' '>60<' 'prefers-color-scheme:dark' '^</svg>'; do
	grep -q "$part" plot.svg || fail "no $part in the picture"
done
sed 's/xmlns="[^"]*"//' plot.svg | grep -E 'http|href|url\(|<script' && fail "the picture needs other files"
refused P4D003 p4d plot --svg nosuch/plot.svg runs/one/log.jsonl
says "nosuch/plot.svg: cannot be written"

# several sets of validation data
{
	start 0
	for step in 10 20; do
		echo "{\"event\":\"validation\",\"step\":$step,\"name\":\"web\",\"loss\":2.$step}"
		echo "{\"event\":\"validation\",\"step\":$step,\"name\":\"code\",\"loss\":1.$step}"
	done
} >sets.jsonl
steps sets.jsonl 1 20 0.02
exits 0 p4d plot sets.jsonl
prints "a web" "b code"

# a log that is still written: its incomplete last line is left out; a damaged line, or a file that is no log, is an
# error with the line
printf '{"event":"step","step":101,"lo' >>runs/one/log.jsonl
exits 0 p4d plot runs/one/log.jsonl
prints "100  3.0000"
printf '\n{"event":"end"}\n' >>runs/one/log.jsonl
refused P4D004 p4d plot runs/one/log.jsonl
says "runs/one/log.jsonl:102"
echo '{"loss":3}' >other.jsonl
refused P4D004 p4d plot other.jsonl
says 'other.jsonl:1: lacks "event"'
echo '{"event":"step","step":1,"loss":"high"}' >other.jsonl
refused P4D004 p4d plot other.jsonl
says "other.jsonl:1" "loss"
start 0 >other.jsonl
refused P4D005 p4d plot other.jsonl
says "other.jsonl: no step has a loss yet" "fix: the FILE of p4d-train --log"
echo '{"event":"step","step":1,"loss":null}' >>other.jsonl
refused P4D005 p4d plot other.jsonl
: >other.jsonl
refused P4D005 p4d plot other.jsonl
refused P4D003 p4d plot nosuch.jsonl
says "nosuch.jsonl: cannot be read: No such file"
refused P4D003 p4d plot runs
says "runs: cannot be read: Is a directory"
refused P4D001 p4d plot
says "no log given"
# shellcheck disable=SC2046 # nine names
refused P4D001 p4d plot $(yes sets.jsonl | head -n 9)
says "unexpected argument"
exits 0 p4d plot - <sets.jsonl

# of a run that went back to a checkpoint, and of a second run in the file, the later values are drawn
start 0 >back.jsonl
steps back.jsonl 1 30 0.02
start 20 >>back.jsonl
steps back.jsonl 21 25 0.1
exits 0 p4d plot back.jsonl
prints "25  2.5000"
start 0 >>back.jsonl
steps back.jsonl 1 3 1
exits 0 p4d plot back.jsonl
prints "3  2.0000"
# one step is drawn as a point, and a constant loss as a line
start 0 >flat.jsonl
steps flat.jsonl 1 1 0
exits 0 p4d plot --svg flat.svg flat.jsonl
grep -q 'stroke-linecap="round"' flat.svg || fail "no point in the picture"
steps flat.jsonl 2 9 0
exits 0 p4d plot flat.jsonl
prints "9  5.0000"
