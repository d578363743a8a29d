#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page FINE-TUNING of p4d-train(1), as it stands there but for the sizes: a released model with its tokenizer, conversations,
# adapters, what is exported. The loss of the first step is that of transformers, with tokens and labels of its own chat template
# (tests/parity/make_released.py); all weights train, too, and layouts change nothing.
. "${0%/*}/lib.sh"
stored=$P4D_TEST_SRCDIR/tests/data
by_hand
cp -r "$stored/released/chat" mistral
gzip -dc "$stored/tokenizers/mistral.json.gz" >mistral/tokenizer.json
# the model's own template, with the answers marked
cat >mistral/chat_template.jinja <<'END'
{{- bos_token -}}
{%- set system = messages[0].content ~ '\n\n' if messages[0].role == 'system' else '' -%}
{%- for m in messages if m.role != 'system' -%}
    {%- if m.role == 'user' -%}{{- '[INST] ' ~ (system if loop.first) ~ m.content.strip() ~ '[/INST]' -}}
    {%- else -%}{{- ' ' }}{% generation %}{{ m.content.strip() ~ eos_token }}{% endgeneration -%}{%- endif -%}
{%- endfor -%}
END
[ -e mistral/tokenizer_config.json ] || echo '{"bos_token": "<s>", "eos_token": "</s>"}' >mistral/tokenizer_config.json
cp "$stored/released/conversations.jsonl" .
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1"; }
# near LIMIT ONE OTHER
near() { awk -v limit="$1" -v one="$2" -v other="$3" 'BEGIN { off = one / other - 1; exit !(off * off <= limit * limit) }'; }

awk '/^# / { on = /^# FINE-TUNING/ } on && /^```/ { block++ } on && block == 1 && !/^```/' "$P4D_TEST_SRCDIR/man/p4d-train.1.scd" |
	sed 's/\\\\$/\\/; /^hf /d; s/--seq-len 2048/--seq-len 128/; s/--global-batch 16/--global-batch 6/; s/--steps 400/--steps 3/
		s/--lr 2e-4/--lr 2e-2 --device cpu/' >page
[ "$(grep -c '^p4d' page)" = 5 ] || fail "the page has other commands: $(cat page)"
exits 0 sh -e ./page
prints "tokens/s" "memory, GiB" "log.jsonl "
# the numbers of tokens and of tokens to train on, as counted by transformers
read -r want count tokens <<END
$(sed -n 's/^chat //p' "$stored/released/losses")
END
for template in own mistral; do
	exits 0 p4d data --tokenizer mistral --chat $template -o chat conversations.jsonl
	prints "12 documents, $tokens tokens of a vocabulary of 1800 (uint16); loss on $count "
done
first=$(losses log.jsonl | head -n 1)
near 2e-6 "$first" "$want" || fail "the loss begins with $first, not with $want: $(cat log.jsonl)"
near 1e-2 "$(losses log.jsonl | tail -n 1)" "$first" && fail "it learns nothing: $(losses log.jsonl)"
grep -q '"packed_sequences":6,' log.jsonl || fail "a step is not all conversations: $(head -n 1 log.jsonl)"
for file in adapter/adapter_model.safetensors tuned/model.safetensors tuned/tokenizer.json; do
	[ -s $file ] || fail "$file is missing"
done

# the exported model has the loss of the model with adapters, to the 8 bits of bf16
run="--data chat --device cpu --seq-len 128 --global-batch 6"
# shellcheck disable=SC2086 # lists of words
{
	rm -f step4.json tuned.json
	exits 0 p4d-train $run --init-from mistral --finetune lora --lora-rank 16 --lora-alpha 32 --lr 0 --steps 4 --checkpoint run --log step4.json
	exits 0 p4d-train $run --init-from tuned --steps 1 --lr 0 --log tuned.json
	near 2e-3 "$(losses tuned.json)" "$(losses step4.json)" || fail "exported: $(losses tuned.json), trained: $(losses step4.json)"
	near 1e-6 "$(losses tuned.json)" "$want" && fail "what was exported is the model it began with"
	# all weights, in two layouts
	for layout in "--local-ranks 2 --tp 2" "--local-ranks 2 --pp 2"; do
		rm -f full.json
		exits 0 p4d-train $run $layout --init-from mistral --lr 2e-2 --steps 3 --log full.json
		[ -s first.json ] || cp full.json first.json
		for line in 1 2 3; do
			near 1e-6 "$(losses full.json | sed -n ${line}p)" "$(losses first.json | sed -n ${line}p)" || fail "$layout: $(losses full.json)"
		done
	done
}
near 2e-6 "$(losses first.json | head -n 1)" "$want" || fail "all weights: $(losses first.json)"
