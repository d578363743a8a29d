#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d data --chat with templates in Jinja: tokens and masks are those of transformers (tests/parity/make_templates.py), the
# model's own template is found, and what is wrong, unsupported or without bounds is refused with its line.
. "${0%/*}/lib.sh"
templates=$P4D_TEST_SRCDIR/tests/data/templates
# shellcheck disable=SC2034 # for fail
status='' out='' err=''

mkdir model
gzip -dc "$templates/tokenizer.json.gz" >model/tokenizer.json
cp "$templates/tokenizer_config.json" model
kinds=bytes
p4d data --tokenizer model -o probe "$templates/expected" >probe.out 2>&1 && kinds='bytes model'

# the same as transformers, of 26 templates
checked=0
while read -r template kind conversations tokens trained ids mask; do
	[ "$kind" = bytes ] || kind=model
	case $kinds in *$kind*) ;; *) continue ;; esac
	p4d data --tokenizer "$kind" --chat "$templates/$template" --chat-date 2026-11-30 --bad-lines 99 -o out \
		"$templates/conversations.jsonl" >made 2>said || fail "$template: $(cat said)"
	grep -q "^out.bin: $conversations document.* $tokens tokens .*; loss on $trained (out.mask), template $templates/$template" made ||
		fail "$template $kind: $conversations conversations, $tokens tokens, $trained trained on: $(cat made said)"
	[ "$(sha256sum <out.bin)" = "$ids  -" ] || fail "$template $kind: other tokens"
	[ "$(tail -c +17 out.mask | sha256sum)" = "$mask  -" ] || fail "$template $kind: another mask"
	checked=$((checked + 1))
done <"$templates/expected"
[ $checked -ge 26 ] || fail "only $checked were compared"

# where a model has its template
cat >chat.jsonl <<'END'
{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}], "tools": []}
{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}
END
template() { printf '%s{%% for m in messages %%}{%% if m.role == "user" %%}[{{ m.content }}]{%% else %%}{%% generation %%}{{ m.content }}{{ eos_token }}{%% endgeneration %%}{%% endif %%}{%% endfor %%}' "$1"; }
text() { od -An -v -tu2 -w2 "$1.bin" | awk '{ printf "%c", $1 }'; }
takes() # PLACE TEXT ARGUMENT...
{
	place=$1 expected=$2
	shift 2
	exits 0 p4d data "$@" -o out chat.jsonl
	prints "template $place"
	[ "$(text out)" = "$expected" ] || fail "$*: $(text out)"
}
mkdir there
template A >there/chat_template.jinja
takes there/chat_template.jinja 'A[Hi]YoA[Hi]Yo' --chat there
takes there/chat_template.jinja 'A[Hi]YoA[Hi]Yo' --chat there/chat_template.jinja
exits 0 p4d data --json --chat there -o out chat.jsonl
prints '"template":"there/chat_template.jinja"' '"trained":4'
mkdir there/additional_chat_templates
template T >there/additional_chat_templates/tool_use.jinja
takes there/chat_template.jinja 'T[Hi]YoA[Hi]Yo' --chat there
rm -r there/additional_chat_templates there/chat_template.jinja
quoted() { template "$1" | sed 's/"/\\"/g'; }
printf '{"eos_token": {"content": "$"}, "chat_template": "%s"}' "$(quoted C)" >there/tokenizer_config.json
takes there/tokenizer_config.json 'C[Hi]Yo$C[Hi]Yo$' --chat there
printf '{"eos_token": "$", "chat_template": [{"name": "default", "template": "%s"}, {"name": "tool_use", "template": "%s"}, {"name": "rag", "template": "%s"}]}' \
	"$(quoted D)" "$(quoted T)" "$(quoted R)" >there/tokenizer_config.json
takes there/tokenizer_config.json 'T[Hi]Yo$D[Hi]Yo$' --chat there
if [ "$kinds" != bytes ]; then
	template M >model/chat_template.jinja
	exits 0 p4d data --tokenizer model --chat own -o out chat.jsonl
	prints "template model/chat_template.jinja"
	exits 0 p4d data --tokenizer model/tokenizer.json --chat own -o out chat.jsonl
	prints "template model/chat_template.jinja"
	cp there/tokenizer_config.json model
	exits 0 p4d data --tokenizer model --chat rag -o out chat.jsonl
	prints "template model/tokenizer_config.json"
	mkdir -p hub/models--org--name/refs hub/models--org--name/snapshots
	cp -r model hub/models--org--name/snapshots/abc
	echo abc >hub/models--org--name/refs/main
	exits 0 env HF_HUB_CACHE="$work/hub" p4d data --tokenizer org/name --chat own -o out chat.jsonl
	prints "template $work/hub/models--org--name/snapshots/abc/chat_template.jinja"
	exits 3 env HF_HUB_CACHE="$work/hub" p4d data --tokenizer org/other --chat own -o out chat.jsonl
	says "tokenizer org/other: No such file or directory"
	rm model/chat_template.jinja
	echo '{}' >model/tokenizer_config.json
	exits 5 p4d data --tokenizer model --chat own -o out chat.jsonl
	says "--chat=own: the tokenizer model has no chat template"
fi
exits 5 p4d data --chat own/none -o out chat.jsonl
says "--chat=own/none: p4d has no such template; give one of chatml, "

# what is refused, with its line
tail -n 1 chat.jsonl >one.jsonl
refuses() # TEMPLATE TEXT
{
	printf '%b' "$1" >bad.jinja
	exits 5 p4d data --chat bad.jinja --chat-date 2026-11-30 -o out one.jsonl
	says "$2"
}
refuses '\n{% if x %}' 'bad.jinja:2: {% endif %} is missing'
refuses '{{ a b }}' 'bad.jinja:1: }} was expected before b'
refuses '{{ (a }}' 'bad.jinja:1: a closing parenthesis that does not match the open one: }}'
refuses "{{ 'a }}" "bad.jinja:1: a string without its closing quote: 'a }}"
refuses '{% block x %}' 'bad.jinja:1: p4d does not support {% block %}'
refuses '{% for a in b recursive %}' 'bad.jinja:1: p4d does not support recursive loops'
refuses '{% set x %}{% generation %}{% endgeneration %}{% endset %}' 'p4d does not support {% generation %} inside {% macro %} or a {% set %} block'
refuses '{% endfor %}' 'bad.jinja:1: a statement was expected before endfor'
refuses '\n\n{{ messages | groupby("role") }}' 'one.jsonl:1: bad.jinja:3: p4d does not support the filter groupby'
refuses '{{ nothing.more }}' 'one.jsonl:1: bad.jinja:1: nothing is undefined'
refuses '{{ "a" + 1 }}' 'bad.jinja:1: a string and a integer cannot be combined by +'
refuses '{{ messages.append(1) }}' 'bad.jinja:1: append changes a value, which templates may not'
refuses '{{ raise_exception("no " ~ messages[0].role) }}' 'bad.jinja:1: the template reports an error: no user'
# a second of a core, several with sanitizers
[ -n "${P4D_TEST_FEW:-}" ] ||
	refuses '{% set r = range(99999) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}' 'this conversation takes more than 50 million steps, the limit'
refuses '{{ ("x" * 99999) * 99999 }}' 'this rendering takes more than 512 MiB of memory, the limit'
refuses '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}' 'more than 600 nested calls, blocks and values'
refuses "$(awk 'BEGIN { for (i = 0; i < 101; i++) printf "{%% if 1 %%}" }')" 'more than 100 nested blocks and expressions'
refuses '{{ 9223372036854775807 + 1 }}' 'an integer exceeds 64 bits'
refuses '{{ range(999999) }}' 'range: more than 100000 numbers, the limit'
refuses '{% for m in messages %}{{ m.content }}{% endfor %}{{ "?" if add_generation_prompt }}' \
	'p4d does not know which tokens of message 2 of 2 to train on: with add_generation_prompt, the template begins an answer otherwise than in the conversation'
printf '{%% for m in messages %%}{{ m.role ~ m.content }}{{ "!" if loop.last }}{%% endfor %%}{{ "assistant" if add_generation_prompt }}' >last.jinja
echo '{"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]}' >last.jsonl
exits 5 p4d data --chat last.jinja -o out last.jsonl
says "message 1 of 2 to train on: the template writes the message in another way if it is the last message"
says "fix: --answers each, or --chat FILE, a template with {% generation %} and {% endgeneration %} around answers"
printf '{{ strftime_now("%%d") }}' >date.jinja
exits 5 p4d data --chat date.jinja -o out one.jsonl
says "date.jinja:1: the template shows the date of today: give the date with --chat-date YYYY-MM-DD"
says "fix: --chat-date YYYY-MM-DD"
exits 5 p4d data --chat date.jinja --chat-date 30.11.2026 -o out chat.jsonl
says "--chat-date=30.11.2026: not a date, YYYY-MM-DD is expected"
refused P4D001 p4d data --chat-date 2026-11-30 -o out chat.jsonl
echo '{"messages": [{"role": "user", "content": "a"}], "tools": "{"}' >tools.jsonl
exits 5 p4d data --chat "$templates/chatml.jinja" -o out tools.jsonl
says "tools.jsonl:1: tools is a string, but not JSON"
head -c 2000000 /dev/zero | tr '\0' x >large.jinja
p4d data --chat large.jinja -o out chat.jsonl 2>said && fail "a template of 2 MB"
[ -s said ] || fail "it said nothing"

# conversations that the template refuses are left out and counted
{
	sed 's/user/nobody/' chat.jsonl
	i=0
	while [ $i -lt 300 ]; do
		tail -n 1 chat.jsonl
		i=$((i + 1))
	done
} >many.jsonl
exits 0 p4d data --chat "$templates/gemma.jinja" -o out many.jsonl
says "gemma has no role nobody" "p4d left out 2 of 302 lines"
prints "300 documents"

# long conversations: their answers are those between {% generation %} and {% endgeneration %}, in a time that grows with the length.
# With `order` the template writes a message's number, so no part of a conversation is written as in the whole one.
long() # ANSWERS TOOLS
{
	awk -v answers="$1" -v tools="$2" 'BEGIN {
		printf "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \"Go.\"}"
		for (i = 1; i <= answers; i++) {
			printf ", {\"role\": \"assistant\", \"content\": \"Answer %d\"}", i
			if (i < answers || i % 2)
				printf ", {\"role\": \"%s\", \"content\": \"so %d\"}", (i * 7 % 10 < tools ? "tool" : "user"), i * 7 % 13
		}
		print "]}"
	}'
}
order=''
marked() # GENERATION ENDGENERATION
{
	printf '{%% for m in messages %%}%s<{{ m.role }}>{%% if m.role == "assistant" %%}%s{{ m.content }}</>%s{%% else %%}{{ m.content }}</>{%% endif %%}{%% endfor %%}' "$order" "$1" "$2"
	printf '{%% if add_generation_prompt %%}%s<assistant>{%% endif %%}' "$(printf %s "$order" | sed 's/loop.index/messages | length + 1/')"
}
agree() # ANSWERS TOOLS
{
	long "$1" "$2" >long.jsonl
	marked '{% generation %}' '{% endgeneration %}' >marks.jinja
	marked '' '' >none.jinja
	exits 0 p4d data --chat marks.jinja -o marks long.jsonl
	exits 0 p4d data --chat none.jinja -o none long.jsonl
	cmp marks.bin none.bin || fail "$* $order: other tokens"
	cmp marks.mask none.mask || fail "$* $order: another mask"
}
for tools in 0 3 10; do
	agree 15 $tools
	agree 60 $tools
	agree 121 $tools
done
order='{{ loop.index }}' agree 60 3
long 1500 3 >long.jsonl
exits 0 p4d data --chat "$templates/llama-3.1.jinja" --chat-date 2026-11-30 -o out long.jsonl
