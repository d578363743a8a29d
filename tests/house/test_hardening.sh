#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What was built has the protections that ./configure found (P4D_TEST_PROTECTIONS), seen with readelf: a flag that is lost on the
# way to one program or plugin is lost silently.
set -u
has() { case " ${P4D_TEST_PROTECTIONS:-} " in *" $1 "*) ;; *) return 1 ;; esac; }
[ -n "${P4D_TEST_PROTECTIONS:-}" ] || { echo "./configure --disable-hardening, or sanitizers"; exit 77; }
command -v readelf >/dev/null || { echo "readelf not found (apt-get install binutils)"; exit 77; }
cd "${P4D_TEST_BUILDDIR:-.}" || exit 2
failed=0
fault() { echo "FAIL: $1: $2"; failed=1; }

# lacks FILE PROTECTION...: reports the missing ones as faults
lacks()
{
	file=$1
	shift
	headers=$(readelf -lW "$file") dynamic=$(readelf -dW "$file")
	symbols=$(readelf -sW "$file")
	for protection in "$@"; do
		has "$protection" || continue
		case $protection in
		relro) echo "$headers" | grep -q GNU_RELRO ;;
		now) echo "$dynamic" | grep -q BIND_NOW ;;
		pie) readelf -hW "$file" | grep -q 'Type: *DYN' && echo "$dynamic" | grep -q 'Flags:.*PIE' ;;
		canary) echo "$symbols" | grep -q ' __stack_chk_fail' ;;
		fortify) echo "$symbols" | grep -q ' __[a-z]*_chk' ;;
		esac || fault "$file" "no $protection"
	done
	echo "$headers" | grep -q 'GNU_STACK.* RW ' || fault "$file" "its stack is executable"
}

program() { [ -f ".libs/$1" ] && echo ".libs/$1" || echo "$1"; }
looked=0
for name in p4d p4d-train; do
	file=$(program $name)
	[ -f "$file" ] || continue
	lacks "$file" relro now pie canary fortify
	looked=$((looked + 1))
done
for file in .libs/*.so; do
	[ -f "$file" ] || continue
	case $file in
	# bound when called: sbatch pays only for its own calls, and not every daemon has every symbol of Slurm's
	*/p4d.so | */libp4d-client.so | */job_submit_p4d.so) lacks "$file" relro canary fortify ;;
	*) lacks "$file" relro now canary ;;
	esac
	looked=$((looked + 1))
done
# The linker drops this mark where one object lacks it, as the C library's start files do in Debian 12: so ours are looked at.
if has cet; then
	unmarked=$(find estimator script command plugin rehearsal runtime -name '*.o' ! -path '*/cuda/*' -exec readelf -nW {} + 2>/dev/null | awk '
		/^File:/ { if (file && !marked) print file; file = $2; marked = 0 }
		/IBT, SHSTK/ { marked = 1 }
		END { if (file && !marked) print file }' | head -n 3)
	[ -z "$unmarked" ] || fault "$unmarked" "no cet"
fi
[ "$looked" -gt 0 ] || { echo "nothing was built"; exit 77; }
echo "$looked programs and libraries:$P4D_TEST_PROTECTIONS"
exit $failed
