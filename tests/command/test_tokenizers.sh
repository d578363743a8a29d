#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d data with tokenizer.json: the tokens of Hugging Face's tokenizers (tests/parity/make_tokenizers.py), in the forms of released
# models, of 1.1 MB of text in 16 languages and code.
. "${0%/*}/lib.sh"
stored=$P4D_TEST_SRCDIR/tests/data/tokenizers
# of FILE: what is stored of its tokens
sum_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

while read -r name count sum sample; do
	if [ "$name" = text ]; then
		awk -v bytes=1100000 -f "$stored/text.awk" "$stored/words" >text
		[ "$(sum_of text)" = "$sum" ] || fail "awk makes another text"
		continue
	fi
	gzip -dc "$stored/$name.json.gz" >"$name.json"
	end='--end-token none'
	[ "$name" != llama2 ] || end= # it has one
	# shellcheck disable=SC2086 # two words
	exits 0 p4d data --tokenizer "$name.json" $end -o "$name" text
	prints "1 document, $count tokens"
	[ "$(sum_of "$name.bin")" = "$sum" ] ||
		fail "$name: other tokens than $sample: $(od -An -v -w1000000 -t u2 "$name.bin" | cut -c 1-200)"
done <"$stored/expected"

# names of tokens, in the text and on the command line; tokens around a document
numbers() { od -An -v -w1000000 -t u2 "$1" | tr -s ' '; }
printf 'the<|im_start|>the' >names
exits 0 p4d data --tokenizer qwen2.json --end-token '<|im_start|>' --begin-token '<|endoftext|>' -o out --json names
prints '"begin_token":0' '"end_token":1' '"vocab":1501'
case $(numbers out.bin) in " 0 "*" 1 "*" 1") ;; *) fail "names of tokens: $(numbers out.bin)" ;; esac
# digits are a number, though some token has them for a name
exits 0 p4d data --tokenizer qwen2.json --end-token 2 -o out --json names
prints '"end_token":2'
exits 5 p4d data --tokenizer qwen2.json -o out names
says "qwen2.json has no end-of-sentence token" "--end-token"
mkdir model
cp qwen2.json model/tokenizer.json
echo '{"eos_token": {"content": "<|endoftext|>"}}' >model/tokenizer_config.json
exits 0 p4d data --tokenizer model --json -o out names
prints '"begin_token":null' '"end_token":0'
exits 0 p4d data --tokenizer llama2.json --json -o out names
prints '"begin_token":1' '"end_token":2'
exits 0 p4d data --tokenizer llama2.json --begin-token none --end-token none --json -o out names
prints '"begin_token":null' '"end_token":null'
printf 'the \377' >latin
exits 5 p4d data --tokenizer llama2.json -o out latin
says "latin: byte 4 of a document is not UTF-8" "fix: iconv"

# unknown parts are refused, never left out
refuses() # WHAT SED-SCRIPT
{
	sed "$2" gpt2.json >changed.json
	exits 5 p4d data --tokenizer changed.json --end-token none -o out names
	says "changed.json: " "$1"
}
refuses "the tokenizer's model is of type Unigram" 's/"BPE"/"Unigram"/'
refuses "dropout" 's/"dropout":null/"dropout":0.1/'
refuses "end_of_word_suffix" 's/"end_of_word_suffix":null/"end_of_word_suffix":"<\/w>"/'
refuses 'pre-tokenizer { "type": "Whitespace" } is not supported' 's/"pre_tokenizer":{[^}]*}/"pre_tokenizer":{"type":"Whitespace"}/'
refuses 'normalizer { "type": "Lowercase" } is not supported' 's/"normalizer":null/"normalizer":{"type":"Lowercase"}/'
refuses "post-processor" 's/"post_processor":null/"post_processor":{"type":"RobertaProcessing"}/'
refuses "single_word" 's/"single_word":false/"single_word":true/'
refuses "merges: entry 0 " 's/"merges":\[\[[^]]*\]/"merges":[["no","where"]/'
refuses "pattern \\w+ has \\w" 's/"pre_tokenizer":{[^}]*}/"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\\\w+"},"behavior":"Isolated","invert":false}/'
refuses "has \\v" 's/"pre_tokenizer":{[^}]*}/"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a|\\\\v+"},"behavior":"Isolated","invert":false}/'
refuses "has (?m)" 's/"pre_tokenizer":{[^}]*}/"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?im:a.b)"},"behavior":"Isolated","invert":false}/'
refuses '"type": "Replace"' 's/"normalizer":null/"normalizer":{"type":"Replace","pattern":{"String":"\\u0000"},"content":""}/'
refuses "a + after {}" 's/"pre_tokenizer":{[^}]*}/"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a{1,3}+"},"behavior":"Isolated","invert":false}/'
echo '{"vocab": {}}' >changed.json
exits 5 p4d data --tokenizer changed.json -o out names
says "changed.json: not a tokenizer.json: it lacks a model"
echo '{' >changed.json
exits 4 p4d data --tokenizer changed.json -o out names
# in the cache of the hub, by its name
mkdir -p hub/models--some--model/snapshots/abc hub/models--some--model/refs
printf abc >hub/models--some--model/refs/main
cp "$P4D_TEST_SRCDIR/tests/data/released/tokenizer.json" hub/models--some--model/snapshots/abc
exits 0 p4d data --tokenizer hub/models--some--model/snapshots/abc --end-token none -o by-path names
exits 0 env HF_HUB_CACHE="$PWD/hub" p4d data --tokenizer some/model --end-token none -o by-name names
cmp -s by-path.bin by-name.bin || fail "other tokens by the name"
exits 3 env HF_HUB_CACHE="$PWD/hub" p4d data --tokenizer other/model --end-token none -o by-name names
says "tokenizer other/model: No such file" "ORG/NAME in the hub's cache"
exit 0
