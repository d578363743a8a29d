#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Command lines: accepted ones, and the messages for others.
. "${0%/*}/lib.sh"

omits() { case $out in *"$1"*) fail "$1 is printed" ;; esac; }

exits 0 p4d
prints "p4d estimate" "For example"
silent
exits 1 p4d estimat
says 'unknown command "estimat"; nearest: estimate'
exits 0 p4d --version
prints "p4d "
exits 0 p4d --help
prints "p4d estimate" "p4d check" "p4d plan" "p4d simulate" "p4d job" "p4d conf" "p4d models" "p4d gpus" "p4d explain" "p4d dump-features"
exits 1 p4d help nosuch
for command in estimate check data export plan plot rehearse simulate job conf models gpus explain dump-features help; do
	exits 0 p4d help $command
	prints "p4d $command"
	silent
done
exits 0 p4d estimate --help
prints "--micro-batch N" "--json" "p4d help estimate --all"
omits "--schedule"
usual=$(echo "$out" | sed -n '/^Model:/,/^Other options:/p' | grep -c '^  --')
[ "$usual" -ge 18 ] && [ "$usual" -le 24 ] || fail "$usual usual options"
exits 0 p4d help estimate --all
prints "--schedule gpipe|1f1b|interleaved"
for heading in model layout memory framework serving rl cluster; do
	exits 0 p4d help $heading
	prints "  --"
done
exits 0 p4d help memory
prints "--recompute-modules"
omits "--pp N"
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
exits 0 p4d estimate llama13b
prints "llama13b on 1 node"
exits 1 p4d estimate llama13b llama7b
says '"llama7b"'
exits 1 p4d estimate --model llama13b llama7b
says '"llama7b"'
exits 1 p4d models llama13b llama7b
says '"llama7b"'
refused P4D001 p4d estimate --model llama13b --p4d-tp=8
says "--p4d-tp" "fix: --tp=8"
refused P4D001 p4d estimate --model llama13b --override=me
says "--override"
refused P4D001 p4d models --tp 8
says "--tp"
exits 1 p4d estimate
says "no model given" "--model NAME"

# what people type first is answered with the command that they want
leads() # FIX WORD...
{
	fix=$1
	shift
	exits 1 p4d "$@"
	says "fix: $fix"
}
leads "p4d estimate llama3-8b --gpu NAME" llama3-8b
leads "p4d rehearse -- python train.py" train.py
leads "p4d check job.sh" job.sh
leads "p4d estimate mine/config.json" mine/config.json
leads "p4d estimate MODEL --gpu NAME --workload serve" serve
leads "p4d estimate qwen3-8b --gpu l4 --workload serve" serve qwen3-8b --gpu l4
leads "p4d explain P4D012" explian P4D012
leads "p4d models" list
leads "p4d explain" help codes
leads "p4d COMMAND --json" --json estimate llama3-8b
leads "--quiet" estimate llama3-8b --short
refused P4D007 p4d estimate 8b
says "fix: p4d models 8b"
exits 0 p4d version
prints "p4d "

# lists of names that contain a word
exits 0 p4d models QWEN3-8
prints "qwen3-8b"
omits "llama"
exits 0 p4d models qwen3-8 --json
prints '"name":"qwen3-8b"'
omits "llama"
refused P4D007 p4d models nosuch
says "p4d models"
exits 0 p4d gpus h100
prints "h100-80gb"
omits "a100"
refused P4D010 p4d gpus nosuch

# "auto": the largest that fits, and twice as much does not
exits 0 p4d estimate Qwen/Qwen3-8B --finetune qlora --recompute full --gpu rtx4090 --seq-len 2k --micro-batch auto
prints "The largest micro-batch that fits, of powers of two: 2"
refused P4D012 p4d estimate Qwen/Qwen3-8B --finetune qlora --recompute full --gpu rtx4090 --seq-len 2k --micro-batch 4
exits 0 p4d estimate Qwen/Qwen3-8B --finetune qlora --recompute full --gpu rtx4090 --seq-len auto
longest=$(echo "$out" | sed -n 's/^The largest seq-len that fits: //p')
[ "$longest" -ge 2048 ] || fail "the longest sequence"
refused P4D012 p4d estimate Qwen/Qwen3-8B --finetune qlora --recompute full --gpu rtx4090 --seq-len $((longest + 1024))
exits 0 p4d estimate bert-base --framework ddp --gpu h100 --seq-len auto
prints "The largest seq-len that fits: 512"
refused P4D001 p4d estimate llama3-8b --seq-len auto --micro-batch auto --gpu h100
refused P4D001 p4d estimate llama3-8b --seq-len auto
says "--gpu NAME"
exits 0 p4d estimate llama3.1-70b --workload serve --tp 2 --gpu h100 --gpus 2 --seq-len auto
prints "Verdict: starts"
refused P4D005 p4d plan llama3-8b --gpu h100 --seq-len auto

# the verdict alone; all that p4d chose
exits 0 p4d estimate llama3-8b --framework megatron --gpu h100 --gpus 8 --tp 4 --quiet
[ "$out" = "$(echo "$out" | grep '^Verdict: pass: [0-9.]* of 79.1 GiB')" ] || fail "more than the verdict"
exits 0 p4d estimate llama3-8b --framework megatron --gpu h100 --gpus 8 --tp 4
omits "te-wgrad="
exits 0 p4d estimate llama3-8b --framework megatron --gpu h100 --gpus 8 --tp 4 -v
prints "te-wgrad="

# a fix trains in the same batches; words of frameworks
refused P4D012 p4d estimate mistral-7b --gpu rtx4090 --gpus 2 --finetune lora
says "--micro-batch=1 --global-batch=16"
for word in megatron-lm mcore; do
	exits 0 p4d estimate llama3-8b --gpu h100 --gpus 8 --tp 8 --framework $word
	prints "framework megatron"
done
exits 0 p4d estimate llama3.2-1b --gpu h100 --seq-len 1k --framework trl
prints "framework ddp"

# given twice
exits 1 p4d estimate --model llama13b --tp 4 --tp 8
says "--tp has two values, 4 and 8"
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

# words of others lead to p4d's, with their value
for words in "--num-gpus 4|--gpus=4" "--batch-size=8|--micro-batch=8" "--batch 8|--micro-batch=8" "--lora|--finetune=lora" \
	"--qlora|--finetune=qlora" "--seq 4k|--seq-len=4k" "--max_seq_length=2048|--seq-len=2048" "--load_in_4bit|--finetune=qlora" \
	"--zero 3|--framework=deepspeed --zero-stage=3" "-N 2|--nodes=2" "--batch-size|--micro-batch=VALUE" \
	"--gradient-checkpointing|--recompute=full" "--inference|--workload=serve" "--lr 1e-4|leave it out"; do
	exits 1 p4d estimate llama13b ${words%%|*}
	[ "$(fix)" = "${words#*|}" ] || fail "${words%%|*} leads to $(fix)"
done
exits 1 p4d models --batch-size 8
[ "$(fix)" = "p4d help models" ] || fail "$(fix)"

# a model's file, and a folder with one
mkdir mine
cp "$P4D_TEST_SRCDIR/tests/data/hf/llama2-7b.json" mine/config.json
exits 0 p4d estimate mine/config.json
exits 0 p4d estimate mine
prints "on 1 node"
exits 7 p4d estimate there_is_none

# --gpus are all of the job's, as for sbatch
exits 0 p4d estimate llama13b --gpu h100 --gpus 64 --tp 8
prints "on 8 nodes of 8 x h100-80gb"
exits 0 p4d plan llama13b --gpus h100:64 --micro-batch 1
prints "on 8 nodes of 8 x h100-80gb"
exits 0 p4d estimate llama3.2-1b --gpu h100 --gpus 4
prints "on 1 node of 4 x h100-80gb"
exits 0 p4d estimate llama3.2-1b --gpu h100 --gpus 12
prints "on 2 nodes of 6 x h100-80gb"
exits 0 p4d estimate llama3.2-1b --gpu h100 --gpus 16 --gpus-per-node 4
prints "on 4 nodes of 4 x h100-80gb"
exits 0 p4d estimate llama3.2-1b --gpu h100 --gpus 16 --nodes 4
prints "on 4 nodes of 4 x h100-80gb"
exits 0 p4d estimate llama3.2-1b --gpus-per-node a100-80gb:4
prints "on 1 node of 4 x a100-80gb"
refused P4D035 p4d estimate llama3.2-1b --gpu h100 --gpus 10 --nodes 4
says "10 GPUs cannot be spread evenly over nodes=4" "fix: --gpus=8"
exits 5 p4d estimate llama13b --gpus 0
exits 1 p4d estimate llama13b --gpus 8 --gpus 16
says "--gpus has two values, 8 and 16"
exits 1 p4d plan llama13b --partitions all --gpus 8 --conf p4d.conf

# the framework whose memory it is, unless --framework names it
exits 0 p4d estimate llama3.2-1b --gpu h100
prints "Memory of p4d-train (--framework p4d)"
exits 0 p4d estimate meta-llama/Meta-Llama-3-8B --gpu h200 --finetune lora --seq-len 2048
prints "Memory of the Hugging Face Trainer (--framework ddp)" "framework ddp"
for tuned in "--finetune qlora" "--quant int8 --finetune qlora" "--lora-rank 8 --finetune lora"; do
	exits 0 p4d estimate llama3-8b --gpu h200 --seq-len 2048 $tuned
	prints "framework ddp"
done
exits 0 p4d estimate meta-llama/Meta-Llama-3-8B --gpu h100 --tp 8
prints "Memory of p4d-train"
for framework in hf trainer Transformers; do
	exits 0 p4d estimate llama3-8b --gpu h200 --framework $framework --finetune lora --seq-len 2048
	prints "framework ddp"
	case $out in *"Memory of"*) fail "said although it was asked for" ;; esac
done
exits 0 p4d estimate llama3-8b --gpu h100 --framework vllm
prints "served by vllm"
