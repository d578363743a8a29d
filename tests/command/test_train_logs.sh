#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What p4d-train writes for those who watch: event files for TensorBoard, and logs that cannot be written.
. "${0%/*}/lib.sh"
by_hand
seq 1 400 >text
exits 0 p4d data -o tokens text
model="--model custom --layers 2 --hidden 32 --ffn 48 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 64
	--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32 --global-batch 4 --device cpu"
# shellcheck disable=SC2086 # a list of words
train() { p4d-train $model --data tokens --lr 1e-2 "$@"; }
# count TEXT FILE: lines or records that have it
count() { grep -ao "$1" "$2" | wc -l; }

# each step and each validation once in each file; a continued run has its own file
exits 0 train --steps 4 --save-every 2 --checkpoint run --tensorboard board --valid-data own=tokens --eval-every 2 --log log
silent
first=$(ls board)
[ "$(count train/loss "board/$first")" = 4 ] || fail "not four steps: $(ls -l board)"
[ "$(count validation/own "board/$first")" = 2 ] || fail "not two validations"
for tag in train/gradient_norm train/learning_rate performance/tokens_per_second performance/memory_gib; do
	[ "$(count $tag "board/$first")" = 4 ] || fail "no $tag"
done
[ "$(count performance/mfu "board/$first")" = 0 ] || fail "an MFU of a processor whose peak nobody knows"
rm -r run/step-00000004
exits 0 train --local-ranks 2 --tp 2 --steps 5 --save-every 2 --checkpoint run --tensorboard board --log log
second=$(find board -type f ! -name "$first" -exec basename {} \;)
[ "$(echo "$second" | wc -l)" = 1 ] && [ "$(count train/loss "board/$second")" = 3 ] || fail "not the steps 3, 4 and 5: $(ls -l board)"
# Event.step 3 and SessionLog.START: readers drop steps 3 and 4 of the first file
head -c 200 "board/$second" | od -An -v -tx1 | tr -d ' \n' | grep -q 10033a020801 || fail "nothing says that it goes on with step 3"

# beside --log, standard output that is no terminal has events and some of the steps: here the first and the last
exits 0 train --steps 9 --log text.log --checkpoint said
silent
[ "$(echo "$out" | sed -n 's/^\(step [0-9/]*  [a-z]*\).*/\1/p')" = "step 1/9  loss
step 9/9  loss
step 9  checkpoint" ] || fail "other lines: $out"
prints "1 ranks: tp 1" "memory of rank 0"
[ "$(count '"event":"step"' text.log)" = 9 ] || fail "not nine steps: $(cat text.log)"

# what neither the user nor the plan says is assumed aloud; the z-loss is in the gradient, not in the logged loss
# shellcheck disable=SC2086
exits 0 p4d-train ${model%--global-batch*} --device cpu --data tokens --steps 1
says "p4d-train assumes --global-batch=1, which affects the trained model" "fix: --global-batch=1"
for z in 0 0.1; do
	exits 0 train --steps 2 --z-loss $z --log z$z.log
	sed -n 's/.*"step":\([12]\),.*"loss":\([^,]*\),.*/\1 \2/p' z$z.log >z$z
done
[ "$(head -n 1 z0)" = "$(head -n 1 z0.1)" ] && [ "$(tail -n 1 z0)" != "$(tail -n 1 z0.1)" ] || fail "z-loss: $(cat z0 z0.1)"

# a folder that cannot be made; one message for logs that cannot be written, and training goes on
refused P4D003 train --steps 1 --tensorboard nosuch/board
says "--tensorboard nosuch/board: cannot be created: No such file"
refused P4D003 train --steps 1 --log nosuch/log
says "--log nosuch/log: No such file"
if [ -c /dev/full ]; then
	exits 0 train --steps 3 --log /dev/full --checkpoint full
	says "[P4D003] --log /dev/full cannot be written: No space left on device; training continues without it"
	[ "$(echo "$err" | wc -l)" = 1 ] || fail "it is said more than once"
	[ -d full/step-00000003 ] || fail "it did not go on"
fi

# a trace: the passes of the simulated step in lanes of the same names, each rank's behind each other
# passes FILE PROCESS: lane and name of each pass, in order
passes() { sed -n "s/.*\"name\":\"\([a-z ]*\)\",\"ph\":\"X\",\"pid\":$2,\"tid\":\([0-9]*\),.*\"micro_batch\":\([0-9]*\).*/\2 \1 \3/p" "$1"; }
layout="--tp 2 --pp 2 --schedule zb1p --micro-batch 1"
# shellcheck disable=SC2086
{
	exits 0 train $layout --local-ranks 4 --steps 3 --trace real.json --log traced.log
	silent
	exits 0 p4d simulate $model $layout --nodes 1 --gpus-per-node 4 --framework p4d --trace simulated.json
}
passes simulated.json 0 >want
for process in 1 2; do
	passes real.json $process | grep -Ev 'gather|receive|reduce|optimizer' | sort -s -n -k 1,1 >got
	[ "$(wc -l <got)" = 24 ] || fail "not 24 passes: $(cat got)"
	cmp -s got want || fail "other passes than simulated: $(diff got want)"
done
for name in "receive forward" "receive backward" "reduce gradients" optimizer; do
	passes real.json 1 | grep -q "$name" || fail "no $name"
done
for file in real simulated; do
	for lane in 0 1; do
		grep -q "\"thread_name\".*\"tid\":$lane,\"args\":{\"name\":\"stage $lane\"}" $file.json || fail "$file: no lane of stage $lane"
	done
done
grep -q 'measured: tp 1, cp 0, dp 0' real.json || fail "no name of a replica"
sed -n 's/.*"pid":\([0-9]*\),"tid":\([0-9]*\),"ts":\([0-9.]*\),"dur":\([0-9.]*\).*/\1.\2 \3 \4/p' real.json | awk '
	$2 + 0.01 < end[$1] { print "overlaps: " $0; bad = 1 } { end[$1] = $2 + $3 } END { exit bad || NR < 48 }' || fail "passes of a lane overlap"
[ "$(tail -n 1 real.json)" = ']}' ] || fail "the trace has no end"
refused P4D001 train --steps 3 --trace real.json,4
says "step 4 is not in this run, which has steps 1 to 3" "fix: --trace real.json,3"
refused P4D003 train --steps 3 --trace nosuch/real.json
says "nosuch/real.json"
exits 0 train --steps 1 --trace once.json
[ "$(passes once.json 1 | grep -c ' forward')" = 4 ] || fail "the only step is not traced: $(cat once.json)"
refused P4D003 p4d simulate --model llama7b --gpu h100 --trace nosuch/simulated.json

# documents of one token have no label: nothing is trained, and the run says so
seq 1 8 | sed 's/.*/{"input_ids": [&]}/' >one.jsonl
exits 0 p4d data --tokenizer ids --vocab 257 -o one one.jsonl
exits 51 train --data one --sequences packed --steps 2 --log empty.log
says "step 2: no token has had a label for 2 steps in a row"
[ "$(count '"applied":false,"nonfinite":0,"kind":"empty"' empty.log)" = 2 ] || fail "not two empty steps: $(cat empty.log)"

# started by torchrun or mpirun: trains like forked ranks
exits 0 train --steps 2 --local-ranks 2 --tp 2 --log forked.log
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1"; }
launched() # LOG VARIABLE-OF-RANK VARIABLE=VALUE...
{
	log=$1
	of_rank=$2
	of_local=$3
	shift 3
	# shellcheck disable=SC2086
	env "$of_rank=1" "$of_local=1" "$@" p4d-train $model --data tokens --lr 1e-2 --steps 2 --tp 2 >other 2>&1 &
	exits 0 env "$of_rank=0" "$of_local=0" "$@" p4d-train $model --data tokens --lr 1e-2 --steps 2 --tp 2 --log "$log"
	wait $! || fail "rank 1: $(cat other)"
	[ "$(losses "$log")" = "$(losses forked.log)" ] || fail "$log: $(cat "$log")"
}
port=$((20000 + $$ % 10000))
launched torchrun.log RANK LOCAL_RANK WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
launched agent.log RANK LOCAL_RANK WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port TORCHELASTIC_USE_AGENT_STORE=True \
	"TORCHELASTIC_RUN_ID=$port"
launched mpirun.log OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 "PMIX_NAMESPACE=test-$port"
launched mpiexec.log PMI_RANK MPI_LOCALRANKID PMI_SIZE=2 MPI_LOCALNRANKS=2 "PMI_JOBID=test-$port"
exits 50 env RANK=1 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 p4d-train --data tokens --steps 2
[ -z "$err" ] || fail "rank 1 speaks: $err"
exits 50 env RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 p4d-train --data tokens --steps 2
says "LOCAL_RANK is not set"
! grep -q srun .err || fail "not of srun"
# a variable RANK of the user's own, the rank of an adapter for instance, makes no other process
for rank in 16 ''; do
	exits 1 env "RANK=$rank" p4d-train --steps 2
	says "--data is missing"
done
exits 50 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=elsewhere p4d-train --data tokens --steps 2
says "LOCAL_WORLD_SIZE is not set, so p4d-train does not know which ranks are on the same node" "fix: export LOCAL_RANK and LOCAL_WORLD_SIZE"
exits 50 env RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 p4d-train --data tokens --steps 2
says "MASTER_ADDR is not set: the ranks are on 2 nodes"
exits 55 env RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h1 p4d-train --data tokens --steps 2
