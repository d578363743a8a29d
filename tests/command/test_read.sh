#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What p4d reads from job scripts as people write them: tests/data/scripts, each with the complete answer next to it.
. "${0%/*}/lib.sh"

cp "$P4D_TEST_SRCDIR"/tests/data/scripts/* .
HOME=/home/u
export HOME
unset MODEL_SIZE MBS PP FLAGS PYTHONPATH
count=0
for script in *.read; do
	script=${script%.read}
	exits 0 p4d read $script.sh
	[ "$out" = "$(cat $script.read)" ] || fail "$script.sh: the answer is another one, see diff $(printf '%s\n' "$out" | diff - $script.read)"
	silent
	count=$((count + 1))
done
[ $count -ge 33 ] || fail "only $count scripts were read"

# The options printed for pasting are accepted, with the numbers of the script.
exits 0 p4d read arrays.sh
command=$(printf '%s\n' "$out" | sed -n 's/^  \(p4d estimate .*\)/\1/p')
# shellcheck disable=SC2086 # a command
exits 0 $command --gpu h100
prints "on 8 nodes of 8" "tp 2, cp 2"

# So is one of a model without experts, whose script says something of them.
echo "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \
	--max-position-embeddings 4096 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --bf16 \
	--tensor-model-parallel-size 8 --expert-model-parallel-size 1 --moe-token-dispatcher-type alltoall" >dense.sh
exits 0 p4d read dense.sh
prints "ep                   1              dense.sh:1"
command=$(printf '%s\n' "$out" | sed -n 's/^  \(p4d estimate .*\)/\1/p')
# shellcheck disable=SC2086 # a command
exits 0 $command --gpu h100
prints "tp 8"

# Configurations in folders with long names, which name other files next to them.
folder=$PWD/$(printf 'portfolio_of_the_project_%.0s' 1 2 3 4 5)/$(printf 'experiments_of_this_year_%.0s' 1 2 3 4 5)
mkdir -p "$folder"
cp nemo_rl_base.yaml nemo_rl_recipe.yaml "$folder"
echo "python examples/run_grpo.py --config $folder/nemo_rl_recipe.yaml" >long.sh
exits 0 p4d read long.sh
prints "seq-len              4096 " "tp                   2 "
echo "axolotl train $folder/$folder/$folder.yaml" >long.sh
exits 0 p4d read long.sh
prints "characters, too long for p4d"

# A list that is put together line by line is read, as long as people's are.
{
	echo 'DATA="" ROOT=/corpus/v3.0/tokenized_v3.0'
	seq 200 | sed 's|.*|DATA="${DATA} 14486363187 ${ROOT}/train/code/part_&.jsonl_text_document"|'
	echo 'torchrun pretrain_gpt.py --data-path $DATA --num-layers 40'
} >list.sh
exits 0 p4d read list.sh
prints "layers               40             list.sh:202"

# The environment and arguments of the script count.
export MODEL_SIZE=1B
exits 0 p4d read sizes.sh
prints "hidden               2048           sizes.sh:8"
unset MODEL_SIZE
export MBS=3
exits 0 p4d read parse.sh --tp 4 --pp=2 --num-query-groups 4
prints 'tp                   4              $2'
prints 'pp                   2              $3'
prints 'micro-batch          3              $MBS'

exits 0 p4d read --json unknown.sh
prints '"framework":"megatron"'
prints '"from":"unknown.sh:13"'
prints '"why":"output of nvidia-smi"'
exits 0 p4d read unknown.sh --json
prints '"layers":'

# A given but unknown value is not the default, and the fix has nothing that a shell would read differently.
exits 0 p4d read unknown.sh
case $out in *"  tp       "*"Not known"* | *"p4d estimate"*" --tp="*) fail "tp is given, though not known" ;; esac
case $out in *"  sequence-parallel "*"Not known"* | *"p4d estimate"*" --sequence-parallel="*) fail "a flag of a test is a default" ;; esac
echo "python run_clm.py --do_train --model_name_or_path 'gpt2; touch ran' --block_size 1024" >quote.sh
exits 0 p4d read quote.sh
case $out in *"p4d estimate"*) fail "a command of the script is offered to be pasted" ;; esac
echo "torchrun pretrain_gpt.py --seq-length '8192; touch ran' --num-layers 1,2" >quote.sh
exits 0 p4d read quote.sh
case $out in *"p4d estimate"*ran*) fail "a command of the script is offered to be pasted" ;; esac
prints "layers               p4d does not know the value 1,2 (quote.sh:1)"
echo 'python convert.py --tensor-model-parallel-size 1; torchrun pretrain_gpt.py --tensor-model-parallel-size 8' >two.sh
exits 0 p4d read two.sh
prints "tp                   8 "
echo 'torchrun train_t5.py --tensor-model-parallel-size 8' >other.sh
exits 0 p4d read other.sh
prints "p4d does not know the program train_t5.py, which has arguments like megatron" "tp                   8 "
sed -i '1i #!/bin/sh' other.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 other.sh
silent
sed -i 's/$/ --num-layers 24 --hidden-size 1024/' other.sh
sed -i '1s/.*/#!\/bin\/sh/' other.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 other.sh
says "[P4D117] p4d does not know the program train_t5.py; its memory was not checked"

# Hostile scripts get an answer, and p4d runs nothing of a script.
printf '#!/bin/sh\ntouch ran\n$(touch ran)\nX=`touch ran`\npretrain_gpt.py --num-layers $(touch ran) --hidden-size $(./run)\n' >run.sh
exits 0 p4d read run.sh
prints "--num-layers (run.sh:5) has no value" "output of ./run"
[ ! -e ran ] || fail "a command of the script was run"
awk 'BEGIN { for (i = 0; i < 200000; i++) printf "$(("; }' >deep.sh
exits 0 p4d read deep.sh
prints "p4d did not read the script to its end"
awk 'BEGIN { print "A=xxxxxxxx"; for (i = 0; i < 60; i++) print "A=$A$A"; }' >bomb.sh
exits 0 p4d read bomb.sh
prints "p4d did not read the script to its end"
echo 'while :; do f() { f; }; f; done' >loop.sh
exits 0 p4d read loop.sh
prints "p4d found no training program"

# An unknown program is named if a launcher of trainings starts it, but not if a shell does.
printf '#!/bin/sh\n./prepare --steps 3\nsrun torchrun --nproc_per_node 8 src/own.py --width 8\naccelerate launch other.py\n' >own.sh
exits 0 p4d read own.sh
prints "own.sh: p4d does not know src/own.py (own.sh:3)"
exits 0 p4d read --json own.sh
prints '"framework":null' '"program":"src/own.py"' '"from":"own.sh:3"'
exits 0 p4d check own.sh
prints "the job has no p4d options, and p4d does not know the program src/own.py (own.sh:3), not checked" "To find out the memory of each GPU: p4d rehearse own.sh"
# An exit for want of a variable or an argument is named, not one at the end.
printf '#!/bin/bash\nif [ -z "$WORKSPACE" ]; then\n\techo no; exit 1\nfi\ntorchrun pretrain_gpt.py --num-layers 2\n' >asks.sh
exits 0 p4d read asks.sh
prints "asks.sh: p4d found no training program; it exits at asks.sh:3"
exits 0 p4d read --json asks.sh
prints '"exit":"asks.sh:3"'
exits 0 p4d check asks.sh
prints "the job has no p4d options; its script exits at asks.sh:3, before any training, not checked"
exits 0 env WORKSPACE=/w p4d read asks.sh
prints "pretrain_gpt.py (megatron)"
printf '#!/bin/bash\n./prepare\n(exit 3)\nexit 0\n# done\n' >ends.sh
exits 0 p4d read ends.sh
[ "$out" = "ends.sh: p4d found no training program" ] || fail "an exit at the end is named"
printf '#!/bin/sh\nsrun ./prepare --steps 3\n' >own.sh
exits 0 p4d check own.sh
prints "p4d: would pass: the job has no p4d options, not checked"
mkfifo pipe
exits 3 p4d read pipe
exits 3 p4d read nowhere.sh
says "No such file"
exits 1 p4d read
says "no job script given"

# More unknown values than p4d keeps: the dropped ones may be anything, so the job is not checked.
{
	echo '#!/bin/sh'
	for i in $(seq 40); do
		echo ". /shared/env$i.sh"
	done
	echo "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \
		--max-position-embeddings 4096 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --bf16 --optimizer-cpu-offload"
} >many.sh
exits 0 p4d read many.sh
prints "/shared/env31.sh cannot be read" "arguments            more than 31 values are unknown"
exits 0 p4d check --conf p4d.conf -N1 --gpus-per-node=8 many.sh
says "[P4D117] many.sh:42 (pretrain_gpt.py) was not checked"
