#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The documents' commands print what the documents show, and every sentence has at most so many words.
. "$P4D_TEST_SRCDIR/tests/command/lib.sh"

SLURM_CONF=/nonexistent status="" out="" err=""
export SLURM_CONF
rm -f p4d.conf
cd "$P4D_TEST_SRCDIR" || exit 1
bash tests/documents.sh - README.md doc/*.md ||
	fail "PATH=BUILD:\$PATH SLURM_CONF=/nonexistent tests/documents.sh --update - FILE writes what is printed"

words=$(wc -w <README.md)
[ "$words" -le 1200 ] || fail "README.md has $words words, more than 1,200"
