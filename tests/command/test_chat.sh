#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d data --chat: writes conversations as the templates of released models do, with a mask of the tokens to train on.
# p4d-train packs them, trains on those tokens alone, and has the same loss in every layout.
. "${0%/*}/lib.sh"
by_hand

# shown PREFIX: prints the text, one document after another, with the tokens to train on in brackets, and newlines as /
shown()
{
	{
		od -An -v -tu1 -w1 -j16 "$1.mask"
		echo data
		od -An -v -tu2 -w2 "$1.bin"
	} | awk '
		/data/ { data = 1; next }
		!data { bits[n++] = $1; next }
		{
			now = int(bits[int(i / 8)] / 2 ^ (i % 8)) % 2
			if (now != on) printf on ? "]" : "["
			on = now
			printf "%s", $1 == 10 ? "/" : sprintf("%c", $1)
			i++
		}
		END { if (on) printf "]" }'
}
cat >chat.jsonl <<'END'
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi "}, {"role": "assistant", "content": " Hey!"}, {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "So long"}]}
{"messages": [{"content": "One", "role": "user"}, {"role": "assistant", "content": "Two"}]}
END

# the texts are those of the models' own templates (jinja2 with chat_template of each)
while IFS=' ' read -r name expected; do
	exits 0 p4d data --chat "$name" -o out chat.jsonl
	[ "$(shown out)" = "$expected" ] || fail "$name: $(shown out)"
done <<'END'
chatml <|im_start|>system/Be brief.<|im_end|>/<|im_start|>user/Hi <|im_end|>/<|im_start|>assistant/[ Hey!<|im_end|>]/<|im_start|>user/Bye<|im_end|>/<|im_start|>assistant/[So long<|im_end|>]/<|im_start|>user/One<|im_end|>/<|im_start|>assistant/[Two<|im_end|>]/
qwen2.5 <|im_start|>system/Be brief.<|im_end|>/<|im_start|>user/Hi <|im_end|>/<|im_start|>assistant/[ Hey!<|im_end|>]/<|im_start|>user/Bye<|im_end|>/<|im_start|>assistant/[So long<|im_end|>]/<|im_start|>system/You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>/<|im_start|>user/One<|im_end|>/<|im_start|>assistant/[Two<|im_end|>]/
llama-3 <|begin_of_text|><|start_header_id|>system<|end_header_id|>//Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>//Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>//[Hey!<|eot_id|>]<|start_header_id|>user<|end_header_id|>//Bye<|eot_id|><|start_header_id|>assistant<|end_header_id|>//[So long<|eot_id|>]<|begin_of_text|><|start_header_id|>user<|end_header_id|>//One<|eot_id|><|start_header_id|>assistant<|end_header_id|>//[Two<|eot_id|>]
llama-2 <s>[INST] <<SYS>>/Be brief./<</SYS>>//Hi [/INST] [Hey! </s>]<s>[INST] Bye [/INST] [So long </s>]<s>[INST] One [/INST] [Two </s>]
mistral <s>[INST] Be brief.//Hi[/INST] [Hey!</s>][INST] Bye[/INST] [So long</s>]<s>[INST] One[/INST] [Two</s>]
gemma <bos><start_of_turn>user/Be brief.//Hi<end_of_turn>/<start_of_turn>model/[Hey!<end_of_turn>]/<start_of_turn>user/Bye<end_of_turn>/<start_of_turn>model/[So long<end_of_turn>]/<bos><start_of_turn>user/One<end_of_turn>/<start_of_turn>model/[Two<end_of_turn>]/
zephyr <|system|>/Be brief.</s>/<|user|>/Hi </s>/<|assistant|>/[ Hey!</s>]/<|user|>/Bye</s>/<|assistant|>/[So long</s>]/<|user|>/One</s>/<|assistant|>/[Two</s>]/
END
exits 0 p4d data --chat mistral --json -o out chat.jsonl
prints '"trained":26' '"documents":2'
exits 0 p4d data --chat mistral -o out chat.jsonl
prints "2 documents, " "; loss on 26 (out.mask)"
sed 's/messages/turns/' chat.jsonl >turns.jsonl
exits 0 p4d data --chat zephyr --field turns -o turns turns.jsonl

# other formats of conversations: ShareGPT, and a prompt with its completion
exits 0 p4d data --chat chatml -o messages chat.jsonl
cat >sharegpt.jsonl <<'END'
{"conversations": [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "Hi "}, {"from": "gpt", "value": " Hey!"}, {"from": "human", "value": "Bye"}, {"from": "gpt", "value": "So long"}]}
{"prompt": "One", "completion": "Two"}
END
sed 's/"prompt": \("One"\), "completion": \("Two"\)/"prompt": [{"role": "user", "content": \1}], "completion": [{"role": "assistant", "content": \2}]/' sharegpt.jsonl >lists.jsonl
for file in sharegpt lists; do
	exits 0 p4d data --chat chatml -o others $file.jsonl
	cmp messages.bin others.bin && cmp messages.mask others.mask || fail "$file: $(shown others)"
done
exits 4 p4d data --chat chatml --field turns -o others sharegpt.jsonl
says "sharegpt.jsonl:1: has no list of messages in its field turns"
echo '{"prompt": "One"}' >half.jsonl
exits 4 p4d data --chat chatml -o others half.jsonl
says "half.jsonl:1: has no messages, no conversations, and no prompt with a completion"

# names of tokens become these, in the tokenizers that have them; where they have not, nothing is written
if gzip -dc "$P4D_TEST_SRCDIR/tests/data/tokenizers/qwen2.json.gz" | sed 's/<|endoftext|>/<|im_end|>/g' >qwen2.json &&
	p4d data --tokenizer qwen2.json --end-token none -o named chat.jsonl >named.out 2>&1; then
	exits 0 p4d data --tokenizer qwen2.json --chat chatml -o named chat.jsonl
	# 1: <|im_start|>, 0: <|im_end|>; of 5 and 2 turns
	od -An -v -tu2 -w2 named.bin | awk '$1 == 1 { begins++ } $1 == 0 { ends++ } END { exit !(begins == 7 && ends == 7) }' ||
		fail "turns: $(od -An -v -w1000 -tu2 named.bin)"
	# time is linear in the turns: these took more than 15 s of a core when each turn was encoded with all before it
	awk 'BEGIN { printf "{\"messages\": ["
		for (i = 0; i < 8000; i++)
			printf "%s{\"role\": \"%s\", \"content\": \"turn %d of a long talk\"}", i ? ", " : "", i % 2 ? "assistant" : "user", i
		print "]}" }' >long.jsonl
	# shellcheck disable=SC3045 # every sh of Debian has it
	(ulimit -t 15 && exec p4d data --tokenizer qwen2.json --chat chatml -o long long.jsonl) >long.out 2>&1 || fail "8,000 turns: $(cat long.out)"
	grep -q '^long.bin: 1 document' long.out || fail "8,000 turns: $(cat long.out)"
	exits 5 p4d data --tokenizer qwen2.json --chat llama-3 -o other chat.jsonl
	says "--chat=llama-3: the tokenizer has no token <|begin_of_text|>"
	[ ! -e other.bin ] || fail "it wrote other.bin"
fi

# what is refused, and at which place of the input
exits 5 p4d data --chat alpaca -o bad chat.jsonl
says "--chat=alpaca: p4d has no such template; give one of chatml, qwen2.5, llama-3, llama-2, mistral, gemma, zephyr"
refuses() # MESSAGES TEXT
{
	printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n{"messages": %s}\n' "$1" >bad.jsonl
	exits 5 p4d data --chat gemma -o bad bad.jsonl
	says "bad.jsonl:2: $2"
	left=$(find . -name 'bad.*' ! -name bad.jsonl)
	[ -z "$left" ] || fail "left behind: $left"
}
refuses '[{"role": "user", "content": "a"}]' "no message has the role assistant, so there is nothing to train on"
refuses '[]' "no message has the role assistant"
refuses '[{"role": "user"}]' "message 1 is not an object with role and content"
refuses '["a"]' "message 1 is not an object with role and content"
refuses '[{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]' 'message 2 has the role "tool", expected system, user or assistant'
refuses '[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]' "message 2 has the role system, which only the first message can have"
refuses '[{"role": "user", "content": ["a"]}]' "the content of message 1 is not a string"
refuses '[{"role": "system", "content": "a"}, {"role": "assistant", "content": "b"}]' "message 2 does not have the role user"
printf '{"messages": "a"}\n' >bad.jsonl
refused P4D004 p4d data --chat gemma -o bad bad.jsonl
says "bad.jsonl:1: has no list of messages in its field messages"
refused P4D001 p4d data --chat gemma --split-lines -o bad chat.jsonl
refused P4D001 p4d data --chat gemma --end-token 1 -o bad chat.jsonl
says "--begin-token and --end-token have no effect: a chat template has its own"

# A template that leaves out the thoughts of earlier answers: each answer in its own context, as the model will see it, or the last alone.
qwen3=$P4D_TEST_SRCDIR/tests/data/templates/qwen3.jinja
cat >thoughts.jsonl <<'END'
{"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "reasoning_content": "one", "content": "B"}, {"role": "user", "content": "C"}, {"role": "assistant", "content": "<think>two</think>D"}, {"role": "user", "content": "E"}]}
END
exits 5 p4d data --chat "$qwen3" -o thoughts thoughts.jsonl
says "p4d does not know which tokens of message 2 of 5 to train on" "fix: --answers each, or --chat FILE"
after='<|im_start|>user/A<|im_end|>/<|im_start|>assistant/B<|im_end|>/<|im_start|>user/C<|im_end|>/<|im_start|>assistant/[<think>/two/</think>//D<|im_end|>/]'
exits 0 p4d data --chat "$qwen3" --answers last -o thoughts thoughts.jsonl
[ "$(shown thoughts)" = "$after" ] || fail "last: $(shown thoughts)"
exits 0 p4d data --chat "$qwen3" --answers each -o thoughts thoughts.jsonl
[ "$(shown thoughts)" = "$after<|im_start|>user/A<|im_end|>/<|im_start|>assistant/[<think>/one/</think>//B<|im_end|>/]" ] || fail "each: $(shown thoughts)"
prints "2 documents, "
for chat in chatml "$P4D_TEST_SRCDIR/tests/data/templates/qwen3-generation.jinja"; do
	exits 0 p4d data --chat "$chat" --answers each -o thoughts thoughts.jsonl
	prints "2 documents, "
	[ "$(shown thoughts | tr -cd '[' | wc -c)" = 2 ] || fail "$chat: $(shown thoughts)"
done
exits 0 p4d data --chat chatml --answers last -o thoughts chat.jsonl
[ "$(shown thoughts | tr -cd '[' | wc -c)" = 2 ] || fail "the last of each: $(shown thoughts)"
printf '{"messages": [{"role": "user", "content": "a"}]}\n' >bad.jsonl
exits 5 p4d data --chat chatml --answers each -o bad bad.jsonl
says "no message has the role assistant, so there is nothing to train on"
refused P4D005 p4d data --chat chatml --answers some -o bad chat.jsonl
says "--answers=some: expected all, last or each"
refused P4D001 p4d data --jsonl --answers each -o bad plain.jsonl

# A conversation of 200 turns, whose answers are found by rendering its beginnings, has the tokens and the mask of a template that marks
# its answers. Its renderings stay below the limit on steps, which bounds the time.
awk 'BEGIN { printf "{\"messages\": ["; for (i = 1; i <= 200; i++) printf "%s{\"role\": \"user\", \"content\": \"question %d of many, and its words\"}, {\"role\": \"assistant\", \"content\": \"answer %d, which is somewhat longer than the question\"}", (i > 1 ? ", " : ""), i, i; print "]}" }' >turns.jsonl
printf '%s' "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>\\n' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}" >marks.jinja
printf '%s' "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' if add_generation_prompt }}" >plain.jinja
for form in marks plain; do
	exits 0 p4d data --chat ./$form.jinja -o $form turns.jsonl
done
cmp marks.bin plain.bin && cmp marks.mask plain.mask || fail "200 turns have another mask"

# writing other data removes the mask
cp out.mask stale.mask
exits 0 p4d data -o stale chat.jsonl
[ ! -e stale.mask ] || fail "a mask of other data stays"

command -v p4d-train >/dev/null || exit 0
i=0
while [ $i -lt 40 ]; do
	printf '{"messages": [{"role": "user", "content": "%d plus %d"}, {"role": "assistant", "content": "%d"}]}\n' $i $((i * 7 % 10)) $((i + i * 7 % 10))
	i=$((i + 1))
done >sums.jsonl
exits 0 p4d data --chat zephyr -o sums sums.jsonl
model="--model custom --layers 2 --hidden 32 --ffn 96 --heads 4 --kv-heads 4 --head-dim 8 --vocab 257 --max-seq-len 128 --norm rmsnorm
	--glu on --tied off --positions rope --bias none --qk-norm off --device cpu --seq-len 128 --global-batch 4 --steps 4"
# shellcheck disable=SC2086 # a list of words
train() { p4d-train $model --data sums --lr 5e-3 "$@"; }
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1"; }
exits 0 train --log one.json
grep -q '"event":"start".*"document_mask":"on".*"sequences":"packed".*"documents_cut":0' one.json || fail "not packed: $(head -n 1 one.json)"
# of 40 documents, 3 in a sequence; of 6 or 7 tokens each the loss is
sed -n 's/.*"event":"step".*"tokens":\([0-9]*\).*/\1/p' one.json | awk '$1 < 4 * 2 * 5 || $1 > 4 * 3 * 7 { bad = 1 } END { exit bad || NR != 4 }' ||
	fail "trained on other tokens: $(grep step one.json)"
while read -r layout; do
	rm -f other.json
	# shellcheck disable=SC2086
	exits 0 train $layout --log other.json
	losses one.json >left
	losses other.json | paste left - | awk '{ off = $1 / $2 - 1; if (off * off > 1e-12) bad = 1 } END { exit bad || NR != 4 }' ||
		fail "$layout: $(losses other.json | paste left -)"
done <<'END'
--local-ranks 2 --tp 2
--local-ranks 2 --pp 2
--local-ranks 2 --cp 2
END
# alone in its sequence, each document has the loss that it has beside others: packing changes no loss
all=$(sed -n 's/.*"packed_sequences":\([0-9]*\).*/\1/p' one.json)
[ "$all" -lt 30 ] || fail "$all sequences for 40 documents"
changed=$(echo "$model" | sed "s/--steps 4/--steps 1/; s/--global-batch 4/--global-batch $all/")
# shellcheck disable=SC2086 # a list of words
exits 0 p4d-train $changed --data sums --lr 0 --log packed.json
changed=$(echo "$changed" | sed 's/--global-batch [0-9]*/--global-batch 40/; s/--seq-len 128/--seq-len 48/')
# shellcheck disable=SC2086
exits 0 p4d-train $changed --data sums --lr 0 --log alone.json
losses packed.json >left
losses alone.json | paste left - | awk '{ off = $1 / $2 - 1; exit !(off * off < 1e-12) }' || fail "packed: $(losses alone.json | paste left -)"
grep -q '"packed_sequences":40' alone.json || fail "not alone: $(head -n 1 alone.json)"
rm -f cut.json
exits 0 train --sequences cut --log cut.json
grep -q '"event":"start".*"document_mask":"off".*"sequences":"cut"' cut.json || fail "packed: $(head -n 1 cut.json)"
refused P4D001 train --document-mask off
says "packed documents (the default for data with a loss mask) must not attend to each other"
printf 'P4DMASK\0\0\0\0\0\0\0\0\0' >sums.mask
refused P4D051 train
says "sums.mask: it is a mask of 0 tokens, but"
