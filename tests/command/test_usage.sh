#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Command lines: what is accepted, and what is said of the rest.
. "${0%/*}/lib.sh"

exits 1 p4d
says "no command given" "p4d help"
exits 1 p4d estimat
says 'unknown command "estimat"; nearest: estimate'
exits 0 p4d --version
prints "p4d "
exits 0 p4d --help
prints "p4d estimate" "p4d check" "p4d plan" "p4d simulate" "p4d job" "p4d conf" "p4d models" "p4d gpus" "p4d explain" "p4d dump-features"
exits 1 p4d help nosuch
for command in estimate check data export plan plot simulate job conf models gpus explain dump-features help; do
	exits 0 p4d help $command
	prints "p4d $command"
	silent
done
exits 0 p4d estimate --help
prints "--micro-batch N" "--schedule gpipe|1f1b|interleaved" "--json"
exits 0 p4d check --help
prints "SBATCH OPTIONS"

# both forms of a value, and abbreviations
exits 0 p4d estimate --model llama13b --micro-batch 1 --tp 8 --gpu h100
first=$out
exits 0 p4d estimate --model=llama13b --micro=1 --tp=8 --gpu=h100
[ "$out" = "$first" ] || fail "--tp 8 and --tp=8 differ"
exits 1 p4d estimate --model llama13b --micr
says "--micr needs a value"
exits 1 p4d estimate --m llama13b
says "--m is ambiguous" "--micro-batch" "--model"
exits 1 p4d estimate --nosuch
says "unknown option --nosuch" "p4d help estimate"
exits 1 p4d estimate --micro-bach 4
says "unknown option --micro-bach; nearest: micro-batch"
exits 1 p4d estimate --json=1
says "--json takes no value"
exits 1 p4d estimate llama13b
says '"llama13b"'
refused P4D001 p4d estimate --model llama13b --p4d-tp=8
says "--p4d-tp" "fix: --tp=8"
refused P4D001 p4d estimate --model llama13b --override=me
says "--override"
refused P4D001 p4d models --tp 8
says "--tp"
exits 1 p4d estimate
says "no model given" "--model NAME"

# given twice
exits 1 p4d estimate --model llama13b --tp 4 --tp 8
says "--tp is given twice: 4 and 8"
exits 1 p4d estimate --model llama13b --recompute=full --model llama7b
says "llama13b and llama7b"
exits 0 p4d estimate --model llama13b --tp 8 --tp=8 --gpu h100

# values; the flags of this command have no prefix, so its messages have none
for value in 0 8x -1 1025 99999999999999999999 ''; do
	exits 5 p4d estimate --model llama13b --tp="$value"
	says "--tp=$value" "from 1 to 1024"
	case $err in *--p4d-*) fail "prefix in a message of estimate" ;; esac
done
exits 5 p4d estimate --model llama13b --recompute=some
says "none|selective|mlp|full|moe|keep"
exits 5 p4d plan --model llama13b --gpu h100 --top 0
exits 5 p4d estimate --model llama13b --mem 16Q
exits 7 p4d estimate --model lama2-13b
says "llama2-13b"
exits 10 p4d estimate --model llama13b --gpu h1000
says "h100-80gb" "p4d gpus"
refused P4D020 p4d estimate --model llama13b --tp 3
says "40" "1, 2, 4"
exits 3 p4d estimate --model llama13b --conf nosuch.conf
says "nosuch.conf"
