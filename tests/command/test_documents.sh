#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The documents' commands print what the documents show, and sentences are short.
. "$P4D_TEST_SRCDIR/tests/command/lib.sh"

SLURM_CONF=/nonexistent status="" out="" err=""
export SLURM_CONF
rm -f p4d.conf
cd "$P4D_TEST_SRCDIR" || exit 1
bash tests/documents.sh - README.md doc/*.md ||
	fail "PATH=BUILD:\$PATH SLURM_CONF=/nonexistent tests/documents.sh --update - FILE writes what is printed"

# nine of ten sentences have at most 28 words
for document in README.md doc/*.md ACCURACY.md CONTRIBUTING.md SECURITY.md NEWS; do
	long=$(awk -f tests/sentences.awk "$document" | sort -n | awk '{ words[NR] = $1 } END { print words[int(NR * 0.9) + 1] }')
	[ "$long" -le 28 ] || fail "$document: one of ten sentences has $long words or more: awk -f tests/sentences.awk $document | sort -n"
done
# phrases at which a reader stops
! grep -nE '\bis (said|told)\b|but for\b|in any case|meanwhile|\bbeside\b|\bbehind\b|, too\b|\bheed|\bmend(s|ed)?\b' README.md doc/*.md ||
	fail "words that CONTRIBUTING.md's style guide rules out"

words=$(wc -w <README.md)
[ "$words" -le 1200 ] || fail "README.md has $words words, more than 1,200"
