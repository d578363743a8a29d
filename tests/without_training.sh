#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# without_training.sh BUILDDIR: where the libraries are missing that only p4d-train needs, configure says so in one line, and
# everything else is built and works. SentencePiece is there, but pkg-config does not find it, as on Debian 13.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/tests/setup.sh"
build=$1
fail() { echo "FAIL: $*"; exit 1; }

p4d_build "$source" "$build" --enable-werror CFLAGS=-O0 \
	PKG_CONFIG="$source/tests/pkg_config.sh openblas,libxxhash,sentencepiece,libutf8proc"
report=$(sed -n 's/^ *p4d-train  *//p' "$build/config.log")
[ "$report" = "no (libxxhash and openblas not found: apt-get install libxxhash-dev libopenblas-dev)" ] ||
	fail "configure says of p4d-train: $report"
report=$(sed -n 's/^ *sentencepiece  *//p' "$build/config.log")
[ "$report" = "yes (found by compiling; pkg-config: Package sentencepiece was not found)" ] ||
	fail "configure says of sentencepiece: $report"
[ -f "$build/.libs/libp4d-sentencepiece.so" ] || fail "no SentencePiece tokenizers"
report=$(sed -n 's/^ *tokenizer.json  *//p' "$build/config.log")
[ "$report" = "no (PCRE2 or utf8proc not found: apt-get install libpcre2-dev libutf8proc-dev)" ] ||
	fail "configure says of tokenizer.json: $report"
echo '{}' >"$build/tokenizer.json"
! said=$("$build/p4d" data -o "$build/tokens" --tokenizer "$build/tokenizer.json" "$0" 2>&1) || fail "read tokenizer.json"
case $said in *"was built without PCRE2 and utf8proc"*) ;; *) fail "says of tokenizer.json: $said" ;; esac
for file in p4d .libs/p4d.so .libs/libp4d-client.so .libs/libp4d-json.so .libs/libp4d-reader.so .libs/job_submit_p4d.so; do
	[ -f "$build/$file" ] || fail "$file was not built"
done
! ldd "$build/.libs/libp4d-client.so" "$build/p4d" | grep -E 'xxhash|openblas' || fail "linked with what is missing"
[ ! -e "$build/p4d-train" ] || fail "p4d-train was built"
make -C "$build" -j "$(p4d_cores)" check check_PROGRAMS= check_LTLIBRARIES= \
	TESTS="tests/command/test_data.sh tests/command/test_job.sh tests/command/test_lists.sh"
