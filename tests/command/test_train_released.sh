#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Weights of released models: a run starts with them and has the loss that transformers computes
# (tests/parity/make_released.py), and its export has the same bits, whatever the layout.
. "${0%/*}/lib.sh"
released=$P4D_TEST_SRCDIR/tests/data/released
by_hand

exits 0 p4d data --tokenizer ids --vocab 40 -o ids "$released/ids.jsonl"
run="--data ids --device cpu --global-batch 1 --seq-len 32 --steps 1"
# still OPTION...: a step that changes nothing
# shellcheck disable=SC2086 # a list of words
still() { p4d-train $run --lr 0 "$@"; }
# last_loss LOG, to which runs append
last_loss() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1" | tail -n 1; }
# tail_of FILE BYTES: the data of its tensors, after the header
tail_of() { tail -c "$2" "$1" >"$1.data"; }
# data_of FILE: the same, of as many bytes as there are
data_of() { tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1"; }

# model, bytes of its weights in bf16, another layout
while read -r model bytes layout; do
	want=$(sed -n "s/^$model //p" "$released/losses")
	rm -rf one several one.hf several.hf again again.hf
	exits 0 still --init-from "$released/$model" --checkpoint one --log one.json
	# shellcheck disable=SC2086
	exits 0 still --init-from "$released/$model" $layout --checkpoint several --log several.json
	for log in one.json several.json; do
		last_loss $log | awk -v want="$want" '
			{ off = $1 / want - 1; exit !(off * off < 4e-12) }' || fail "$model has another loss than $want: $(cat $log)"
	done
	exits 0 p4d export one one.hf
	prints "one.hf: weights of one/step-00000001 in bf16"
	exits 0 p4d export --bf16 several/step-00000001 several.hf
	cmp -s one.hf/model.safetensors several.hf/model.safetensors || fail "$model: layouts export other weights"
	cp "$released/$model/model.safetensors" .
	tail_of model.safetensors "$bytes"
	tail_of one.hf/model.safetensors "$bytes"
	cmp -s model.safetensors.data one.hf/model.safetensors.data || fail "$model: other weights than it began with"
	# also all 32 bits, and the model is that of the export
	rm -rf one.hf
	# shellcheck disable=SC2086
	exits 0 p4d-train $run --steps 3 --lr 1e-3 --init-from "$released/$model" --checkpoint trained
	exits 0 p4d export trained one.hf --fp32
	exits 0 still --init-from one.hf --checkpoint again --save-every 1
	exits 0 p4d export again again.hf --fp32
	cmp -s one.hf/model.safetensors again.hf/model.safetensors || fail "$model: weights of 32 bits do not come back"
	cmp -s one.hf/config.json again.hf/config.json || fail "$model: another configuration"
	grep -q '"bos_token_id": *null' one.hf/config.json && grep -q '"eos_token_id": *null' one.hf/config.json ||
		fail "$model: the library would take tokens 1 and 2 for its ends"
	tail_of one.hf/model.safetensors "$bytes"
	cmp -s one.hf/model.safetensors.data model.safetensors.data && fail "$model: it learnt nothing"
	rm -rf trained
done <<END
llama 10400 --local-ranks 2 --pp 2
qwen3 9184 --local-ranks 4 --cp 2 --pp 2
END

# a configuration with fewer layers than the files: said, with the number of tensors; nothing of a whole model is
layers=$(sed -n 's/.*"num_hidden_layers": *\([0-9]*\).*/\1/p' "$released/llama/config.json")
cp -r "$released/llama" cut
sed "s/\"num_hidden_layers\": *$layers/\"num_hidden_layers\": $((layers - 1))/" "$released/llama/config.json" >cut/config.json
exits 0 still --init-from cut --log cut.json
says "its files have 9 tensors that the model of its config.json does not have (model.layers.$((layers - 1)).input_layernorm.weight, "
exits 0 still --init-from "$released/llama" --local-ranks 2 --pp 2 --log cut.json
silent

# a checkpoint goes before
exits 0 still --init-from "$released/qwen3" --checkpoint one --log more.json
says "--steps=1: the checkpoint is already of step 1, so there is nothing to train"
grep -q '"resumed_step":1[,}]' more.json || fail "it began again"
# in the hub's cache
mkdir -p hub/models--some--model/snapshots/abc hub/models--some--model/refs
cp "$released"/qwen3/* hub/models--some--model/snapshots/abc
printf abc >hub/models--some--model/refs/main
exits 0 env HF_HUB_CACHE="$PWD/hub" p4d-train $run --lr 0 --init-from some/model --log hub.json
[ "$(last_loss hub.json)" = "$(last_loss one.json)" ] ||
	fail "the cache has other weights"

# every architecture, sharded and exported, says what transformers does: logits of 24 tokens (tests/parity/make_parity.py)
parity=$P4D_TEST_SRCDIR/tests/data/parity
# numbers FILE: of an .npy file with a header of 128 bytes, one a line
numbers() { tail -c +129 "$1" | od -An -v -tf4 -w4; }
count=0
for model in "$parity"/*/; do
	name=$(basename "$model")
	rm -rf sharded sharded.hf
	exits 0 p4d-train --data ids --device cpu --global-batch 1 --seq-len 32 --steps 1 --lr 0 --init-from "$model" --local-ranks 2 --tp 2 \
		--checkpoint sharded
	exits 0 p4d export sharded sharded.hf
	# GPT-2's tensors are in another order
	data_of "$model/model.safetensors" >model.data
	[ "$name" = gpt2 ] || data_of sharded.hf/model.safetensors | cmp -s model.data - || fail "$name: other weights"
	exits 0 p4d-train --init-from sharded.hf --seq-len 32 --tokenizer "$released/tokenizer.json" --sample-tokens 1 \
		--sample "$(cat "$parity/text")" --logits logits.npy
	numbers "$model/truth/logits.npy" >wanted
	numbers logits.npy | paste wanted - | awk '
		{ off += ($1 - $2) ^ 2; all += $1 ^ 2 } END { exit !(NR == 960 && off < 4e-12 * all) }' || fail "$name: other logits"
	count=$((count + 1))
done
[ $count -ge 6 ] || fail "only $count architectures"
head -c 128 logits.npy | grep -aq "{'descr': '<f4', 'fortran_order': False, 'shape': (24, 40), }" || fail "no header of NumPy"
refused P4D001 still --init-from "$released/llama" --logits logits.npy
says "--logits has no effect without --sample"

# what the library says comes next, six times, behind texts of 1 to 46 tokens; of a folder, and of a checkpoint
# next_of FROM: each text of the model continued
next_of()
{
	while read -r name text; do
		[ "$name" = "$model" ] || continue
		exits 0 p4d-train "$@" --sample "${text%??????}" --sample-tokens 6 --seq-len 64 --tokenizer "$released/tokenizer.json"
		[ "$out" = "$text" ] || fail "$model: $out instead of $text"
		count=$((count + 1))
	done <"$released/texts"
}
count=0
for model in llama qwen3; do
	next_of --init-from "$released/$model"
	rm -rf sampled
	exits 0 still --init-from "$released/$model" --checkpoint sampled
	next_of --checkpoint sampled
done
[ $count = 64 ] || fail "only $count texts"
exits 5 p4d-train --init-from "$released/llama" --sample once
says "p4d-train does not know the tokenizer of this model, which has 40 tokens" "fix: --tokenizer FILE"
exits 5 p4d-train --init-from "$released/llama" --sample once --tokenizer bytes
says "the tokenizer bytes has 257 tokens, but the model has 40" "fix: --tokenizer FILE"
exits 5 p4d-train --init-from "$released/llama" --sample once --tokenizer "$released/tokenizer.json" --seq-len 3
says "the text has more than the 3 tokens of --seq-len"
refused P4D001 p4d-train --init-from "$released/llama" --sample once --steps 4
says "--sample ends without training: leave out --steps"
refused P4D001 p4d-train --init-from "$released/llama" --sample once --lr 0.1
says "--sample ends without training: leave out --lr"
refused P4D001 p4d-train --init-from "$released/llama" --sample once --pp 2
says "--pp has no effect with --sample"
refused P4D001 p4d-train --sample once
says "--sample needs --checkpoint"
refused P4D052 p4d-train --sample once --checkpoint nowhere
says "nowhere: no checkpoint found"
for option in "temperature 1" "top-p 0.5" "sample-tokens 3" "tokenizer bytes"; do
	# shellcheck disable=SC2086 # an option and its value
	refused P4D001 still --init-from "$released/llama" --${option}
	says "--${option% *} has no effect without --sample"
done

# missing files, with a model's sizes and without
refused P4D052 still --init-from nosuch
says "--init-from nosuch: neither a directory nor a model in the hub's cache" "fix: hf download nosuch"
refused P4D052 still --init-from nosuch --model "$released/llama"
says "--init-from nosuch: neither a directory nor a model in the hub's cache"
# what does not go together
cp -r "$released/llama" own
refused P4D041 still --init-from own --model "$released/qwen3"
says "own has architecture=llama, but this run trains a model with qwen3"
sed -i 's/10000.0/20000.0/' own/config.json
refused P4D041 still --init-from own --model "$released/llama"
says "own has rope-theta=20000, but this run trains a model with 10000"
exits 0 still --init-from own --rope-theta 10000
sed -i 's/"hidden_act"/"sliding_window": 16, "use_sliding_window": true, &/; s/"LlamaFor/"MistralFor/; s/"llama"/"mistral"/' own/config.json
exits 0 still --init-from own
# models with windows and LayerNorm are planned for GPUs
for model in "$PWD/own" "$parity/gpt2"; do
	exits 0 p4d estimate --model "$model" --framework p4d --gpu h100 --nodes 1 --gpus-per-node 1 --seq-len 32
done
# fields that change the computation, with another value than p4d-train computes: refused by name, here and by the
# guard
while read -r name from to; do
	rm -rf other && cp -r "$parity/$name" other
	sed -i "s/$from/$to/" other/config.json
	cmp -s other/config.json "$parity/$name/config.json" && fail "$name has no $from"
	field=$(echo "$to" | cut -d'"' -f2)
	refused P4D009 still --init-from other
	says "p4d-train does not compute $field"
	refused P4D009 p4d estimate --model "$PWD/other" --framework p4d --device cpu --nodes 1 --gpus-per-node 1
	says "p4d-train does not compute $field"
done <<END
gpt2 "scale_attn_by_inverse_layer_idx":.false "scale_attn_by_inverse_layer_idx":true
gpt2 "scale_attn_weights":.true "scale_attn_weights":false
gpt2 "activation_function":."gelu_new" "activation_function":"gelu"
gemma2 "hidden_activation":."gelu_pytorch_tanh" "hidden_activation":"gelu"
gemma2 "attn_logit_softcapping":.50.0 "attn_logit_softcapping":null
gemma2 "final_logit_softcapping":.30.0 "final_logit_softcapping":20.0
granite "logits_scaling":.3.0 "logits_scaling":-3.0
phi3 "hidden_act" "partial_rotary_factor":0.75,"hidden_act"
END
# a factor is the model's, and another one gives another loss
for scalar in 8 9; do
	sed "s/\"query_pre_attn_scalar\": 8/\"query_pre_attn_scalar\": $scalar/" "$parity/gemma2/config.json" >other/config.json
	cp "$parity/gemma2/model.safetensors" other
	exits 0 still --init-from other --log $scalar.json
done
[ "$(last_loss 8.json)" != "$(last_loss 9.json)" ] || fail "query_pre_attn_scalar changes nothing"
rm -rf other && cp -r "$parity/qwen2" other
sed -i 's/"use_sliding_window": false/"use_sliding_window": true/; s/"sliding_window": null/"sliding_window": 7/' other/config.json
exits 0 still --init-from other # of no layer, as layer_types says
sed -i '0,/"full_attention"/s//"sliding_attention"/' other/config.json
refused P4D009 still --init-from other
says "p4d-train does not compute the window of 1 of 2 layers (layer_types)"
rm -rf other && cp -r "$parity/gemma3" other
sed -i 's/"rope_theta": 10000\.0/"rope_theta": 20000.0/' other/config.json
refused P4D009 still --init-from other
says "p4d-train does not compute a RoPE base of 20000 in layers with a window, only 10000"
# nor is a run resumed with another factor
rm -rf scaled
exits 0 still --init-from "$parity/granite" --checkpoint scaled
refused P4D052 p4d-train $run --model "$parity/granite" --residual-scale 0.3 --checkpoint scaled --lr 0
says "the checkpoint is of another model: residual-scale is 0.22, expected 0.3"
rm -rf other && cp -r "$parity/smollm3" other
sed -i '0,/^    1,/s//    0,/' other/config.json
refused P4D009 still --init-from other
says "p4d-train does not compute no_rope_layers with other layers than each 4th"
sed 's/"hidden_act"/"quantization_config": {"quant_method": "fp8"}, &/' own/config.json >config.json
mv own/config.json whole.json && mv config.json own/config.json
refused P4D009 still --init-from own
says "--init-from own: its weights are stored as fp8 (quantization_config)"
mv whole.json own/config.json
rm own/model.safetensors
refused P4D052 still --init-from own
says "contains neither model.safetensors.index.json nor model.safetensors"
