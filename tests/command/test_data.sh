#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d data: the files it writes byte for byte, every form of input, and that failures leave nothing behind.
. "${0%/*}/lib.sh"

# numbers FILE TYPE: its contents from byte 0 on, in one line
numbers() { od -An -v -w1000000 -t "$2" "$1" | tr -s ' '; }
nothing_left()
{
	left=$(find . -name 'out*')
	[ -z "$left" ] || fail "left behind: $left"
}

# bytes: a file is a document
printf 'ab' >one
printf '\377\0c' >two
: >empty
exits 0 p4d data -o out one empty two
silent
prints "out.bin: 2 documents, 7 tokens of a vocabulary of 257 (uint16)"
[ "$(numbers out.bin u2)" = " 97 98 256 255 0 99 256" ] || fail "out.bin: $(numbers out.bin u2)"
# MMIDIDX, version 1, type 8, 2 sequences, 3 bounds; lengths 3 4; offsets 0 6; bounds 0 1 2
expected=4d4d494449445800000100000000000000080200000000000000030000000000000003000000040000000000000000000000
expected=${expected}0600000000000000000000000000000001000000000000000200000000000000
[ "$(od -An -v -w1000 -t x1 out.idx | tr -d ' ')" = $expected ] || fail "out.idx: $(od -An -v -w1000 -t x1 out.idx)"
[ "$(stat -c %a out.bin)" = "$(printf '%o' $((0666 & ~$(umask))))" ] || fail "the mode is not the usual one"
[ "$(find . -name 'out*' | wc -l)" = 2 ] || fail "more than two files"

# over existing files; from standard input
printf 'z' | { exits 0 p4d data --output=out --end-token none -; }
exits 0 sh -c 'printf z | p4d data -o out --end-token none --json -'
prints '"documents":1' '"tokens":1' '"vocab":257' '"end_token":null' '"type":"uint16"' '"prefix":"out"'
[ "$(numbers out.bin u2)" = " 122" ] || fail "out.bin: $(numbers out.bin u2)"

# lines
printf 'a\n\nbc\r\nd' >lines
exits 0 p4d data --split-lines -o out lines
prints "3 documents, 7 tokens"
[ "$(numbers out.bin u2)" = " 97 256 98 99 256 100 256" ] || fail "out.bin: $(numbers out.bin u2)"
printf '{"text": "h\\u00e4", "id": 1}\n{"id": 2, "text": "x"}\n' >lines.jsonl
exits 0 p4d data --jsonl -o out lines.jsonl
[ "$(numbers out.bin u2)" = " 104 195 164 256 120 256" ] || fail "out.bin: $(numbers out.bin u2)"
printf '{"body": "q"}\n' >other.jsonl
exits 0 p4d data --jsonl --field body -o out other.jsonl
prints "1 document, 2 tokens"

# tokens of another tokenizer; the vocabulary decides how wide they are
printf '{"input_ids": [1, 70000, 0]}\n{"input_ids": []}\n{"input_ids": [2]}\n' >ids.jsonl
exits 0 p4d data --tokenizer ids --vocab 128256 -o out ids.jsonl
prints "2 documents, 4 tokens of a vocabulary of 128256 (int32)"
[ "$(numbers out.bin d4)" = " 1 70000 0 2" ] || fail "out.bin: $(numbers out.bin d4)"
exits 0 p4d data --tokenizer ids --vocab 128256 --end-token 128001 -o out ids.jsonl
[ "$(numbers out.bin d4)" = " 1 70000 0 128001 2 128001" ] || fail "out.bin: $(numbers out.bin d4)"
rm out.bin out.idx
# an empty list comes first, or alone
printf '{"input_ids": []}\n{"input_ids": [7]}\n' >first.jsonl
exits 0 p4d data --tokenizer ids --vocab 257 -o out first.jsonl
prints "1 document, 1 tokens of a vocabulary of 257"
rm out.bin out.idx
printf '{"input_ids": []}\n' >empty.jsonl
exits 51 p4d data --tokenizer ids --vocab 257 -o out empty.jsonl
says "no text in empty.jsonl"
exits 5 p4d data --tokenizer ids --vocab 70000 -o out ids.jsonl
says "ids.jsonl:1: token 70000 in document 0 outside the vocabulary, expected 0 to 69999"
nothing_left

# compressed by gzip, and after a byte order mark
seq 1 20 | sed 's/.*/{"text": "number &"}/' >plain.jsonl
exits 0 p4d data --jsonl -o plain plain.jsonl
{
	printf '\357\273\277'
	cat plain.jsonl
} >marked.jsonl
exits 0 p4d data --jsonl -o marked marked.jsonl
cmp plain.bin marked.bin || fail "a byte order mark is part of the text"
printf '\357\273\277ab' >marked.txt
exits 0 p4d data -o marked marked.txt
[ "$(numbers marked.bin u2)" = " 97 98 256" ] || fail "marked.bin: $(numbers marked.bin u2)"
# packed_by PROGRAM SUFFIX: in one part and in two, with zeros after them; cut off, damaged, and with other bytes after it
packed_by()
{
	$1 -q -c <plain.jsonl >plain.$2
	p4d data --jsonl -o packed plain.$2 2>packed.said || {
		grep -qE 'built without zlib|libzstd.so.1 is missing' packed.said || fail "$1: $(cat packed.said)"
		return 0
	}
	cmp plain.bin packed.bin || fail "$1 gives another text"
	{ head -n 1 plain.jsonl | $1 -q -c; tail -n +2 plain.jsonl | $1 -q -c; } >parts.$2
	exits 0 p4d data --jsonl -o packed parts.$2
	cmp plain.bin packed.bin || fail "$1 in two parts gives another text"
	{ cat parts.$2; head -c 700 /dev/zero; } >padded.$2
	exits 0 p4d data --jsonl -o packed padded.$2
	cmp plain.bin packed.bin || fail "$1 with zeros at the end gives another text"
	rm packed.bin
	head -c 60 plain.$2 >cut.$2
	exits 3 p4d data --jsonl -o packed cut.$2
	says "cut.$2: " "damaged or cut off at byte 60"
	{ head -c 40 plain.$2; printf XXXXXXXX; tail -c +49 plain.$2; } >damaged.$2
	exits 3 p4d data --jsonl -o packed damaged.$2
	says "damaged or cut off at byte "
	# what follows is neither ignored silently nor read as if it belonged to the file
	for more in '{"text": "more"}' x; do
		{ cat plain.$2; echo "$more"; } >follows.$2
		exits 3 p4d data --jsonl -o packed follows.$2
		says "the bytes from $(wc -c <plain.$2) on are not compressed by $1"
	done
	{ cat plain.$2; echo '{"text": "more"}'; } >follows.$2
	exits 3 p4d data --jsonl -o packed follows.$2
	{ cat plain.jsonl; echo '{"text": "more"}'; } | p4d data --jsonl -o together - 2>/dev/null
	pasted=$(fix | sed 's/p4d data ... -/p4d data --jsonl -o packed -/')
	sh -c "$pasted" 2>/dev/null && cmp together.bin packed.bin || fail "the fix $pasted gives another text"
	rm -f packed.bin together.bin
}
packed_by gzip gz
! command -v zstd >/dev/null || packed_by zstd zst
printf '(\265/\375more' >zstd.jsonl
exits 3 p4d data --jsonl -o packed zstd.jsonl
says "zstd.jsonl: "

# wrong lines are left out, up to a hundredth of all or as many as are allowed
seq 1 300 | sed 's/.*/{"text": "&"}/; 7s/.*/{"text": 5}/; 9s/.*/nothing/' >some.jsonl
exits 0 p4d data --jsonl -o some some.jsonl
prints "298 documents" "; 2 of 300 lines left out"
says "some.jsonl:7: has no text in its field text; p4d left out 2 of 300 lines"
exits 0 p4d data --jsonl --json -o some some.jsonl
prints '"left_out":2'
exits 4 p4d data --jsonl --bad-lines 0 -o some2 some.jsonl
says "some.jsonl:7: has no text"
exits 4 p4d data --jsonl --bad-lines 1 -o some2 some.jsonl
[ ! -e some2.bin ] || fail "written in spite of wrong lines"
sed 20,22d some.jsonl | head -n 199 >more.jsonl
exits 4 p4d data --jsonl -o some2 more.jsonl
says "2 of 199 lines are wrong" "fix: --bad-lines 2"
exits 0 p4d data --jsonl --bad-lines 2 -o some2 more.jsonl
refused P4D001 p4d data --bad-lines 2 -o some2 one
says "--bad-lines needs --jsonl"
rm -f plain.* marked.* packed.* some*.bin some*.idx

# what is wrong with the input
printf '{"text": "a"}\n{"text": "b"\n' >bad.jsonl
refused P4D004 p4d data --jsonl -o out bad.jsonl
says "bad.jsonl:2: "
nothing_left
printf '{"text": "a"}\n["b"]\n' >bad.jsonl
exits 4 p4d data --jsonl -o out bad.jsonl
says "bad.jsonl:2: not a JSON object"
printf '{"text": 5}\n' >bad.jsonl
exits 4 p4d data --jsonl -o out bad.jsonl
says "bad.jsonl:1: has no text in its field text"
printf '{"input_ids": [1, -2]}\n' >bad.jsonl
exits 4 p4d data --tokenizer ids --vocab 9 -o out bad.jsonl
says "bad.jsonl:1: not a token: -2"
refused P4D003 p4d data -o out one nowhere
says "nowhere: "
nothing_left
exits 3 p4d data -o out "$work"
says "$work: cannot be read: Is a directory" "fix: $work/*"
exits 51 p4d data -o out empty
says "no text in empty"
nothing_left

# command lines
exits 1 p4d data
says "no text file given" "p4d help data"
exits 1 p4d data one
says "--output PREFIX is missing"
refused P4D001 p4d data -o out -o other one
says "--output"
exits 1 p4d data -o out --tokenizer ids one
says "--vocab N"
exits 1 p4d data -o out --vocab 9 one
says "--vocab needs --tokenizer ids"
exits 1 p4d data -o out --split-lines --jsonl one
exits 1 p4d data -o out --field x one
refused P4D001 p4d data -o out --toknizer bytes one
says "--toknizer"
exits 5 p4d data -o out --end-token 257 one
says "--end-token=257: neither a number up to 256 nor the name of a token of bytes"
exits 0 p4d data -o out --begin-token 7 one
[ "$(numbers out.bin u2)" = " 7 97 98 256" ] || fail "out.bin: $(numbers out.bin u2)"
rm out.bin out.idx
exits 5 p4d data -o out --begin-token x one
says "--begin-token=x: neither a number up to 256 nor the name of a token of bytes"
exits 3 p4d data -o out --tokenizer nowhere.model one
says "tokenizer nowhere.model: No such file"
nothing_left
exits 0 p4d data --help
prints "p4d data" "--tokenizer" "SentencePiece"

# a disk that is full: what the kernel says at a file-size limit, and where it can be had, a real one
head -c 3000000 /dev/zero >zeros
exits 3 sh -c 'trap "" XFSZ; ulimit -f 2000; exec p4d data -o out zeros'
says "out.bin: cannot be written: File too large"
nothing_left
cat >tiny.sh <<'TINY'
mkdir disk && mount -t tmpfs -o size=1m none disk && p4d data -o disk/out zeros; status=$?
find disk -type f
exit $status
TINY
if unshare -rm true 2>/dev/null; then
	exits 3 unshare -rm sh tiny.sh
	says "disk/out.bin: cannot be written: No space left on device"
	[ -z "$out" ] || fail "left on the disk: $out"
fi

# interrupted while it waits for more input
mkfifo pipe
# a shell without job control starts background programs with SIGINT ignored, so SIGTERM is used
p4d data --split-lines -o out pipe &
pid=$!
exec 3>pipe
printf 'a\n' >&3
while [ "$(find . -name 'out*' | wc -l)" -lt 2 ]; do sleep 0.05; done
kill -TERM $pid
exec 3>&-
wait $pid
status=$?
[ $status = 143 ] || fail "SIGTERM: exits with $status"
nothing_left

# a bar on a terminal only
exits 0 p4d data -o out zeros
silent
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	out=$(script -qec "stty cols 80; p4d data --split-lines -o out lines" /dev/null </dev/null | tr '\r' '\n')
	case $out in *'####'*) ;; *) fail "no bar on a terminal" ;; esac
fi

# SentencePiece, when it was built in and its tools are there to make a model
P4D_LIBDIR=/nonexistent exits 5 p4d data -o new --tokenizer one one
says "one: this p4d was built without SentencePiece" "libsentencepiece-dev"
if [ -f "$P4D_TEST_BUILDDIR/.libs/libp4d-sentencepiece.so" ]; then
	exits 5 p4d data -o new --tokenizer one one
	says "one: not a SentencePiece model"
	if command -v spm_train >/dev/null; then
		license=/usr/share/common-licenses/GPL-3
		spm_train --input=$license --model_prefix=spm --vocab_size=500 >/dev/null 2>&1 || fail "spm_train"
		grep -m 1 freedom $license >line
		exits 0 p4d data --tokenizer spm.model --split-lines -o new line
		prints "1 document, " "of a vocabulary of 500 (uint16)"
		[ "$(numbers new.bin u2)" = " $(spm_encode --model=spm.model --output_format=id <line) 2" ] ||
			fail "another tokenization than spm_encode's: $(numbers new.bin u2)"
		exits 0 p4d data --tokenizer spm.model --end-token '<s>' --split-lines -o new line
		case $(numbers new.bin u2) in *' 1') ;; *) fail "<s> does not end it: $(numbers new.bin u2)" ;; esac
		exits 5 p4d data --tokenizer spm.model --end-token '<eos>' -o new line
		says "neither a number up to 499 nor the name of a token of spm.model"
	fi
fi
exit 0
