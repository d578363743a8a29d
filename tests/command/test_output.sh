#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034
# Where output goes: errors to stderr, nothing is cut in a pipe, a full disk is noticed, a terminal gets what fits.
. "${0%/*}/lib.sh"
estimate="p4d estimate --model llama2-13b --gpu h100 --tp 8"

exits 12 p4d estimate --model llama2-70b --gpu h100 --tp 8 --json
silent
exits 7 p4d estimate --model nosuch --json
silent
prints '"verdict":"error"' '"P4D007"'
exits 1 p4d estimate --json --bogus
silent
prints '"P4D001"'

$estimate >/dev/full 2>err
status=$? out='' err=$(cat err)
[ $status = 3 ] || fail "a full disk was not noticed"
says "[P4D003]"
$estimate >&- 2>err
status=$? err=$(cat err)
[ $status = 3 ] || fail "a closed stdout was not noticed"
says "[P4D003]"

# a terminal: colours unless NO_COLOR is set, and lines that fit
script -qec true /dev/null </dev/null >/dev/null 2>&1 || { echo "skip: no script(1), or no pseudo-terminal"; exit 77; }
# terminal COLUMNS COMMAND: what it prints there
terminal() { script -qec "stty cols $1; $2" /dev/null </dev/null 2>&1 | tr -d '\r'; }
escape=$(printf '\033')
out=$(terminal 200 "$estimate")
case $out in *"$escape"*) ;; *) fail "no colours on a terminal" ;; esac
printf '%s\n' "$out" | grep -q '^stage  layers  params' || fail "not stage by stage"
NO_COLOR=1
export NO_COLOR
out=$(terminal 200 "$estimate")
case $out in *"$escape"*) fail "colours despite NO_COLOR" ;; esac
out=$(terminal 60 "$estimate" | sed -n '/^stage /,/^$/p')
printf '%s\n' "$out" | grep -q '^optimizer  *18' || fail "the table was not turned for a narrow terminal"
[ "$(printf '%s\n' "$out" | awk '{ if (length($0) > n) n = length($0) } END { print n }')" -le 60 ] || fail "lines are too long"
out=$(terminal 120 "p4d models")
[ "$(printf '%s\n' "$out" | awk '{ if (length($0) > n) n = length($0) } END { print n }')" -le 120 ] || fail "models is too wide"
exit 0
