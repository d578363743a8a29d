#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.py, with programs that are shell scripts and call tests/rehearsal/played.c: how it reads their comments and
# p4d's answers.
. "$P4D_TEST_SRCDIR/tests/command/lib.sh"

played=$P4D_TEST_BUILDDIR/tests/rehearsal/played
[ -x "$played" ] && command -v python3 >/dev/null || exit 77
mkdir programs
# program NAME: from stdin
program() { cat >"programs/$1.py"; }
try()
{
	python3 "$P4D_TEST_SRCDIR/tests/rehearsal/run.py" --p4d "$P4D_TEST_BUILDDIR/p4d" --programs programs --folder logs \
		--python today=/bin/sh "$@"
}

program fits <<END
# want: verdict=pass device_gib=10.3..10.6

$played 10240
END
program shared <<END
echo "a module that others use"
END
program ways <<END
# rehearse: --gpu a100-40gb
# case: small
# want: verdict=pass device_gib=1.4..1.5
# case: large
# want: verdict=reject reason="it requested 40.00 GiB"
# rehearse: -- 40960
# case: unplayed
# rehearse: -- missing
# want: verdict=incomplete reason=cudaArrayGetInfo
$played \${1:-1024}
END
exits 0 try
prints "ok    rehearsal/today/fits: pass" "ok    rehearsal/today/ways-small: pass" "ok    rehearsal/today/ways-large: reject" \
	"ok    rehearsal/today/ways-unplayed: incomplete" "4 passed, 0 failed, 0 skipped"
case $out in *shared*) fail "a module was taken for a program" ;; esac
exits 0 try --jobs 3
prints "ok    rehearsal/today/fits: pass" "ok    rehearsal/today/ways-small: pass" "ok    rehearsal/today/ways-large: reject" \
	"ok    rehearsal/today/ways-unplayed: incomplete" "4 passed, 0 failed, 0 skipped"
exits 0 try ways-small
prints "1 passed, 0 failed, 0 skipped"
[ -s logs/today-ways-small.log ] || fail "what p4d printed is not kept"
exits 1 try nosuch
prints "FAIL  rehearsal/nosuch: there is no such program"

# a difference is reported, with the program's last output
program fits <<END
# want: verdict=reject
$played 10240
END
exits 1 try fits
prints "FAIL  rehearsal/today/fits: pass; reject is wanted"
program fits <<END
# want: verdict=pass
echo its last words
$played 10240
exit 3
END
exits 1 try fits
prints "FAIL  rehearsal/today/fits: incomplete" "its last words"
program fits <<END
# want: verdict=pass device_gib=11..12
$played 10240
END
exits 1 try fits
prints "FAIL  rehearsal/today/fits: device_gib is 10.4"

# the time of the CPU, and the memory of the host
program fits <<END
# want: verdict=pass cpu_s=0.001..60 host_gib=0.001..1
$played 10240
END
exits 0 try fits
prints " s of the CPU"
for want in cpu_s=0..0.001 host_gib=1..2; do
	program fits <<-END
		# want: verdict=pass $want
		$played 10240
	END
	exits 1 try fits
	prints "FAIL  rehearsal/today/fits: ${want%%=*} is "
done
program fits <<END
# rehearse: --gpu nosuch
# want: verdict=pass
$played 10240
END
exits 1 try fits
prints 'unknown GPU \"nosuch'

# published figures: 8 % each, 3 % on average
program fits <<END
# want: verdict=pass
# published: device_gib=10.5
$played 10240
END
exits 0 try fits
prints "published 10.50: -" "1 published figures: mean error "
program fits <<END
# want: verdict=pass
# published: device_gib=11
$played 10240
END
exits 1 try fits
prints "ok    rehearsal/today/fits" "FAIL  rehearsal/published: 1 published figures: mean error 4"
program fits <<END
# want: verdict=pass
# published: device_gib=9
$played 10240
END
exits 1 try fits
prints "FAIL  rehearsal/today/fits: " "published 9.00: +1"

# comments that say nothing that can be checked
for want in "verdict=incomplete" "reserved_gib=1..2" "verdict=pass peak=3"; do
	program fits <<-END
		# want: $want
		$played 10240
	END
	exits 1 try fits
	prints "FAIL  rehearsal/fits: fits: want: "
done
program fits <<END
# torch: 1.0
# want: verdict=pass
END
exits 1 try fits
prints "torch: 1.0 is none of"

# without an index there is no PyTorch: pip's own reason
program fits <<END
# torch: 2.4
# want: verdict=pass
END
export PIP_INDEX_URL=http://127.0.0.1:9/ PIP_RETRIES=0 PIP_FIND_LINKS=''
exits 0 try fits
prints "skip  rehearsal/2.4/fits: no PyTorch 2.4: " "0 passed, 0 failed, 1 skipped"
