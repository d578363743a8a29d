#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every fuzz target survives its corpus (found by fuzz.sh) and the real files it is for.
set -u
source=$P4D_TEST_SRCDIR
failed=0
readers=0
. "$source/tests/fuzz/real_files.sh"
for corpus in "$source"/tests/fuzz/corpus/*; do
	target=${corpus##*/}
	program=$P4D_TEST_BUILDDIR/tests/fuzz/fuzz_$target
	# some are built where Slurm or libxxhash is
	[ -x "$program" ] || continue
	echo "$target:"
	# shellcheck disable=SC2046 # a list of words
	"$program" "$corpus" $(p4d_fuzz_real_files "$source" "$target") || failed=1
	# what broke one reader was found with that one alone
	[ "$target" = arguments ] || continue
	for reader in $(sed -n 's/^    {"\([a-z0-9-]*\)", ".*/\1/p' "$source/tests/fuzz/fuzz_arguments.c" | sort -u); do
		P4D_FUZZ_READER=$reader "$program" "$corpus" >/dev/null || { echo "$reader: it broke"; failed=1; }
		readers=$((readers + 1))
	done
	[ $readers -ge 20 ] || { echo "only $readers readers"; failed=1; }
done
for program in "$P4D_TEST_BUILDDIR"/tests/fuzz/fuzz_*; do
	target=${program##*/fuzz_}
	case $target in *.*) continue ;; esac
	[ -d "$source/tests/fuzz/corpus/$target" ] || { echo "no corpus of $target"; failed=1; }
done
exit $failed
