#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LoRA and QLoRA beside the weights of a released model: the same losses in every layout, adapters alone in checkpoints, which go
# on in any layout, and what is exported, merged or alone, is what was trained.
. "${0%/*}/lib.sh"
released=$P4D_TEST_SRCDIR/tests/data/released
parity=$P4D_TEST_SRCDIR/tests/data/parity
by_hand

exits 0 p4d data --tokenizer ids --vocab 40 -o ids "$released/ids.jsonl"
run="--data ids --device cpu --global-batch 1 --seq-len 32"
lora="--lora-rank 3 --lora-alpha 6 --lr 0.02 --warmup 0"
method=lora
# tune OPTION...: with adapters
# shellcheck disable=SC2086 # lists of words
tune() { p4d-train $run $lora --finetune $method "$@"; }
# losses LOG, of all steps
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1"; }
# alike LIMIT LOG LOG
alike() {
	losses "$2" >left
	losses "$3" >right
	paste left right | awk -v limit="$1" '{ off = $1 / $2 - 1; if (off * off > limit * limit) bad = 1; n++ } END { exit bad || !n }' ||
		fail "other losses: $(paste left right)"
}

all=q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj
# modules: PEFT's names in adapter_config.json
while read -r method from modules layouts; do
	model=${from##*/}
	[ "${from%/*}" = released ] && from=$released/$model || from=$parity/$model
	rm -rf one halves merged adapter one.json halves.json base.json
	# shellcheck disable=SC2086
	exits 0 p4d-train $run --init-from "$from" --steps 1 --lr 0 --log base.json
	want=$(losses base.json)
	exits 0 tune --init-from "$from" --steps 4 --checkpoint one --log one.json
	# quantized, the model is another one, but not by much
	losses one.json | awk -v want="$want" -v method="$method" '
		NR == 1 { first = $1; off = ($1 / want - 1) ^ 2; begins = method == "lora" ? off < 4e-12 : off > 1e-10 && off < 1e-3 }
		END { exit !(begins && $1 < first - 0.05) }' ||
		fail "$model does not begin with $want, or learns nothing: $(losses one.json)"
	echo "$layouts" | tr '/' '\n' >list
	while read -r layout; do
		rm -f other.json
		# shellcheck disable=SC2086
		exits 0 tune $layout --init-from "$from" --steps 4 --log other.json
		alike 1e-6 one.json other.json
	done <list
	# in two parts, of two layouts
	exits 0 tune --local-ranks 2 --cp 2 --init-from "$from" --steps 4 \
		--checkpoint halves --save-every 2 --log halves.json
	rm -rf halves/step-00000004
	exits 0 tune --local-ranks 2 --pp 2 --init-from "$from" --steps 4 --checkpoint halves --log halves.json
	losses halves.json | sed '3,4d' >left
	losses one.json | paste left - | awk '{ off = $1 / $2 - 1; if (off * off > 1e-12) bad = 1 } END { exit bad || NR != 4 }' ||
		fail "resumed, the losses are others: $(losses halves.json)"
	# adapters alone are stored
	[ "$(stat -c %s one/step-00000004/rank-00000.safetensors)" -lt 60000 ] || fail "more than adapters is stored"
	# merged: a model with the loss that the adapters had
	exits 0 p4d export --fp32 one merged
	prints "merged: weights of one/step-00000004 in fp32"
	# and what comes next is the same
	next="--sample 7wg,32_ww --sample-tokens 10 --tokenizer $released/tokenizer.json --temperature 1"
	# shellcheck disable=SC2086
	exits 0 p4d-train --init-from merged --seq-len 32 $next
	merged=$out
	# shellcheck disable=SC2086
	exits 0 p4d-train --checkpoint one $next
	[ "$out" = "$merged" ] || fail "$model: $out instead of $merged"
	# shellcheck disable=SC2086
	exits 0 p4d-train --init-from "$from" --seq-len 32 $next
	[ "$out" != "$merged" ] || fail "$model: adapters say nothing"
	rm -f step5.json merged.json
	exits 0 tune --init-from "$from" --steps 5 --checkpoint one --log step5.json
	# shellcheck disable=SC2086
	exits 0 p4d-train $run --init-from merged --steps 1 --lr 0 --log merged.json
	alike 1e-6 merged.json step5.json
	# alone, as PEFT names them
	exits 0 p4d export --fp32 --form adapter one/step-00000004 adapter
	prints "adapter: adapters of one/step-00000004 in fp32"
	for word in '"peft_type":"LORA"' '"r":3' '"lora_alpha":6.0'; do
		grep -q "$word" adapter/adapter_config.json || fail "no $word: $(cat adapter/adapter_config.json)"
	done
	tr -d ' \n' <adapter/adapter_config.json | grep -q "\"target_modules\":\[\"$(echo "$modules" | sed 's/,/","/g')\"\]" ||
		fail "other modules: $(cat adapter/adapter_config.json)"
	gpt2=false && [ "$model" = gpt2 ] && gpt2=true # whose matrices the library has transposed
	grep -q "\"fan_in_fan_out\":$gpt2" adapter/adapter_config.json || fail "no fan_in_fan_out"
	for name in $(echo "$modules" | tr ',' ' '); do
		for half in A B; do
			grep -aq "\"base_model.model.[a-z.]*.1.[a-z_.]*$name.lora_$half.weight\"" adapter/adapter_model.safetensors ||
				fail "no $name.lora_$half"
		done
	done
	# the guard reads it as well
	exits 0 p4d estimate --model "$PWD/adapter/adapter_config.json" --framework p4d --device cpu --nodes 1 --gpus-per-node 1
done <<END
lora released/llama $all --local-ranks 2 --pp 2/--local-ranks 2 --cp 2/--local-ranks 2 --pp 2 --vocab-parallel vocab-1
qlora released/llama $all --local-ranks 2 --pp 2/--recompute full --offload optimizer/--local-ranks 2 --pp 2 --schedule zb1p
lora released/qwen3 $all --local-ranks 4 --cp 2 --pp 2/--local-ranks 2 --pp 2 --schedule zb1p --recompute mlp
lora parity/gemma2 $all --local-ranks 2 --tp 2/--local-ranks 4 --tp 2 --cp 2/--local-ranks 2 --pp 2 --vocab-parallel vocab-1
qlora parity/phi3 qkv_proj,o_proj,gate_up_proj,down_proj --local-ranks 2 --pp 2
qlora parity/gpt2 attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj --local-ranks 2 --cp 2
lora parity/gpt2 attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj --local-ranks 2 --tp 2/--local-ranks 4 --tp 2 --pp 2 --vocab-parallel vocab-2/--local-ranks 2 --cp 2 --recompute full
END

# dropout: other losses, which every layout and a run in two parts have
method=lora
rm -rf one.json other.json halves.json halves
exits 0 tune --init-from "$released/qwen3" --steps 4 --log other.json
exits 0 tune --init-from "$released/qwen3" --steps 4 --lora-dropout 0.3 --log one.json
[ "$(losses one.json | tail -n 1)" != "$(losses other.json | tail -n 1)" ] || fail "nothing is dropped"
while read -r layout; do
	rm -f other.json
	# shellcheck disable=SC2086
	exits 0 tune $layout --init-from "$released/qwen3" --steps 4 --lora-dropout 0.3 --log other.json
	alike 1e-6 one.json other.json
done <<END
--local-ranks 4 --cp 2 --pp 2 --recompute full
--local-ranks 2 --pp 2 --schedule zb1p --recompute mlp
END
exits 0 tune --init-from "$released/qwen3" --steps 4 --lora-dropout 0.3 --checkpoint halves --save-every 2 --log halves.json
rm -rf halves/step-00000004
exits 0 tune --init-from "$released/qwen3" --steps 4 --lora-dropout 0.3 --checkpoint halves --log halves.json
[ "$(losses halves.json | tail -n 1)" = "$(losses one.json | tail -n 1)" ] || fail "resumed, other numbers are dropped: $(losses halves.json)"
refused P4D005 tune --init-from "$released/qwen3" --steps 1 --lora-dropout 1
says "--lora-dropout=1: not a number from 0 to 0.999"
# shellcheck disable=SC2086
refused P4D005 p4d-train $run --init-from "$released/qwen3" --steps 1 --lora-dropout 0.1
says "lora-dropout has no effect without finetune=lora or qlora"

# what has no effect, or does not go together
llama="--init-from $released/llama --steps 1"
# shellcheck disable=SC2086
refused P4D001 tune --steps 1 --model "$released/llama"
says "finetune=lora trains adapters" "--init-from is missing"
method=qlora
while read -r layout fix; do
	# shellcheck disable=SC2046 # a list of words
	refused P4D009 tune --init-from "$parity/llama" --steps 1 $(echo "$layout" | tr ',' ' ')
	says "finetune=qlora: " "fix: $fix"
done <<END
--local-ranks,2,--tp,2 --tp=1
--offload,params --offload=none
--local-ranks,2,--cp,2,--optimizer-sharding,parameters --optimizer-sharding=gradients
END
exits 0 tune --init-from "$released/llama" --steps 1 --checkpoint four-bits
method=lora
refused P4D052 tune --init-from "$released/llama" --steps 2 --checkpoint four-bits
says "the checkpoint is of a run with --finetune=qlora, but this run has --finetune=lora"
# shellcheck disable=SC2086
refused P4D001 p4d-train $run $llama --lora-alpha 4
says "--lora-alpha has no effect without finetune=lora or qlora" "fix: --finetune=lora"
# shellcheck disable=SC2086
refused P4D005 p4d-train $run $llama --lora-rank 4
says "lora-rank has no effect without finetune=lora"
# shellcheck disable=SC2086
refused P4D005 tune $llama --lora-targets c_attn
says "lora-targets: no linear layer is named 'c_attn'"
refused P4D005 tune --init-from "$parity/gpt2" --steps 1 --lora-targets q_proj
says "lora-targets: no linear layer is named 'q_proj'"
exits 0 tune --init-from "$parity/gpt2" --steps 1 --lora-targets c_attn,mlp.c_proj --checkpoint some
exits 0 p4d export --form adapter some some.adapter
tr -d ' \n' <some.adapter/adapter_config.json | grep -q '"target_modules":\["attn.c_attn","mlp.c_proj"\]' || fail "other modules: $(cat some.adapter/*.json)"
# shellcheck disable=SC2086
refused P4D001 tune $llama --adapter-dtype bf16
says "p4d-train has no option --adapter-dtype"
rm -rf one whole
# shellcheck disable=SC2086
exits 0 tune $llama --checkpoint one
# shellcheck disable=SC2086
refused P4D052 tune --init-from "$released/llama" --steps 2 --checkpoint one --lora-alpha 7
says "the checkpoint was trained with --lora-alpha=6, not 7" "fix: --lora-alpha=6"
refused P4D052 tune --init-from "$released/llama" --steps 2 --checkpoint one --lora-alpha 6.0000001
says "the checkpoint was trained with --lora-alpha=6, not 6.0000001"
# shellcheck disable=SC2086
refused P4D052 p4d-train $run --finetune lora --lora-rank 4 --init-from "$released/llama" --steps 2 --checkpoint one
says "the checkpoint is of another model: lora-rank is 3, expected 4"
# shellcheck disable=SC2086
refused P4D052 p4d-train $run --init-from "$released/llama" --steps 2 --checkpoint one
says "the checkpoint is of a run with --finetune=lora, but this run has --finetune=full"
cp -r "$released/llama" own
printf '\377' | dd of=own/model.safetensors bs=1 seek=$(($(stat -c %s own/model.safetensors) - 5)) conv=notrunc 2>dd.log
# shellcheck disable=SC2086
refused P4D052 tune --init-from own --steps 2 --checkpoint one
says "adapters were trained with other weights"
