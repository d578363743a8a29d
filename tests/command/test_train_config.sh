#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How long p4d-train trains, in epochs, and its options in a file: --config takes what --print-config prints.
. "${0%/*}/lib.sh"
by_hand
seq 1 400 >text
seq 1 90 | tr 0-9 a-j >other
exits 0 p4d data --split-lines -o numbers text
exits 0 p4d data --split-lines -o letters other
model="--model custom --layers 4 --hidden 32 --ffn 48 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 64
	--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32 --global-batch 4 --device cpu"
# shellcheck disable=SC2086 # a list of words
train() { p4d-train $model "$@"; }

# other trainers' names of options, and a key that nobody has
refused P4D001 train --data numbers --learning-rate=3e-4 --steps 1
says "unknown option --learning-rate: p4d-train has --lr" "fix: --lr=3e-4"
refused P4D001 train --data numbers --num_train_epochs 3
says "p4d-train has --epochs" "fix: --epochs"
refused P4D001 train --data numbers --batch-size 3
says "--global-batch, the sequences of a step, and --micro-batch"
refused P4D001 train --data numbers --tp-com on
says "unknown option --tp-com"

# flags that p4d plan prints for sbatch, pasted as they are
exits 0 p4d plan --model smollm2-135m --framework p4d --device cpu --nodes 1 --gpus-per-node 2 --seq-len 64 --global-batch 4 --mem 8G
flags=$(echo "$out" | sed -n 's/^  *2  \(--p4d-model.*\)/\1/p')
# shellcheck disable=SC2086
exits 0 p4d-train --local-ranks 2 --data numbers --steps 1 --seq-len 64 --global-batch 4 $flags --print-config
for flag in $flags; do
	case $flag in --p4d-framework=*) continue ;; esac
	name=${flag#--p4d-}
	echo "$out" | grep -q "^${name%%=*} = \"*${name#*=}\"*  *# typed" || fail "$flag does not arrive"
done
refused P4D001 train --data numbers --steps 1 --p4d-data=numbers
says "unknown option --p4d-data" "fix: --data=numbers"
refused P4D001 train --data numbers --steps 1 --p4d-framework=megatron
says "p4d-train has no option --framework"

# epochs: whole steps of the sequences that the start line counts; as many as a run of so many --steps
# started MEMBER FILE: a number of the first line
started() { sed -n "s/.*\"event\":\"start\".*\"$1\":\([0-9.]*\).*/\1/p" "$2"; }
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*"learning_rate":\([^,]*\),.*/\1 \2/p' "$1"; }
for data in "--sequences cut" "--sequences packed" "--valid-fraction 0.4"; do
	rm -f epochs steps
	# shellcheck disable=SC2086
	{
		exits 0 train --data numbers $data --epochs 1.5 --log epochs
		silent
		sequences=$(started epoch_sequences epochs) count=$(started steps epochs)
		[ "$count" = "$(awk -v n="$sequences" 'BEGIN { print int(1.5 * n / 4) }')" ] && [ "$count" -gt 2 ] ||
			fail "$data: $count steps of $sequences sequences"
		exits 0 train --data numbers $data --steps "$count" --log steps
	}
	[ "$(losses epochs)" = "$(losses steps)" ] || fail "$data: other steps than --steps $count"
	[ "$(losses epochs | wc -l)" = "$count" ] || fail "$data: not $count steps"
	[ -e cut ] || cp epochs cut
done
exits 0 train --data "numbers letters" --epochs 1 --log both
[ "$(started epoch_sequences both)" -gt "$(started epoch_sequences cut)" ] || fail "an epoch of two sets is not all of both"
refused P4D005 train --data "0.5 numbers 0.5 letters" --epochs 1
says "--epochs: several data sets with weights have no common epoch: letters ends after" "fix: --steps N"
refused P4D005 train --data numbers --epochs 0.01
says "less than one step with --global-batch=4"
refused P4D005 train --data numbers --epochs 1 --warmup 4000
says "--warmup=4000 is above the steps of --epochs"
refused P4D001 train --data numbers --epochs 1 --steps 3
says "--steps and --epochs are mutually exclusive"
# a run goes on to the same end
exits 0 train --data numbers --epochs 0.5 --checkpoint ck --log log
rm -r "$(find ck -name 'step-*' | sort | tail -n 1)"
exits 0 train --data numbers --epochs 0.5 --checkpoint ck --log log
[ "$(grep -c '"event":"end"' log)" = 2 ] && [ "$(started steps log | sort -u | wc -l)" = 1 ] || fail "not the same end: $(cat log)"

[ -e "$P4D_TEST_BUILDDIR/.libs/libp4d-toml.so" ] || {
	refused P4D001 train --config run.toml
	exit 0
}

# what is printed leads to the same plan, and prints the same; a value's source stands beside it
bare() { sed -n 's/  *# [a-z0-9.].*//; /^[a-z#]/p' "$1"; }
while read -r options; do
	# shellcheck disable=SC2086
	train --data numbers --steps 5 $options --print-config >one.toml || fail "$options"
	p4d-train --config one.toml --print-config >two.toml || fail "$options: $(cat one.toml)"
	grep -q '^# plan: digest [0-9a-f]\{32\}, buffers [0-9a-f]\{16\}$' one.toml || fail "no plan: $(cat one.toml)"
	[ "$(bare one.toml)" = "$(bare two.toml)" ] || fail "$options: $(diff one.toml two.toml)"
done <<'END'
--lr 1e-2 --checkpoint ck
--local-ranks 2 --pp 2 --schedule zb1p --recompute keep --min-lr 0
--local-ranks 2 --tp 2 --tp-grid 1,2,1 --schedule-lr wsd
--local-ranks 2 --pp 2 --token-slices 2 --slice-lengths 24,8 --schedule-lr constant
--local-ranks 2 --optimizer-sharding parameters --resident-layers 1 --sliding-window 8
--offload optimizer,params --valid-data a=numbers --valid-data b=letters --eval-every 2
--precision bf16 --sequences packed --valid-fraction 0.2
END
grep -q '^seq-len = 32  *# typed$' one.toml && grep -q '^clip = 1  *# default$' one.toml &&
	grep -q '^schedule = "1f1b"  *# chosen by p4d$' one.toml && grep -q '^# architecture = "llama"  *# model$' one.toml &&
	grep -q '^seq-len = 32  *# one.toml$' two.toml || fail "other sources: $(cat one.toml two.toml)"

# the file trains like its options; typed options override it, also --epochs its steps
{
	echo "$model" | tr -s '\n\t ' ' ' | sed 's/ *--\([a-z-]*\) \([a-z0-9]*\)/\1 = "\2"\n/g'
	printf 'data = "numbers"\nsteps = 3 # so many\nlr = 1e-2\nvalid_data = ["a=numbers", "b=letters"]\neval-every = 3\nclip = 0.5\nsave-best = false\n'
} >run.toml
exits 0 p4d-train --config run.toml --log file
exits 0 train --data numbers --steps 3 --lr 1e-2 --valid-data a=numbers --valid-data b=letters --clip 0.5 --log typed
[ "$(losses file)" = "$(losses typed)" ] && [ "$(grep -c '"event":"validation"' file)" = 2 ] || fail "other losses: $(cat file typed)"
exits 0 p4d-train --config run.toml --steps 2 --lr 2e-2 --valid-data numbers --log over
[ "$(losses over | wc -l)" = 2 ] && [ "$(grep -c '"event":"validation"' over)" = 1 ] || fail "typed options do not replace: $(cat over)"
exits 0 p4d-train --config run.toml --epochs 0.25 --print-config
prints "epochs = 0.25 "
echo "$out" | grep -q '^steps' && fail "--epochs does not replace steps"
# YAML by the name of the file
if [ -e "$P4D_TEST_BUILDDIR/.libs/libp4d-yaml.so" ]; then
	sed 's/ = /: /; s/^ *//' run.toml >run.yaml
	exits 0 p4d-train --config run.yaml --log yaml
	[ "$(losses yaml)" = "$(losses file)" ] || fail "YAML trains otherwise: $(cat yaml)"
fi
# settings without use for an evaluation are ignored
exits 0 p4d-train --config run.toml --checkpoint own
exits 0 p4d-train --config run.toml --checkpoint own --eval-only
[ "$(echo "$out" | grep -c '"event":"validation"')" = 2 ] || fail "not two sets: $out"
exits 0 p4d-train --config run.toml --checkpoint own --sample 12 --sample-tokens 3

# wrong TEXT CODE SAYS...: a line that is added
wrong()
{
	{ cat run.toml && printf '%b\n' "$1"; } >wrong.toml
	code=$2
	shift 2
	refused "$code" p4d-train --config wrong.toml
	says "$@"
}
line=$(($(wc -l <run.toml) + 1))
wrong 'learning_rate = 1' P4D001 "wrong.toml:$line: unknown key learning_rate: p4d-train has lr"
wrong '\nresident = 1' P4D001 "wrong.toml:$((line + 1)): unknown key resident; nearest: resident-layers"
wrong 'warmup = "many"' P4D005 "wrong.toml:$line: warmup=many: not a whole number"
wrong 'warmup = 1.5' P4D005 "wrong.toml:$line: warmup=1.5: not a whole number"
wrong 'schedule = "fast"' P4D005 "wrong.toml:$line: schedule=fast: "
wrong 'warmup = [1]' P4D005 "wrong.toml:$line: warmup: expected one value"
wrong 'eval-only = 1' P4D005 "wrong.toml:$line: eval-only: expected true or false"
wrong 'valid-data = ["a"]' P4D001 "valid-data is given twice"
wrong 'nodes = 2' P4D001 "wrong.toml:$line: p4d-train has no option nodes"
wrong 'config = "other.toml"' P4D001 "wrong.toml:$line: config is only for the command line"
wrong '[training]' P4D001 "wrong.toml:$line: [training] is a table"
wrong 'keep = 3' P4D001 "--keep has no effect without --checkpoint"
wrong 'warmup = ' P4D001 "--config wrong.toml: line $line: "
refused P4D003 p4d-train --config nosuch.toml
says "nosuch.toml: cannot be read"

# without a plan, p4d-train takes the mean length of documents from the data, unless the workspace for them does not fit
yes 'thirty-one letters make a line.' | head -n 500 >lines.txt
exits 0 p4d data --split-lines -o lines lines.txt
packs() # MICRO-BATCH OPTION...
{
	micro=$1
	shift
	exits 0 p4d-train --print-config --steps 1 --device cuda --gpu h100-80gb --data lines --sequences packed --model custom --layers 11 \
		--hidden 2048 --ffn 4096 --heads 32 --kv-heads 8 --head-dim 64 --vocab 257 --norm rmsnorm --glu on --positions rope --bias none \
		--qk-norm off --tied off --seq-len 4096 --max-seq-len 4096 --recompute none --global-batch "$micro" --micro-batch "$micro" "$@"
}
length_is() { [ "$(echo "$out" | sed -n 's/^document-len = \([0-9]*\)  *# /\1 /p')" = "$1" ] || fail "document-len is not $1"; }
packs 40
length_is '32 chosen by p4d'
packs 42
length_is ''
packs 42 --document-len 32
length_is '32 typed'
