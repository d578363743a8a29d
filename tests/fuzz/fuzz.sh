#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh TARGET [SECONDS] [READER]: lets libFuzzer (packages clang and libclang-rt-14-dev) look for inputs that break
# fuzz_TARGET.c, starting from its corpus. Builds in ./build-fuzz, where what it finds stays, too; inputs worth keeping go
# to tests/fuzz/corpus/TARGET by hand. READER: of the target arguments, the only one to look at ("torchtune").
# P4D_FUZZ_BYTES: the longest input; short ones are quick. Comparisons are not traced: a run takes half as long without.
set -eu
target=${1:?target missing: see tests/fuzz/fuzz_*.c}
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/tests/setup.sh"
. "$source/tests/fuzz/real_files.sh"
P4D_TEST_DATADIR=$source/etc
export P4D_TEST_DATADIR

P4D_FUZZ_READER=${3:-}
ASAN_OPTIONS=quarantine_size_mb=4:malloc_context_size=4
export P4D_FUZZ_READER ASAN_OPTIONS

flags="-g -O2 -fno-sanitize-recover=undefined -fsanitize=address,undefined -fsanitize-coverage=inline-8bit-counters,pc-table"
p4d_build "$source" build-fuzz --without-slurm CC=clang "CFLAGS=$flags"
mkdir -p "build-fuzz/$target" "build-fuzz/real-$target"
# shellcheck disable=SC2046 # a list of words
set -- "${2:-60}" $(p4d_fuzz_real_files "$source" "$target")
for real in "$@"; do
	[ ! -e "$real" ] || find "$real" -type f -exec cp {} "build-fuzz/real-$target" \;
done
more=
[ "$target" != arguments ] || more="-DP4D_TEST_YAML -DP4D_TEST_TOML"
[ "$target" != environment ] || more="-I $source/plugin $source/plugin/job_environment.c"
# shellcheck disable=SC2046,SC2086 # lists of words
clang $flags -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer -I "$source/estimator" -I "$source/script" -I "$source/command" -I "$source/runtime" \
	$more "$source/tests/fuzz/fuzz_$target.c" build-fuzz/.libs/libp4dcommand.a build-fuzz/.libs/libp4dtemplate.a build-fuzz/.libs/libp4dtrain.a build-fuzz/.libs/libp4ddata.a build-fuzz/.libs/libp4dhost.a \
	build-fuzz/.libs/libp4d.a $([ "$target" != arguments ] || echo build-fuzz/.libs/libp4dyaml.a build-fuzz/.libs/libp4dtoml.a \
	"$(pkg-config --libs yaml-0.1 tomlplusplus)" -lstdc++) $(pkg-config --libs json-c libxxhash) $(! pkg-config libpcre2-8 libutf8proc || pkg-config --libs libpcre2-8 libutf8proc) -lm \
	-o "build-fuzz/fuzz_$target"
words=
if [ -n "$P4D_FUZZ_READER" ]; then
	words=build-fuzz/$P4D_FUZZ_READER.words
	P4D_FUZZ_WORDS=1 "build-fuzz/fuzz_$target" "$source/tests/fuzz/fuzz.sh" >"$words" 2>&- || true
	[ -s "$words" ] || words= # of a reader without arguments there are none, and libFuzzer refuses an empty dictionary
fi
exec "build-fuzz/fuzz_$target" -max_total_time="$1" -max_len="${P4D_FUZZ_BYTES:-65536}" ${words:+"-dict=$words"} -timeout=5 \
	-artifact_prefix="build-fuzz/$target-" "build-fuzz/$target" "$source/tests/fuzz/corpus/$target" "build-fuzz/real-$target"
