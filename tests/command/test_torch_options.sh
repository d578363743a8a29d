#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Options of FSDP, DeepSpeed and DDP: each changes its memory, or is refused if it has no effect.
. "${0%/*}/lib.sh"

base="p4d estimate --json --gpu h200 --gpus-per-node 8 --model llama3.1-8b --seq-len 4096"

# part NAME OPTIONS: MiB of a memory class at the peak, or of the host ("needed")
part()
{
	name=$1
	shift
	# shellcheck disable=SC2086
	run $base "$@"
	printf '%s\n' "$out" | awk -v name="\"${name}_bytes\"" -v class="\"$name\"" -F: '
		!value && ($1 ~ class "$" || $1 ~ name "$") { gsub(/[^0-9]/, "", $2); value = $2 }
		END { printf "%d\n", value / 1048576 }'
}

# phase NAME OPTIONS: MiB allocated in it
phase()
{
	name=$1
	shift
	run p4d estimate --gpu h200 --gpus-per-node 8 --seq-len 1024 --micro-batch 1 "$@"
	printf '%s\n' "$out" | sed -n "s/^Phases of stage 0.*[ ,]$name \([0-9.]*\).*/\1/p" | awk '{ printf "%d\n", $1 * 1024 }'
}

# step OPTIONS: its tenths of milliseconds
step()
{
	run p4d estimate --gpu h200 --gpus-per-node 8 --seq-len 1024 --micro-batch 1 "$@"
	printf '%s\n' "$out" | awk '$1 == "Step:" { printf "%d\n", 10 * $2 * ($3 ~ /^ms/ ? 1 : 1000) }'
}

# about VALUE WANTED: within 2 %
about()
{
	if [ "$(($1 * 100))" -lt "$(($2 * 98))" ] || [ "$(($1 * 100))" -gt "$(($2 * 102))" ]; then
		fail "$1 instead of $2 MiB"
	fi
}

# 8.03e9 parameters are 15,317 MiB in bf16; DeepSpeed in fp32 holds twice as much, and a shard of the master copy
about "$(part params --framework deepspeed --zero-stage 2)" 15317
about "$(part params --framework deepspeed --zero-stage 2 --precision fp32)" 30634
about "$(part params --framework deepspeed --zero-stage 3 --precision fp32)" 3829

# FSDP of transformers' modules: the type of its shards, and offloading
fsdp="--framework fsdp --model-code transformers --recompute full"
# shellcheck disable=SC2086
{
	about "$(part params $fsdp)" 3829
	about "$(part params $fsdp --param-dtype bf16)" 1915
	about "$(part optimizer $fsdp --param-dtype bf16)" 3829
	about "$(part params $fsdp --offload params)" 0
	about "$(part optimizer $fsdp --offload optimizer,params)" 0
	# parameters in fp32, of 8 ranks; rank 0 gathers both moments
	about "$(part loading $fsdp)" 245069
	about "$(part saving $fsdp)" 61267
}
# a master copy and gradients in fp32, 4 GiB of 3.74 each, gradients in bf16, 2 of 1.87; two tensors of 8 ranks
about "$(part rounding --framework deepspeed --zero-stage 2 --offload optimizer --micro-batch 1 --global-batch 8)" 5505
about "$(part rounding --framework deepspeed --zero-stage 2 --offload none)" 0

# unfused AdamW: during the update another copy of one moment, for the rank's part
foreach()
{
	about "$(($(phase step --model llama3.1-8b "$@" --optimizer-foreach on) - $(phase step --model llama3.1-8b "$@")))" "$wanted"
}
wanted=15317 foreach --framework ddp
# shellcheck disable=SC2086
wanted=3829 foreach $fsdp
wanted=3829 foreach --framework fsdp
# with ZeRO-3 it is in fp32, for at most 1e9 elements, when gradients in 16 bits are freed; ZeRO-2 holds the same
# amount before
wanted=1907 foreach --framework deepspeed --zero-stage 3
wanted=0 foreach --framework deepspeed --zero-stage 2
wanted=0 foreach --framework deepspeed --zero-stage 3 --offload optimizer
# what DeepSpeed 0.19.8 and torch 2.15 allocate, on a GPU that only counts (make_transformers_memory.py)
small()
{
	run p4d estimate --gpu h200 --model custom --hidden 2048 --ffn 5632 --heads 32 --kv-heads 4 --head-dim 64 --vocab 32000 --tied off \
		--layers 16 --nodes 1 --gpus-per-node 2 --seq-len 512 --micro-batch 1 --global-batch 2 --framework deepspeed \
		--recompute full --packing on "$@"
	printf '%s\n' "$out" | sed -n "s/^Phases of stage 0.* step \([0-9.]*\).*/\1/p" | awk '{ printf "%d\n", $1 * 1024 }'
}
about "$(small --zero-stage 2 --optimizer-foreach on)" 9604
about "$(small --zero-stage 3)" 9753
about "$(small --zero-stage 3 --optimizer-foreach on)" 10550
# shellcheck disable=SC2086
about "$(phase step --model llama3.1-8b $fsdp --offload optimizer,params --optimizer-foreach on)" "$(phase step --model llama3.1-8b $fsdp --offload optimizer,params)"

# moments: 4 bits and a scale of fp32 for 128 of them; with 8 bits those of the embedding in fp32; paged ones are on the host
about "$(part optimizer --framework ddp --optimizer adamw-8bit)" 18548
about "$(part optimizer --framework ddp --optimizer adamw-4bit)" 8138
[ "$(part optimizer --framework ddp --optimizer paged-adamw)" -eq 0 ] || fail "paged moments are on the GPU"

# DDP with --fp16 trains parameters in fp32: a scaler of gradients takes no others
about "$(part params --framework ddp --precision fp16)" 30634

# the layers' activations are not the logits'; chunks of the loss have no logits of all tokens: 4096 x 128256 x 14 bytes
lora="--framework ddp --finetune lora --micro-batch 1"
# shellcheck disable=SC2086
{
	[ "$(part activations $lora)" -gt 20000 ] || fail "activations are counted elsewhere"
	about "$(part logits $lora)" "$(part logits $lora --recompute full)"
	[ "$(part logits $lora --chunked-loss on)" -lt 1000 ] || fail "a chunked loss has all logits"
	[ "$(part activations $lora --offload activations)" -lt 3000 ] || fail "activations on the host are on the GPU"
}

# host memory: 8 ranks with an allowance of 2 GiB each, and 4 + 8 + 4 + 2 bytes of a parameter (ZeRO-2: what was updated, and a
# gradient as large as the table; ZeRO-3: gradients in two types, and the parameters)
# shellcheck disable=SC2086
{
	about "$(part needed --framework deepspeed --zero-stage 2 --offload optimizer --micro-batch 1 --global-batch 8)" $((16384 + 9 * 15317 + 8 * 1002))
	# and gradients of earlier micro-batches
	about "$(part needed --framework deepspeed --zero-stage 2 --offload optimizer)" $((16384 + 10 * 15317 + 8 * 1002))
	about "$(part needed --framework deepspeed --zero-stage 3 --offload optimizer,params)" $((16384 + 10 * 15317))
	about "$(part needed $fsdp --offload params)" $((16384 + 8 * 15317))
	[ "$(part needed $lora --offload activations)" -gt 150000 ] || fail "activations are not on the host"
	about "$(part needed --framework deepspeed)" 0
}
exits 33 p4d estimate --gpu h200 --gpus-per-node 8 --model llama3.1-8b --framework deepspeed --zero-stage 2 --offload optimizer --mem 100G
says "[P4D033]" "fix: --mem=174G"

# what has no effect is refused, with an option that is accepted
refuses()
{
	# shellcheck disable=SC2086
	exits 5 p4d estimate --gpu h200 --gpus-per-node 8 --model llama3.1-8b --seq-len 4096 $1
	says "$2" "p4d: fix: $3"
}
# FSDP1: its modules are transformers', trained parameters are stored in fp32, and 31 more layers stay gathered
flat="--framework fsdp --fsdp-version 1 --recompute full --global-batch 8"
# shellcheck disable=SC2086
about "$(part params $flat --param-dtype bf16)" 3829
# shellcheck disable=SC2086
kept=$(($(part activations $flat --reshard-after-forward off) - $(part activations $flat)))
[ "$kept" -gt 12800 ] && [ "$kept" -lt 13400 ] || fail "layers that stay gathered are $kept MiB more"

# one more layer of 202M parameters in bf16 is gathered, and backward as many gradients wait
# shellcheck disable=SC2086
{
	flat="$flat --model llama2-7b"
	about $(($(phase evaluation $flat --forward-prefetch on) - $(phase evaluation $flat))) 386
	ahead=$(($(phase train $flat --forward-prefetch on) - $(phase train $flat)))
	[ "$ahead" -gt 400 ] && [ "$ahead" -lt 772 ] || fail "gradients that wait are $ahead MiB"
}
# ZeRO-2 fills a bucket of 1e9 elements while another is reduced; with stage 1 gradients leave as they come
zero="--model llama3.1-8b --framework deepspeed --recompute full --zero-bucket 1000000000"
# shellcheck disable=SC2086
{
	about $(($(phase train $zero --zero-stage 2 --overlap-dp on) - $(phase train $zero --zero-stage 2))) 1907
	# nothing hides gathers and reductions
	for stage in 1 2 3; do
		[ "$(step $zero --zero-stage $stage --overlap-dp off)" -gt "$(step $zero --zero-stage $stage --overlap-dp on)" ] ||
			fail "ZeRO-$stage is as fast without overlap"
	done
	less=$(($(phase train $zero --zero-stage 1) - $(phase train $zero --zero-stage 1 --overlap-dp on)))
	[ "$less" -gt 8000 ] || fail "stage 1 keeps all gradients while it reduces them: $less MiB"
}

refuses "--framework fsdp --offload optimizer" "FSDP can only offload parameters, gradients and optimizer together" "--offload=optimizer,params"
refuses "--framework fsdp --offload activations" "torchtitan keeps them on the GPU" "--recompute=full"
refuses "--framework deepspeed --zero-stage 2 --offload params" "ZeRO-2 keeps all parameters on every GPU" "--zero-stage=3"
refuses "--framework deepspeed --zero-stage 0 --offload optimizer" "can offload only sharded optimizer states" "--zero-stage=2"
refuses "--framework fsdp --offload weights" "offload=weights is only for inference engines" "--offload=optimizer,params"
refuses "--framework deepspeed --param-dtype fp32" "DeepSpeed holds parameters in --precision" "leave out --param-dtype"

refuses "--framework fsdp --model-code transformers --tp 2" "tp=2: with FSDP p4d models data parallelism only" "--tp=1"
refuses "--framework fsdp --finetune qlora --tp 8" "tp=8: with FSDP p4d models data parallelism" "--tp=1"
refuses "--framework fsdp --model-code transformers --recompute selective" "transformers has only none and full" "--recompute=full"
refuses "--framework fsdp --model-code transformers --backward-prefetch off" "backward-prefetch has no effect with FSDP2" "--fsdp-version=1"
refuses "--framework fsdp --model-code transformers --forward-prefetch on" "forward-prefetch has no effect with FSDP2" "--fsdp-version=1"
refuses "--framework ddp --overlap-dp off" "DDP overlaps communication with passes" "--overlap-dp=on"
refuses "--framework fsdp --model-code transformers --orig-params off" "orig-params has no effect with FSDP2" "--fsdp-version=1"
refuses "--framework fsdp --model-code torchtitan --fsdp-version 1" "torchtitan runs FSDP2" "leave out --fsdp-version"
refuses "--framework ddp --reshard-after-forward off" "DDP is not FSDP" "leave out --reshard-after-forward"
refuses "--framework ddp --optimizer sgd --optimizer-foreach on" "optimizer-foreach has no effect with optimizer=sgd" "leave out --optimizer-foreach"
refuses "--framework fsdp --lora-rank 8" "lora-rank has no effect without finetune=lora or qlora" "--finetune=lora"
refuses "--framework fsdp --lora-dropout on" "lora-dropout has no effect without finetune=lora or qlora" "--finetune=lora"
refuses "--framework ddp --quant nf4" "quant needs finetune=qlora" "--finetune=qlora"
refuses "--framework fsdp --recompute-modules mlp" "has no effect with FSDP" "leave out --recompute-modules"
# a search takes none of those
exits 0 p4d plan --framework fsdp --model-code transformers --gpu h100 --nodes 2 --gpus-per-node 8 --model llama3.1-8b --seq-len 8192
case $out in *"transformers --p4d-"* | *"recompute=full"*) ;; *) fail "no layout of transformers' modules is recomputed" ;; esac
for wrong in tp=2 cp=2 pp=2 recompute=selective; do
	case $out in *"-$wrong "*) fail "$wrong with transformers' modules" ;; esac
done

# a script's own arguments that p4d does not model leave its job unchecked, whatever the site does with scripts
cat >autotp.sh <<'SH'
#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
cat > ds.json <<J
{"zero_optimization": {"stage": 1}, "tensor_parallel": {"autotp_size": 4}, "bf16": {"enabled": true}}
J
deepspeed run_clm.py --do_train --deepspeed ds.json --model_name_or_path meta-llama/Llama-3.1-70B --bf16 --per_device_train_batch_size 1 --block_size 2048
SH
printf '%s\n' 'scripts = judge' 'partition h100 { gpu = "h100-80gb"' ' gpus_per_node = 8' ' default = true }' 'version = 1' >judge.conf
exits 0 p4d check --conf judge.conf autotp.sh
prints "[P4D009]" "because p4d does not model it: tp=4: with DeepSpeed p4d models only data parallelism"

# lengths as people write them; other numbers have no such units
exits 0 p4d estimate --gpu h200 --gpus-per-node 8 --model llama3.1-8b --framework fsdp --seq-len 128k --cp 8
prints "seq-len 131072"
for wrong in k 0k 1.5k 131073k 8kk; do
	exits 5 p4d estimate --model llama3.1-8b --seq-len $wrong
	says "--seq-len=$wrong: not a whole number from 1 to 134217728"
done
exits 5 p4d estimate --model llama3.1-8b --micro-batch 1k
says "--micro-batch=1k: not a whole number"

# DDP has neither schedules nor vocabulary parallelism to search
exits 13 p4d plan --framework ddp --model llama3-8b --gpu a100-40gb --nodes 1 --seq-len 8192
says "searched micro-batch, recompute"
# if activations are too large, the fix is an option that was tried
exits 12 p4d estimate --framework ddp --model llama3.1-8b --finetune lora --gpu h100 --gpus-per-node 8 --seq-len 8192 --micro-batch 2
says "--micro-batch=2" "--recompute=full"
# shellcheck disable=SC2046
exits 0 $(fix)

# a model with a quantized file is trained with such weights
mkdir quantized
cat >quantized/config.json <<'JSON'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
"max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "hidden_act": "silu",
"tie_word_embeddings": false, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true,
"bnb_4bit_quant_type": "nf4"}}
JSON
quantized="--framework ddp --model quantized/config.json --gpu a10g --gpus-per-node 1 --seq-len 512 --micro-batch 1"
# shellcheck disable=SC2086
{
	exits 0 p4d estimate $quantized --finetune lora
	prints "  5.39       0.16 "
	exits 0 p4d estimate $quantized --finetune qlora --quant int8
	prints "  8.54 "
	exits 5 p4d estimate $quantized --finetune full
	says "are quantized" "fix: --finetune=lora"
}

# seconds: torchtitan's own figures (benchmarks/llama3_h100_202412_torchtitan.md, tokens/s per GPU), eager and compiled; eager norms
# were made of several kernels then, which PyTorch has in one now
speed()
{
	nodes=$1
	compile=$2
	measured=$3
	percent=$4
	exits 0 p4d estimate --json --framework fsdp --model llama3.1-8b --gpu h100-96gb --nodes "$nodes" --gpus-per-node 8 --seq-len 8192 \
		--micro-batch 2 --global-batch $((16 * nodes)) --recompute selective --chunked-loss off --compile "$compile"
	predicted=$(printf '%s\n' "$out" | sed -n 's/.*"tokens_per_second_per_gpu": *\([0-9]*\).*/\1/p' | head -1)
	if [ "$((predicted * 100))" -lt "$((measured * (100 - percent)))" ] ||
		[ "$((predicted * 100))" -gt "$((measured * (100 + percent)))" ]; then
		fail "$predicted tokens/s instead of $measured ($nodes nodes, compile $compile)"
	fi
}
speed 1 off 5762 17
speed 1 on 6667 7
speed 16 off 5605 17
speed 16 on 6514 7

# the layout as arguments of the program that runs it
args() { exits 0 p4d plan --gpu h100 --nodes 1 --model llama3.2-1b --seq-len 2048 --env "$@"; }
args --framework ddp
prints "export P4D_HF_ARGS='--per_device_train_batch_size "
args --framework fsdp --model-code transformers
prints "export P4D_HF_ARGS='--per_device_train_batch_size "
args --framework fsdp
prints "export P4D_TORCHTITAN_ARGS='--parallelism."
