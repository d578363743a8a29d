#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh TARGET [SECONDS]: lets libFuzzer (clang) look for inputs that break fuzz_TARGET.c, starting from its corpus.
# What it finds stays in ./fuzz-TARGET; inputs worth keeping go to tests/fuzz/corpus/TARGET by hand.
set -eu
target=${1:?target missing: conf, gpus, gres, model or sbatch}
source=$(cd "$(dirname "$0")/../.." && pwd)
P4D_TEST_DATADIR=$source/etc
export P4D_TEST_DATADIR
mkdir -p "fuzz-$target/found"
# shellcheck disable=SC2046 # lists of words
clang -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	-I "$source/estimator" -DP4D_DATADIR='"/nowhere"' -DP4D_SYSCONFDIR='"/nowhere"' \
	$(pkg-config --cflags json-c libconfuse) "$source/tests/fuzz/fuzz_$target.c" \
	$(find "$source/estimator" -name '*.c' ! -name 'command*' ! -name 'report*' ! -name table.c) \
	$(pkg-config --libs json-c libconfuse) -lm -o "fuzz-$target/fuzz"
exec "fuzz-$target/fuzz" -max_total_time="${2:-60}" -max_len=4096 -timeout=5 -artifact_prefix="fuzz-$target/" \
	"fuzz-$target/found" "$source/tests/fuzz/corpus/$target"
