#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
# p4d simulate: what it says of a schedule, and the pictures of simulate and estimate.
. "${0%/*}/lib.sh"

# well_formed FILE: one XML document; the checks of xmllint where it is installed
well_formed()
{
	[ -s "$1" ] || fail "$1 is missing or empty"
	case $(head -c 4 "$1") in '<svg') ;; *) fail "$1 is no SVG" ;; esac
	[ "$(tail -n 1 "$1")" = "</svg>" ] || fail "$1 is cut off"
	for element in svg style text title desc; do
		open=$(grep -o "<${element}[ >]" "$1" | wc -l) close=$(grep -o "</$element>" "$1" | wc -l)
		[ "$open" = "$close" ] || fail "$1: $open <$element> and $close </$element>"
	done
	if grep -qi 'nan\|[" MHVh]-\?inf' "$1"; then fail "$1 has a number that is none"; fi
	if command -v xmllint >/dev/null; then
		xmllint --noout "$1" 2>"$work/xml" || fail "$1: $(head -n 3 "$work/xml")"
	fi
}

# value KEY: of the last JSON printed, first occurrence
value() { printf '%s\n' "$out" | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" | head -n 1; }

# without a GPU times are in passes, and bubbles are those of the papers: (p-1)/(m+p-1), over v with v chunks
exits 0 p4d simulate --model llama3-8b --pp 4 --global-batch 8
silent
prints "Bubble: 27.3 %, step time 33.0 passes" "no GPU given"
exits 0 p4d simulate --model llama3-8b --pp 4 --vpp 2 --global-batch 8
prints "Bubble: 15.8 %, step time 57.0 passes" "2 chunks per stage"
exits 0 p4d simulate --model llama3-8b --pp 4 --schedule gpipe --global-batch 8
prints "Bubble: 27.3 %"
[ "$(printf '%s\n' "$out" | grep -c '^[0-9-]* .* 16  *8 ')" = 3 ] || fail "gpipe keeps all eight micro-batches on 3 kinds of stages"
exits 0 p4d simulate --model llama3-8b
prints "Bubble: 0.0 %"

# zb1p: every stage holds as many micro-batches as there are stages
exits 0 p4d simulate --model llama3-8b --pp 4 --schedule zb1p --global-batch 8
[ "$(printf '%s\n' "$out" | grep -c '^[0-9-]* .* 24  *4 ')" = 3 ] || fail "zb1p keeps four micro-batches on 3 kinds of stages"
# vocabulary parallelism has slots of its own
exits 0 p4d simulate --model llama3-8b --pp 4 --vocab-parallel vocab-1 --global-batch 8
prints "vocab slots"
# token slices: the bubble of four times as many micro-batches, slots of slices; equal ones without a GPU
exits 0 p4d simulate --model llama3-8b --pp 4 --global-batch 8 --token-slices 4
prints "Bubble: 8.6 %"
prints "1f1b of slices of 2048,2048,2048,2048 tokens"
prints "In flight: slices of micro-batches whose activations the stage stores, 4 slices per micro-batch"
[ "$(printf '%s\n' "$out" | sed -n 's/^[0-3] *8 *64 *\([0-9]*\) .*/\1/p' | tr '\n' ' ')" = "7 6 5 4 " ] || fail "slices in flight"
exits 0 p4d simulate --model llama3-8b --pp 4 --global-batch 8 --token-slices 4 --schedule gpipe --svg slices.svg
prints "Bubble: 8.6 %"
well_formed slices.svg
grep -q 'gpipe of 4 slices' slices.svg || fail "the picture does not say slices"
# what README shows: later slices are shorter; less idle, less memory
long="p4d simulate --model llama3-70b --framework p4d --gpu h100 --nodes 8 --tp 8 --pp 8 --global-batch 8"
exits 0 $long --seq-len 32k
prints "Bubble: 48.2 %, step time 9.96"
prints " 80.68 "
exits 0 $long --seq-len 32k --token-slices 4
prints "Bubble: 21.9 %, step time 7.45"
prints "1f1b of slices of 10240,8448,7424,6656 tokens"
prints " 47.99 "
exits 0 $long --seq-len 128k --token-slices 8 --json
prints '"token_slices":8'
case "$(value bubble_fraction)" in 0.13*) ;; *) fail "bubble $(value bubble_fraction)" ;; esac
exits 5 p4d simulate --model llama3-8b --pp 2 --cp 2 --token-slices 4
says "token-slices=4 cannot be combined with cp=2"
says "fix: --cp=1"

# JSON: in flight 4, 3, 2, 1; busy and bubble agree
exits 0 p4d simulate --model llama3-8b --pp 4 --global-batch 8 --json
[ "$(value unit)" = passes ] || fail "unit is $(value unit)"
[ "$(printf '%s\n' "$out" | sed -n 's/.*"activation":\([0-9]*\).*/\1/p' | tr '\n' ' ')" = "4 3 2 1 " ] || fail "in flight"
[ "$(value step)" = null ] || fail "a step time without a GPU"
exits 0 p4d simulate --model llama3-70b --gpu h100 --nodes 8 --tp 4 --pp 8 --json
[ "$(value unit)" = seconds ] || fail "unit is $(value unit)"
prints '"tokens_per_second_per_gpu"'

# pictures: small, large, unequal, without a GPU
exits 0 p4d simulate --model llama3-70b --gpu h100 --nodes 2 --tp 4 --pp 4 --global-batch 8 --svg small.svg
well_formed small.svg
grep -q 'llama3-70b' small.svg || fail "the picture does not name the model"
grep -q 'prefers-color-scheme:dark' small.svg || fail "no dark variant"
grep -q '<tspan [^>]*>7</tspan>' small.svg || fail "no numbers of micro-batches"
exits 0 p4d simulate --model llama3.1-405b --layers 128 --gpu h100 --nodes 16 --tp 8 --pp 16 --vpp 2 --global-batch 128 \
	--svg large.svg
well_formed large.svg
grep -q 'more in the same pattern' large.svg || fail "a large step is not broken"
exits 0 p4d simulate --model llama3-8b --pp 32 --global-batch 32768 --schedule zb1p --svg long.svg
well_formed long.svg
exits 0 p4d simulate --model custom --layers 512 --hidden 512 --ffn 2048 --heads 8 --vocab 1000 --seq-len 128 --pp 256 \
	--gpus-per-node 8 --global-batch 512 --svg deep.svg
well_formed deep.svg
for picture in small large long deep; do
	[ "$(wc -c <$picture.svg)" -lt 1000000 ] || fail "$picture.svg is large"
done
exits 0 p4d simulate --model llama3-8b --pp 4 --schedule v-half --vocab-parallel vocab-2 --global-batch 8 --svg v.svg
well_formed v.svg
grep -q 'vocabulary S' v.svg || fail "no vocabulary passes in the legend"
run p4d estimate --model llama3-70b --gpu h100 --nodes 8 --tp 4 --pp 8 --svg bars.svg
well_formed bars.svg
grep -q 'limit 97 %' bars.svg || fail "no limit"
exits 0 p4d estimate --model llama2-13b --tp 8 --svg open.svg
well_formed open.svg
exits 12 p4d estimate --model llama2-70b --gpu h100 --tp 8 --json --svg over.svg
well_formed over.svg

# a model's name with everything XML dislikes
mkdir 'a<b>&"c'
cat >'a<b>&"c/config.json' <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
 "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 512}
JSON
exits 0 p4d simulate --model './a<b>&"c' --pp 2 --svg odd.svg
well_formed odd.svg
grep -q 'a&lt;b&gt;&amp;' odd.svg || fail "the name is not escaped"
exits 0 p4d estimate --model './a<b>&"c' --svg odd.svg
well_formed odd.svg

# files that cannot be written: a message, no table
for command in "simulate --pp 2" estimate; do
	for file in nosuch/x.svg . /dev/full; do
		refused P4D003 p4d $command --model llama3-8b --svg $file
		says "$file"
		[ -z "$out" ] || fail "output in spite of the error"
	done
	exits 5 p4d $command --model llama3-8b --svg ''
	refused P4D001 p4d $command --model llama3-8b --svg a.svg --svg b.svg
	says "--svg"
done
exits 3 p4d simulate --model llama3-8b --svg nosuch/x.svg --json
prints '"verdict":"error"'
refused P4D001 p4d plan --model llama3-8b --gpu h100 --svg x.svg
says "--svg"

exits 1 p4d simulate --model llama3-8b --method paper
says "describes one stage"
exits 5 p4d simulate --model llama3-8b --pp 32 --global-batch 16777216
says "micro-batches" "--global-batch="
