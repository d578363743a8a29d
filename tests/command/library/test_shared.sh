#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libp4d.so for other programs: its name and symbols, its header, its pkg-config file, and replies that are what the command
# prints, word for word, also in the example in Python.
. "${0%/*}/../lib.sh"
ask=$P4D_TEST_BUILDDIR/tests/command/library/ask
library=$P4D_TEST_BUILDDIR/library/.libs/libp4d.so.0
source=$P4D_TEST_SRCDIR
# shellcheck disable=SC2034 # of fail
out="" err="" status=""
export P4D_LIBDIR="$P4D_TEST_BUILDDIR/.libs" # where p4d finds its parts without being told

# name and symbols
objdump -p "$library" >headers
grep -q 'SONAME *libp4d.so.0$' headers || fail "$(grep SONAME headers)"
# sanitizers add symbols of their own
if ! nm -D --undefined-only "$library" | grep -q __asan_init; then
	nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >exported
	sed -n 's/^\t\t\(p4d_[a-z_]*\);$/\1@@P4D_0/p' "$source/command/library/p4d.map" | sort >wanted
	[ -s wanted ] || fail "p4d.map names nothing"
	cmp -s exported wanted || fail "$(diff exported wanted)"
	# nothing that ends the process; only the code that makes the command's text may print
	nm -D --undefined-only "$library" | awk '{ print $2 }' | grep -E '^(_?exit|quick_exit|abort|__assert_fail|fork|system)(@|$)' && fail "it may end its process"
fi
sed -n 's/^[a-z].*[ *]\(p4d_[a-z_]*\)(.*/\1@@P4D_0/p' "$source/command/library/p4d.h" | sort >declared
cmp -s declared wanted || [ ! -f wanted ] || fail "p4d.h and p4d.map differ: $(diff declared wanted)"
for name in $(sed 's/@@.*//' declared); do
	grep -q "\*$name\*" "$source/man/p4d.3.scd" || fail "p4d(3) does not have $name"
done

# header
printf '#include <p4d.h>\nint main(void) { return !p4d_version(); }\n' >alone.c
cp alone.c alone.cc
compiler=$(sed -n 's/^CC = \(.*\)/\1/p' "$P4D_TEST_BUILDDIR/Makefile")
$compiler -std=c99 -Wall -Wextra -pedantic -Werror -I"$source/command/library" -fsyntax-only alone.c || fail "not a header of C"
if command -v g++ >/dev/null; then
	g++ -std=c++11 -Wall -Wextra -pedantic -Werror -I"$source/command/library" -fsyntax-only alone.cc || fail "not a header of C++"
fi
if pkg-config --version >/dev/null 2>&1; then
	PKG_CONFIG_PATH=$P4D_TEST_BUILDDIR/library pkg-config --cflags --libs p4d >flags || fail "p4d.pc"
	grep -q -- '-lp4d' flags || fail "p4d.pc: $(cat flags)"
fi

# same ASKED -- WORD...: what the library replies to ASKED is what the command prints
same()
{
	asked=$1
	shift
	p4d "$@" --json $before >expected 2>/dev/null
	want=$?
	# shellcheck disable=SC2086 # words
	"$ask" $asked "$@" $after >got
	status=$?
	[ "$status" = "$want" ] || fail "$*: $status in place of $want"
	cmp -s got expected || fail "$*: $(diff got expected | head -5)"
	compared=$((compared + 1))
}
compared=0 before='' after=''
# estimate and plan
same '' estimate llama3-8b --gpu=h100-80gb --gpus=8 --tp=8
same '' estimate llama3-70b --gpu=h100-80gb --gpus=8 --tp=8 --pp=1
same '' estimate llama3-8b --gpu=l40s --workload=serve
same '' estimate llama3-8b --gpu=h100-80gb --gpus=8 --workload=rl
same '' estimate no-such-model-9b
same '' estimate llama3-8b --tp=many
same '' plan llama3-8b --partitions=all --conf=p4d.conf --tokens=1B
same '' check --conf=p4d.conf -N1 --gpus-per-node=8 --p4d-model=llama3-70b --p4d-tp=8 --p4d-pp=1 --wrap=true
same '' check --conf=p4d.conf --nothing --wrap=true
same '' check --conf=p4d.conf -N1 : -N2 --wrap=true

# scripts
cp "$source"/tests/data/scripts/* .
for script in $(ls -- *.sh | awk 'NR % 8 == 1'); do
	before=$script
	same "--script $script" check --conf=p4d.conf --gpu=h100-80gb -N1 --gpus-per-node=8
done
[ "$compared" -ge 30 ] || fail "$compared compared"

# directory and environment
mkdir far
cat >far/ds.json <<'END'
{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}
END
cat >sft.sh <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
deepspeed run_clm.py --deepspeed ds.json --model_name_or_path meta-llama/Llama-3.1-8B --block_size $LENGTH --bf16 --do_train
END
asked="--script sft.sh --directory $PWD/far --environment LENGTH=1024"
# shellcheck disable=SC2086 # words
[ "$("$ask" $asked --get /layout/seq_len check --gpu=h100-80gb)" = 1024 ] || fail "$("$ask" $asked check --gpu=h100-80gb)"
[ "$("$ask" --script sft.sh --get /layout/seq_len check --gpu=h100-80gb)" = "(none)" ] || fail "ds.json and LENGTH from nowhere"
# a script that the command line names is there, too
mkdir far/deep
sed 's/\$LENGTH/512/' sft.sh >far/named.sh
cp far/named.sh far/ds.json far/deep
sed -i 's/512/256/' far/deep/named.sh
[ "$("$ask" --directory "$PWD/far" --get /layout/seq_len check --gpu=h100-80gb named.sh)" = 512 ] || fail "named.sh is not found"
[ "$("$ask" --directory "$PWD/far" --get /layout/seq_len check --gpu=h100-80gb --chdir=deep named.sh)" = 256 ] || fail "deep/named.sh is not found"
[ "$("$ask" --directory "$PWD" --get /layout/seq_len check --gpu=h100-80gb "--chdir=$PWD/far/deep" named.sh)" = 256 ] || fail "an absolute --chdir"
# standard input is the program's own
echo '#!/bin/sh' >input
"$ask" --directory "$PWD" check --gpu=h100-80gb <input | grep -q 'no job script given' || fail "p4d reads the program's input"

# the example in Python
if command -v python3 >/dev/null && python3 -c 'import ctypes' && ! nm -D --undefined-only "$library" | grep -q __asan_init; then
	printf '#!/bin/sh\n#SBATCH -N1 --gpus-per-node=8 --ntasks-per-node=8 --p4d-model=llama3-8b --p4d-tp=1 --p4d-micro-batch=8 --p4d-recompute=none\nsrun p4d-train\n' >large.sh
	LIBP4D=$library python3 "$source/doc/examples/check_job.py" --conf=p4d.conf large.sh >said
	[ $? = 12 ] || fail "$(cat said)"
	grep -q '^verdict: reject, [0-9.]* of 79.1 GiB of each GPU$' said || fail "$(cat said)"
	grep -q '^P4D012: .*llama3-8b needs' said || fail "$(cat said)"
	fix=$(sed -n 's/^fix: //p' said)
	# shellcheck disable=SC2086 # words
	LIBP4D=$library python3 "$source/doc/examples/check_job.py" --conf=p4d.conf $fix large.sh >said || fail "$fix: $(cat said)"
	grep -q '^verdict: pass' said || fail "$fix: $(cat said)"
fi
