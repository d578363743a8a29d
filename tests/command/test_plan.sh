#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d plan: its proposals are accepted; if nothing fits, p4d says what would.
. "${0%/*}/lib.sh"

exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8
silent
prints "on 8 nodes of 8 x h100-80gb" "Flags for sbatch:"
for column in rank tp cp pp vpp dp micro-batch schedule recompute GiB fraction step tokens/s/GPU MFU bubble "limited by"; do
	printf '%s\n' "$out" | grep "^rank" | grep -q -- "$column" || fail "no column $column"
done
prints "Layouts of p4d-train (--framework p4d). For others: --framework megatron|"
exits 0 p4d plan meta-llama/Meta-Llama-3-70B --gpu a100 --nodes 8
prints "Layouts of p4d-train (--framework p4d), also for names of the hub. For others: --framework megatron|"
case $(p4d plan llama3-70b --gpu a100 --nodes 8 --top 1 2>&1) in "p4d: [P4D011]"*rank*) ;; *) fail "the GPU comes after the answer" ;; esac
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --all
# one global batch for all layouts, and where it comes from
prints "global batch 512 (assumed: 4.2M tokens a step; --global-batch sets it)"
# the first layout is among the fastest, and of those none takes less memory, in steps of 2 %
printf '%s\n' "$out" | sed -n '/^rank/,/^$/s/.*  \([0-9.]*\) %  *[0-9.]* s  *\([0-9]*\)  *[0-9.]* %  *[0-9.]* %  *[a-z].*/\2 \1/p' >rates
[ "$(wc -l <rates)" = 5 ] || fail "not five rates"
awk '{ r[NR] = $1; m[NR] = int($2 / 2); if ($1 > top) top = $1 }
	END { for (i = 1; i <= NR; i++) if (r[1] * 1.016 < top || (r[i] * 1.014 > top && m[i] < m[1])) exit 1 }' rates ||
	fail "not the least memory among the fastest"
exits 0 p4d plan --model llama2-70b --gpu h100 --nodes 8
prints "global batch 1024 (the model's; --global-batch sets it)"
exits 0 p4d plan --model llama2-70b --gpu h100 --nodes 8 --global-batch 256
printf '%s\n' "$out" | grep -qx "[0-9]* tokens per sequence, global batch 256" || fail "not the batch that was given"
exits 0 p4d check --conf p4d.conf -p h100 -N8 --gpus-per-node=8 --p4d-model=llama3-70b --wrap=true
says "global-batch=512 (assumed: 4.2M tokens a step; --p4d-global-batch sets it)"
# what p4d-train would gain, and no more of it when it is asked for
exits 0 p4d plan --framework p4d --model llama3-70b --gpu h100 --nodes 4 --tp 8 --top 1
prints "p4d: --tp-comm-overlap=on: a step of the first layout would take"
exits 0 p4d plan --framework p4d --model llama3-70b --gpu h100 --nodes 4 --tp 8 --top 1 --tp-comm-overlap on
prints "--p4d-tp-comm-overlap=on"
# where no layout satisfies a rule, the fix is for that rule, and not for too little memory
refused P4D013 p4d plan --framework p4d --model llama2-13b --gpu h100 --nodes 4 --local-loss stage
says "local-loss=stage trains a different model for each division into stages" "fix: --local-loss=off"
case $err in *"without more GPUs"*) fail "ways out of too little memory" ;; esac
refused P4D013 p4d plan --framework p4d --model llama2-13b --gpu h100 --nodes 4 --tp 8 --tp-grid 3,1,1
says "tp-grid=3,1,1 has 3 ranks, but tp=8" "fix: --tp-grid=8,1,1"
# the best grid for 8 tensor-parallel ranks, which estimate takes as printed
exits 0 p4d plan --framework p4d --model llama2-13b --gpu h100 --nodes 4 --tp 8 --top 1 --tp-grid auto
prints "8 (1,1,8)" "--p4d-tp-grid=1,1,8"
exits 0 p4d plan --framework p4d --model llama2-13b --gpu h100 --nodes 4 --tp 8 --tp-grid auto --env
prints "unset P4D_MEGATRON_ARGS # Megatron-LM has no tp-grid"
# nor those of another plan
(P4D_MEGATRON_ARGS=other; eval "$out"; [ "$P4D_TP${P4D_MEGATRON_ARGS-}" = 8 ]) || fail "arguments for Megatron-LM, which has no grids"
exits 0 p4d estimate --framework p4d --model llama2-13b --gpu h100 --nodes 4 --tp 8 --tp-grid 2,2,2 --micro-batch 2
prints "tp 8 (2,2,2)"
exits 0 p4d estimate --framework p4d --model llama2-13b --gpu h100 --nodes 4 --tp 8 --tp-grid 2,2,2 --micro-batch 2 --json
printf '%s' "$out" | tr -d ' \n' | grep -q '"tp_grid":\[2,2,2\]' || fail "no grid in JSON"
silent
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --top 12 --all
[ "$(printf '%s\n' "$out" | grep -c '^ *[0-9][0-9]*  --p4d-model=')" = 12 ] || fail "not twelve plans"

# the guard accepts every proposal unchanged
printf '%s\n' "$out" | sed -n 's/^ *[0-9][0-9]*  \(--p4d-model=.*\)/\1/p' >plans
[ "$(wc -l <plans)" = 12 ] || fail "flags are not on lines of their own"
printf '#!/bin/sh\ntrue\n' >any.sh
while read -r flags; do
	exits 0 p4d check --conf p4d.conf -p h100 -N8 --gpus-per-node=8 $flags any.sh
	case $err in *P4D110*) fail "the guard had to choose something with $flags" ;; esac
done <plans

# Layouts that p4d cannot tell apart are one row, and "also" has the options in which they differ. --all and --json
# have all of them, in the same order, and a group is what one row has.
many="p4d plan --model llama2-13b --gpu a100-80gb --nodes 4 --framework p4d --top 20"
exits 0 $many --all
case $out in *also:*|*"tell apart"*) fail "--all folds rows" ;; esac
printf '%s\n' "$out" | sed -n 's/^ *\([0-9][0-9]*  --p4d-model=.*\)/\1/p' >all
[ "$(wc -l <all)" = 20 ] || fail "not twenty plans"
exits 0 $many
prints "Layouts with the same memory and step time share a row. --all prints a row for each layout."
printf '%s\n' "$out" | sed -n 's/^ *\([0-9][0-9]*  --p4d-model=.*\)/\1/p' >rows
[ "$(wc -l <rows)" -lt 20 ] || fail "no row was folded"
head -n 1 all | cmp -s - "$(head -n 1 rows >first && echo first)" || fail "another first row"
grep -vxFf all rows && fail "a row that --all does not have"
# every rank is a row or in an "also" of the row before
printf '%s\n' "$out" | sed -n '/^rank/,/^$/p' >table
{
	sed -n 's/^ *\([0-9][0-9]*\)  .*/\1/p' table
	grep -o '(rank [0-9]*)' table | tr -dc '0-9\n'
} | sort -n >ranks
seq 1 20 | cmp -s - ranks || fail "not all ranks: $(cat table)"
# what "also" says, put into the options of its row, makes the options of that rank
sed -n 's/^ *\([0-9][0-9]*\)  .*/row \1/p; s/^ *also: //p' table | sed 's/), /)\n/g' | while read -r one two; do
	[ "$one" != row ] || { row=$two; continue; }
	rank=$(echo "$one $two" | sed 's/.*(rank \([0-9]*\))/\1/')
	# an exchange belongs to cp above 1
	want=$(sed -n "s/--p4d-cp-comm=p2p //; s/^ *$rank  //p" all) flags=$(sed -n "s/--p4d-cp-comm=p2p //; s/^ *$row  //p" all)
	for change in $(echo "$one $two" | sed 's/ *(rank.*//'); do
		flags=$(echo " $flags" | sed "s/ --p4d-${change%%=*}=[^ ]*/ --p4d-$change/; s/^ //")
	done
	[ "$flags" = "$want" ] || fail "rank $rank: $flags is not $want"
done || exit 1
exits 0 $many --json
printf '%s\n' "$out" | sed -n 's/^ *"group": *\([0-9]*\).*/\1/p' >groups
[ "$(wc -l <groups)" = 20 ] || fail "JSON lacks groups"
[ "$(sort -u groups | wc -l)" = "$(wc -l <rows)" ] || fail "groups are not rows"
sort -un groups | cmp -s - "$(sed 's/  .*//' rows | sort -n >leaders && echo leaders)" || fail "a group is not its first rank"
# nothing is folded without step times
exits 0 p4d plan --model qwen2.5-0.5b --gpu mi250x --gpus 8 --framework megatron
case $out in *also:*) fail "folded without step times" ;; esac

# flags also contain what FSDP has anyway: those of each layout are accepted
exits 0 p4d plan --model mistral-7b --gpu l4 --nodes 4 --gpus-per-node 8 --framework fsdp --cp 2 --all
printf '%s\n' "$out" | sed -n 's/^ *[0-9][0-9]*  \(--p4d-model=.*\)/\1/p' >plans
[ "$(grep -c -- '--p4d-cp=2 --p4d-cp-comm=all-gather' plans)" = 5 ] || fail "FSDP's exchange is not in the flags"
while read -r flags; do
	exits 0 p4d check --conf p4d.conf -p h100 -N4 --gpus-per-node=8 $flags any.sh
done <plans
exits 0 p4d check --conf p4d.conf -p h100 -N4 --gpus-per-node=8 --p4d-model=mistral-7b --p4d-framework=fsdp --p4d-cp=1 any.sh
case $err in *P4D110*cp-comm=*) fail "an exchange was chosen where there is none" ;; esac

# --env prints the layout that sbatch would choose (the fastest below `safe`); it is among the proposals
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --env
silent
eval "$out"
case $P4D_PLAN in p4d1:model=llama3-70b@u:*:nodes=8@u:gpus-per-node=8@u:hash=*) ;; *) fail "no plan line: $P4D_PLAN" ;; esac
case $P4D_PLAN in *":tp=$P4D_TP@p:"*) ;; *) fail "P4D_TP is $P4D_TP" ;; esac
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --top 60 --json
prints "$P4D_PLAN"

# what the user set is kept
exits 0 p4d plan --model llama3-70b --gpu h100 --nodes 8 --tp 4 --recompute full --all
[ "$(printf '%s\n' "$out" | grep -c '^ *[0-9][0-9]*  .*--p4d-tp=4 .*--p4d-recompute=full')" = 5 ] || fail "tp or recompute was changed"

# nothing fits: the fix names a larger job that does
refused P4D013 p4d plan --model llama3-70b --gpu h100
says "does not fit on 1 x 8 h100-80gb: the best layout needs " "of 79.1 GiB (limit 97 %), " "are parameters, gradients and optimizer states, with " "p4d searched tp, cp, pp," "without more GPUs: --offload=optimizer, LoRA (--finetune=lora, " "p4d: fix: p4d estimate "
fix=$(fix)
exits 0 $fix
# the named alternatives also work: with the states on the host, a node needs enough memory for them
exits 0 p4d plan --model llama3-70b --gpu h100 --offload=optimizer
exits 13 p4d plan --model llama3-8b --gpu h100 --gpus-per-node 1
exits 0 p4d plan --model llama3-8b --gpu h100 --gpus-per-node 1 --offload=optimizer
refused P4D013 p4d plan --model llama3-70b --gpu h100 --mem=400G
says "without more GPUs: LoRA (--finetune=lora, "
# nothing fits with these flags: the fix keeps the number of GPUs
exits 13 p4d plan --model llama13b --gpu h100 --nodes 1 --tp 1 --pp 1 --cp 1
says "--nodes=1 --gpus-per-node=8"
fix=$(fix)
exits 0 $fix
exits 13 p4d plan --model llama3.1-405b --gpu h100 --nodes 1
# 126 layers: pipelines of 8, 16 and 32 stages count the embedding and the loss as layers, as NVIDIA and Meta ran it
model405="--model llama3.1-405b --framework megatron --gpu h100 --nodes 64 --gpus-per-node 8"
# shellcheck disable=SC2086 # options
exits 0 p4d plan $model405 --global-batch 256 --seq-len 8192 --grad-dtype bf16 --tp-comm-overlap on --overlap-dp on \
	--allocator expandable --cross-entropy fused
prints "interleaved" "Layouts whose step times differ by less than 1.5 %"
step=$(echo "$out" | awk '$1 == 1 && $8 == "interleaved" { print $13 }')
[ "$step" ] || fail "no step time"
flags=$(echo "$out" | sed -n 's/^ *1  --p4d-/--p4d-/p' | sed 's/--p4d-/--/g')
case $flags in
*--account-for-embedding=on*--account-for-loss=on*) ;;
*) fail "embedding and loss do not count as layers: $flags" ;;
esac
# shellcheck disable=SC2086 # options
exits 0 p4d estimate $flags --gpu h100 --nodes 64 --gpus-per-node 8
prints "Step: $step s"
# the user's word
# shellcheck disable=SC2086 # options
exits 0 p4d plan $model405 --account-for-loss off
echo "$out" | grep -q account-for-embedding=on && fail "account-for-embedding=on beside the user's account-for-loss=off"
exits 13 p4d plan --model llama13b --gpu h100 --tp 7
says "meets the divisibility rules: tp=7 does not divide"
exits 13 p4d plan --model qwen2.5-7b --gpu h100 --tp 8
says "with 28 heads, 4 key/value heads and 8 GPUs per node tp can be 1, 2, 4"
# everything was set: nothing is searched, and a shorter sequence or another partition costs less than more nodes
exits 13 p4d plan --model llama3-8b --gpu h100 --gpus-per-node 1 --tp 1 --cp 1 --pp 1 --micro-batch 1 --recompute full \
	--schedule 1f1b --vpp 1 --vocab-parallel off
says "searched no others, because the command sets every layout option"
printf 'partition "small" {\n\tgpu = "a100-40gb"\n\tgpus_per_node = 8\n\tdefault = true\n}\npartition "big" {\n\tgpu = "b200-180gb"\n\tgpus_per_node = 8\n}\nmode = enforce\nversion = 1\n' >big.conf
exits 13 p4d plan --conf big.conf --model llama3-70b
says "without more GPUs: --gpu=b200-180gb (partition big), "
exits 0 p4d plan --conf big.conf --model llama3-70b --gpu=b200-180gb
exits 13 p4d check --conf big.conf -p small -N1 --gpus-per-node=8 --p4d-model=llama3-70b --wrap=true
says "without more GPUs: --partition=big (b200-180gb), LoRA (--p4d-finetune=lora, " "p4d: fix: --nodes="
exits 0 p4d check --conf big.conf -p small -N1 --gpus-per-node=8 --p4d-model=llama3-70b --partition=big --wrap=true
# if no number of GPUs is enough, the fix is the alternative that changes training least
for framework in ddp "deepspeed --zero-stage 0"; do
	exits 13 p4d plan --framework $framework --model llama3.1-8b --gpu a100-80gb --nodes 1
	says "without more GPUs: " "LoRA (--finetune=lora, " "p4d: fix: p4d estimate "
	fix=$(fix)
	case $fix in *--finetune* | *--seq-len=[0-3]*) fail "the fix trains something else" ;; esac
	exits 0 $fix
done
printf 'partition "a100" {\n\tgpu = "a100-80gb"\n\tgpus_per_node = 4\n}\nscripts = judge\nmode = enforce\nversion = 1\n' >zero.conf
printf '{"bf16": {"enabled": true},\n "zero_optimization": {\n  "stage": 0}}\n' >ds.json
printf '#!/bin/sh\nsrun torchrun --nproc_per_node 4 run_clm.py --do_train --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --block_size 4096 \\\n --per_device_train_batch_size 2 --gradient_checkpointing --deepspeed ds.json\n' >zero.sh
exits 13 p4d check --conf zero.conf -p a100 -N1 --gpus-per-node=4 --ntasks-per-node=1 zero.sh
says 'fix: ds.json:3: "stage": 1'
printf '%s\n' "$err" | grep -q 'fix:.*without' && fail "what is to be changed is to be left out"
sed -i 's/"stage": 0/"stage": 1/' ds.json
exits 0 p4d check --conf zero.conf -p a100 -N1 --gpus-per-node=4 --ntasks-per-node=1 zero.sh
# ZeRO-2 keeps whole parameters: offloaded ones are sharded first
sed -i 's/Llama-3.1-8B/Llama-3.1-70B/' zero.sh
sed -i 's/"stage": 1/"stage": 2/' ds.json
exits 13 p4d check --conf zero.conf -p a100 -N1 --gpus-per-node=4 --ntasks-per-node=1 zero.sh
says "without more GPUs: --p4d-zero-stage=3 --p4d-offload=optimizer" 'fix: --mem=' 'G; ds.json:3: "stage": 3; in ds.json: "offload_optimizer": {"device": "cpu"}'
# also where the script writes the file itself
{ printf '#!/bin/sh\ncat >z.json <<J\n' && cat ds.json && printf 'J\n' && sed '1d; s/ds.json/z.json/' zero.sh; } >own.sh
exits 13 p4d check --conf zero.conf -p a100 -N1 --gpus-per-node=4 --ntasks-per-node=1 own.sh
says 'own.sh:5: "stage": 3; in own.sh: "offload_optimizer": {"device": "cpu"}'
printf '#!/bin/sh\ncat >acc.yaml <<Y\ndistributed_type: DEEPSPEED\nnum_processes: 4\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 2\nY\n' >own.sh
sed '1d; s/torchrun --nproc_per_node 4/accelerate launch --config_file acc.yaml/; s/ --deepspeed ds.json//' zero.sh >>own.sh
exits 13 p4d check --conf zero.conf -p a100 -N1 --gpus-per-node=4 --ntasks-per-node=1 own.sh
says 'own.sh:7: zero_stage: 3; in own.sh: offload_optimizer_device: cpu'
# configuration files are mended in their own words: TOML, YAML with a batch that stays, and packed sequences, which refuse nobody
sed 's/a100-80gb/h100-80gb/; s/"a100"/"h100"/; s/= 4/= 8/' zero.conf >files.conf
cat >llama3.toml <<'TOML'
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 16
seq_len = 8192
[parallelism]
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "none"
TOML
printf '#!/bin/sh\nsrun torchrun --nnodes 4 --nproc_per_node 8 -m torchtitan.train --job.config_file llama3.toml\n' >titan.sh
exits 12 p4d check --conf files.conf -p h100 -N4 --gpus-per-node=8 --ntasks-per-node=1 titan.sh
says 'fix: llama3.toml:5: local_batch_size = 1; llama3.toml:10: mode = "full"; titan.sh:2: add --training.global_batch_size=256'
sed -i 's/local_batch_size = 16/local_batch_size = 1\nglobal_batch_size = 256/; s/"none"/"full"/' llama3.toml
exits 0 p4d check --conf files.conf -p h100 -N4 --gpus-per-node=8 --ntasks-per-node=1 titan.sh
cat >lora.yml <<'YAML'
base_model: meta-llama/Llama-3.1-8B
adapter: lora
lora_r: 16
lora_target_linear: true
gradient_checkpointing: false
sequence_len: 8192
sample_packing: false
micro_batch_size: 8
gradient_accumulation_steps: 2
optimizer: adamw_torch
bf16: true
flash_attention: true
YAML
printf '#!/bin/sh\naccelerate launch -m axolotl.cli.train lora.yml\n' >axolotl.sh
exits 0 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=8 axolotl.sh
wanted='lora.yml:8: micro_batch_size: 2; lora.yml:9: gradient_accumulation_steps: 8; lora.yml:5: gradient_checkpointing: true'
says "fix: $wanted"
sed 's/packing: false/packing: true/' lora.yml >packed.yml
sed 's/lora.yml/packed.yml/' axolotl.sh >packed.sh
exits 0 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=8 packed.sh
says "unvalidated (packed sequences)" "fix: packed.yml:8: micro_batch_size: 2"
case $err in *P4D112*) fail "seven times the GPU is above the safe fraction" ;; esac
sed -i 's/batch_size: 8/batch_size: 2/; s/steps: 2/steps: 8/; s/checkpointing: false/checkpointing: true/' lora.yml
exits 0 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=8 axolotl.sh
# sharding, in each program's words; adapters train something else, and are only named
plain="--model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 1 --bf16 --gradient_checkpointing"
printf '#!/bin/sh\naccelerate launch --num_processes 8 sft.py %s --max_length 2048\n' "$plain" >trl.sh
printf '#!/bin/sh\nNPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --train_type full --torch_dtype bfloat16 --attn_impl flash_attn \\\n  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --max_length 2048\n' >swift.sh
printf '#!/bin/sh\nFORCE_TORCHRUN=1 llamafactory-cli train --do_train %s --cutoff_len 2048 --finetuning_type full\n' "$plain" >factory.sh
# accelerate takes --multi_gpu or --use_deepspeed
sed 's/launch/launch --multi_gpu/' trl.sh >multi.sh
for way in "multi.sh multi.sh:2: replace --multi_gpu by --use_deepspeed --zero_stage 2" "trl.sh trl.sh:2: add --use_deepspeed --zero_stage 2 to accelerate launch" "swift.sh swift.sh:2: add --deepspeed zero2"; do
	exits 13 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=8 "${way%% *}"
	says "without more GPUs: DeepSpeed (--p4d-framework=deepspeed --p4d-zero-stage=2, " "LoRA (--p4d-finetune=lora, "
	[ "$(fix)" = "${way#* }" ] || fail "the fix is not ${way#* }"
done
exits 13 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=8 factory.sh
says "DeepSpeed (--p4d-framework=deepspeed --p4d-zero-stage=2, "
[ -z "$(fix)" ] || fail "p4d writes no configuration of DeepSpeed"
sed -i 's/launch/launch --use_deepspeed --zero_stage 2/' trl.sh
sed -i 's/swift sft/& --deepspeed zero2/' swift.sh
for script in trl swift; do
	exits 0 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=8 $script.sh
	prints "p4d: would pass: "
done
# DDP on too few GPUs for any sharding, from one on: the smallest number on which FSDP fits is named, and nothing is pasted
printf '#!/bin/sh\ntorchrun --nproc_per_node 1 run_clm.py --do_train --model_name_or_path meta-llama/Llama-2-13b-hf --per_device_train_batch_size 1 --bf16 --block_size 2048\n' >one.sh
exits 13 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=1 one.sh
says "without more GPUs: LoRA (--p4d-finetune=lora, " "; with more GPUs: FSDP on 1 x 4 ("
[ -z "$(fix)" ] || fail "a fix that does not change the program"
# and there the job passes, told so
sed 's/node 1/node 4/; s/--bf16/--bf16 --fsdp "full_shard auto_wrap"/' one.sh >four.sh
exits 0 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=4 four.sh
sed 's/-13b/-70b/' one.sh >large.sh
exits 13 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=1 large.sh
says "; with more GPUs: FSDP on "
sed -i "s/2048/16384/" large.sh
exits 13 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=1 large.sh
says "; with more GPUs: FSDP on 4 x 8 (" "GiB, recompute=full)"
# a single GPU has no other GPU to shard over
exits 13 p4d check --conf files.conf -p h100 -N1 --gpus-per-node=1 --p4d-model=qwen3-8b --p4d-framework=ddp --wrap=true
case $err in *framework=fsdp* | *framework=deepspeed*) fail "sharding on one GPU" ;; esac
# nodes that are named, and those of a reservation, are where they are
for bound in --nodelist=n1 --reservation=course; do
	exits 13 p4d check --conf big.conf -p small -N1 --gpus-per-node=8 --p4d-model=llama3-70b "$bound" --wrap=true
	says "without more GPUs: LoRA (--p4d-finetune=lora, "
done
# a part of a long sequence fits
exits 13 p4d check --conf big.conf -p small -N1 --gpus-per-node=1 --p4d-model=llama3.2-1b --p4d-seq-len=131072 --wrap=true
says "--p4d-seq-len="
shorter=$(printf '%s\n' "$err" | grep -o -- '--p4d-seq-len=[0-9]*' | head -n 1)
exits 0 p4d check --conf big.conf -p small -N1 --gpus-per-node=1 --p4d-model=llama3.2-1b "$shorter" --wrap=true

exits 1 p4d plan --model llama13b
says "without --gpu" "--gpu NAME"
exits 0 p4d plan --conf p4d.conf --model llama13b
prints "h100-80gb"

# a GPU without rates: no times, and a message
exits 0 p4d plan --model llama3.2-1b --gpu h100-7g.80gb --gpus-per-node 1 --seq-len 2048
says "[P4D014]" "h100-7g.80gb has no peak_bf16_tflops"
printf '%s\n' "$out" | grep "^rank" | grep -q MFU && fail "MFU of a GPU without rates"
exits 0 p4d plan --model llama3.2-1b --gpu h100-7g.80gb --gpus-per-node 1 --seq-len 2048 --json
prints '"step":null' '"losses":null' '"P4D014"'
exits 0 p4d estimate --model llama3.2-1b --gpu h100-7g.80gb --gpus-per-node 1 --seq-len 2048
prints "Step time: not predicted" "P4D014"
exits 0 p4d estimate --model llama3.2-1b --gpu h100-7g.80gb --gpus-per-node 1 --seq-len 2048 --json
prints '"step":null'
exits 0 p4d estimate --model llama3.2-1b --gpu h100 --gpus-per-node 1 --seq-len 2048
prints "Step: " "tokens/s per GPU" "MFU"
