#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every fuzz target survives its corpus (found by fuzz.sh) and the real files it is for.
set -u
source=$P4D_TEST_SRCDIR
failed=0
replay()
{
	target=$1
	shift
	echo "$target:"
	"$P4D_TEST_BUILDDIR/tests/fuzz/fuzz_$target" "$source/tests/fuzz/corpus/$target" "$@" || failed=1
}
replay conf "$source/etc/p4d.conf" "$source/tests/cluster/p4d.conf"
replay gpus "$source/etc/gpus.json"
replay gres
replay model "$source/etc/models" "$source/tests/data/hf"
replay sbatch
# what reads these is built where libxxhash is
if [ -f "$P4D_TEST_BUILDDIR/libp4dtrain.la" ]; then
	replay safetensors
	replay tokens
fi
exit $failed
