#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh TARGET [SECONDS]: lets libFuzzer (packages clang and libclang-rt-14-dev) look for inputs that break
# fuzz_TARGET.c, starting from its corpus. Builds in ./build-fuzz, where what it finds stays, too; inputs worth keeping go
# to tests/fuzz/corpus/TARGET by hand.
set -eu
target=${1:?target missing: conf, gpus, gres, model, safetensors, sbatch or tokens}
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/tests/setup.sh"
P4D_TEST_DATADIR=$source/etc
export P4D_TEST_DATADIR

flags="-g -O1 -fno-sanitize-recover=undefined"
p4d_build "$source" build-fuzz --without-slurm CC=clang "CFLAGS=$flags -fsanitize=fuzzer-no-link,address,undefined"
mkdir -p "build-fuzz/$target"
# shellcheck disable=SC2046,SC2086 # lists of words
clang $flags -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -I "$source/estimator" -I "$source/runtime" \
	"$source/tests/fuzz/fuzz_$target.c" build-fuzz/.libs/libp4dtrain.a build-fuzz/.libs/libp4ddata.a build-fuzz/.libs/libp4dhost.a \
	build-fuzz/.libs/libp4d.a $(pkg-config --libs json-c libxxhash) -lm \
	-o "build-fuzz/fuzz_$target"
exec "build-fuzz/fuzz_$target" -max_total_time="${2:-60}" -max_len=4096 -timeout=5 \
	-artifact_prefix="build-fuzz/$target-" "build-fuzz/$target" "$source/tests/fuzz/corpus/$target"
