#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d conf: validates a file, finds the one in force, and prints what it means.
. "${0%/*}/lib.sh"

exits 0 p4d conf p4d.conf
prints "p4d.conf: valid" "h100 *" "observe" "(others)" "0.95" "0.97"
printf '%s\n' "$out" | grep -q '^strict .*yes *$' || fail "require_plan is not shown"

# beside slurm.conf, as gres.conf is
mkdir etc
mv p4d.conf etc
SLURM_CONF=$work/etc/slurm.conf
export SLURM_CONF
exits 0 p4d conf
prints "$work/etc/p4d.conf: valid"
exits 0 p4d estimate --model llama13b --tp 8
prints "h100-80gb"
exits 0 p4d dump-features
prints "conf: $work/etc/p4d.conf"
# --conf wins
printf 'partition "x" {\n gpu = "h200-141gb"\n default = true\n}\nversion = 1\n' >other.conf
exits 0 p4d estimate --conf other.conf --model llama13b --tp 8
prints "h200-141gb"
exits 1 p4d conf --conf other.conf etc/p4d.conf
# none there: the defaults
SLURM_CONF=$work/slurm.conf
exits 0 p4d conf
prints "No p4d.conf found"

# mistakes: file:line, and the status of their code
printf 'mode = enforce\nsafe = 2.0\nversion = 1\n' >bad.conf
refused P4D061 p4d conf bad.conf
says "bad.conf:2:"
printf 'mode = enforce\n' >bad.conf
exits 63 p4d conf bad.conf
printf 'mod = enforce\nversion = 1\n' >bad.conf
exits 60 p4d conf bad.conf
says "bad.conf:1:"
printf 'mode = off\nmode = warn\nversion = 1\n' >bad.conf
exits 62 p4d conf bad.conf
exits 3 p4d conf nosuch.conf

# slurmctld would not read what everybody may write
printf 'version = 1\n' >open.conf
chmod 666 open.conf
exits 0 p4d conf open.conf
prints "slurmctld would reject the file"
