#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d estimate: the table, the verdict and its exit status.
. "${0%/*}/lib.sh"

exits 0 p4d estimate --model llama2-13b --gpu h100 --tp 8
silent
prints "llama2-13b on 1 node of 8 x h100-80gb" "seq-len=4096" "optimizer" "79.10" "Verdict: pass" "Peak: stage 0"
case $out in *$(printf '\033')*) fail "colours in a pipe" ;; esac

# too much memory: refused with the code's status, and the fix is a command that fits
refused P4D012 p4d estimate --model llama2-13b --gpu h100 --gpus-per-node 8
prints "Verdict: reject"
says "p4d: fix: p4d estimate "
fix=$(fix)
exits 0 $fix
prints "Verdict:"

# without a GPU there is nothing to compare with
exits 0 p4d estimate --model llama2-13b --tp 8
prints "no GPU given"
case $out in *usable*) fail "a fraction of nothing" ;; esac

# the site's default partition has one, and says how many fit into a node
exits 0 p4d estimate --conf p4d.conf --model llama2-13b --tp 8
prints "h100-80gb" "Chosen by the site:" "gpu=h100-80gb"

# "a100" is ambiguous; p4d assumes the smaller one, and says so
exits 12 p4d estimate --model llama2-13b --gpu a100 --tp 2
prints "a100-40gb"
says "[P4D011]"

# world: as many GPUs as tp*cp*pp need, in whole nodes; counted nodes are whole, as for p4d plan
exits 0 p4d estimate --model llama2-13b --gpu h100 --tp 4 --pp 4
prints "on 2 nodes of 8 x h100-80gb"
exits 0 p4d estimate --model llama2-13b --gpu h100 --tp 4 --nodes 2
prints "on 2 nodes of 8 x h100-80gb" "dp 4"
exits 0 p4d estimate --model llama3-70b --gpu gb200 --tp 8
prints "on 2 nodes of 4 x gb200-186gb"
exits 0 p4d estimate --model llama2-13b --gpu h100 --tp 4 --pp 4 --gpus-per-node 4
prints "on 4 nodes of 4 x h100-80gb"

# equal stages are one row: with 8 stages, the first and the last differ from those between them
run p4d estimate --framework megatron --model llama2-70b --gpu h100 --tp 8 --pp 8 --schedule gpipe --global-batch 64
printf '%s\n' "$out" | grep -q '^1-6 ' || fail "stages 1 to 6 are not one row"
[ "$(printf '%s\n' "$out" | grep -c '^[0-9-]* .* \(pass\|warn\|reject\)$')" = 3 ] || fail "not three rows"

# the warning zone
exits 0 p4d estimate --model llama13b --gpu h100 --tp 2 --gpus-per-node 8 --micro-batch 4
case $out in *"Verdict: warn"*) says "[P4D112]" ;; *) fail "expected a warning" ;; esac

# other methods and frameworks
exits 0 p4d estimate --model llama2-13b --gpu h100 --tp 8 --method paper
prints "method paper" "not modelled"
exits 0 p4d estimate --model llama2-13b --gpu h100 --tp 8 --framework megatron
prints "framework megatron" "wgrad buf" "Host memory per node: not modelled"

# evaluation in larger micro-batches than training's may be the peak; the fix for that does not change training
layout="--model llama3-70b --gpu h100 --nodes 4 --gpus-per-node 8 --framework megatron --tp 8 --pp 4 --cp 1 --vpp 1"
layout="$layout --micro-batch 1 --recompute full --global-batch 64"
exits 0 p4d estimate $layout
prints "evaluation " "Peak: stage 0 in phase train"
refused P4D012 p4d estimate $layout --eval-micro-batch 64 --svg evaluation.svg
prints "in evaluation 64" "Peak: stage 3 in phase evaluation"
says "on stage 3 of 4 in evaluation (eval-micro-batch=64)"
grep -q '>Peak: stage 3 of 4 in evaluation (eval-micro-batch=64)<' evaluation.svg || fail "the picture does not say so"
fix=$(fix)
case $fix in
*--tp=8*--pp=4*--micro-batch=1*--eval-micro-batch=1*--recompute=full*) ;;
*) fail "$fix" ;;
esac
exits 0 $fix

# host memory, and training on the host
refused P4D033 p4d estimate --model llama2-13b --gpu h100 --tp 8 --mem 1G
says "--mem="
exits 0 p4d estimate --model llama2-13b --gpu h100 --tp 8 --mem 2T
exits 0 p4d estimate --model llama3.2-1b --device cpu
prints "add --mem SIZE" "precision=fp32"
exits 0 p4d estimate --model llama3.2-1b --device cpu --mem 256G --seq-len 512
prints "GiB per rank" "of host" "Verdict: pass"

# a model of the user's own
exits 0 p4d estimate --model custom --layers 4 --hidden 512 --ffn 2048 --heads 8 --vocab 1000 --gpu h100 --seq-len 128
exits 8 p4d estimate --model custom --layers 4 --hidden 512
says "--ffn" "--heads"
exits 6 p4d estimate --model custom --layers 65536 --hidden 1048576 --ffn 8388608 --heads 65536 --vocab 16777216 \
	--seq-len 134217728 --micro-batch 65536 --gpu h100
says "layers, hidden"

# a precision that the GPU lacks gets a message, and the fix is accepted
exits 0 p4d estimate --model llama3.2-1b --gpu v100-32gb --gpus-per-node 1 --seq-len 2048
says "[P4D116] v100-32gb (compute capability 7.0) has no bf16, which begins with 8.0"
fix=$(fix)
exits 0 p4d estimate --model llama3.2-1b --gpu v100-32gb --gpus-per-node 1 --seq-len 2048 $fix
silent
exits 0 p4d plan --model llama3.2-1b --gpu v100-32gb --gpus-per-node 1 --seq-len 2048
says "[P4D116]"
exits 0 p4d estimate --model llama3.2-1b --gpu a100-80gb --gpus-per-node 1 --seq-len 2048
silent
exits 0 p4d estimate --model llama3.2-1b --gpu a100-80gb --gpus-per-node 1 --seq-len 2048 --precision fp8 --micro-batch 1
says "[P4D116] a100-80gb (compute capability 8.0) has no fp8, which begins with 8.9: the program stops" "--precision=bf16"
exits 0 p4d estimate --model llama3.2-1b --gpu h100 --gpus-per-node 1 --seq-len 2048 --framework megatron --precision fp8 --fp8-recipe mxfp8
says "[P4D116] h100-80gb (compute capability 9.0) has no fp8-recipe=mxfp8, which begins with 10.0" "--fp8-recipe=current"
exits 0 p4d estimate --model llama3.2-1b --gpu h100 --gpus-per-node 1 --seq-len 2048 --framework megatron --precision fp8
prints "framework megatron" "fp8-recipe=delayed" "(unvalidated: FP8 with delayed scales)"
exits 0 p4d estimate --model llama3.2-1b --gpu h100 --gpus-per-node 1 --seq-len 2048 --framework megatron --precision fp8 --fp8-recipe current
case $out in *unvalidated*) fail "FP8 is unvalidated" ;; esac
# other estimates in FP8 refuse
refused P4D012 p4d estimate --model llama3-70b --gpu h100 --gpus-per-node 8 --seq-len 8192 --tp 8 --framework megatron --precision fp8 --fp8-recipe blockwise

# FP8 if it is not modelled, or has no effect
own() { p4d estimate --model llama3.2-1b --framework p4d --gpus-per-node 1 --seq-len 2048 --precision fp8 "$@"; }
exits 0 own --gpu h100
prints "fp8-recipe=blockwise" "Verdict: pass"
case $out in *P4D116*) fail "H100 lacks FP8 of blocks" ;; esac
# precisions that the GPU's matrix units have, and cuBLASLt supports
exits 0 own --gpu b200
says "[P4D116] b200-180gb (compute capability 10.0) has no fp8-recipe=blockwise, which cuBLASLt has up to 9.0: the program stops" \
	"--fp8-recipe=mxfp8"
exits 0 own --gpu h100 --fp8-recipe mxfp8
says "has no fp8-recipe=mxfp8, which begins with 10.0" "--fp8-recipe=blockwise"
exits 0 own --gpu b200 --fp8-recipe mxfp8
case $out in *P4D116*) fail "B200 lacks MXFP8" ;; esac
exits 0 own --gpu l40s --fp8-recipe mxfp8
says "which begins with 10.0" "--fp8-recipe=current"
on_cpus()
{
	p4d estimate --model llama2-7b --framework p4d --device cpu --mem 512G --gpus-per-node 4 --precision fp8 "$@"
}
exits 0 on_cpus --tp 2 --seq-len 512
prints "fp8 on cpu" "Verdict: pass"
exits 22 on_cpus --tp 4 --seq-len 512
says "fp8-recipe=blockwise: FP8 matmuls need multiples of 128, which the 11008 feed-forward columns are not if tp=4 divides them; tp can be 1, 2" \
	"--tp=2"
exits 0 on_cpus --tp 4 --seq-len 512 --fp8-recipe mxfp8
exits 25 on_cpus --tp 2 --cp 2 --seq-len 1408
says "need multiples of 128 tokens; a sequence of 1408 is in 4 chunks of 352" "--seq-len=1024"
exits 5 on_cpus --fp8-recipe delayed
says "fp8-recipe=delayed: p4d-train has blockwise, mxfp8 and current"
exits 5 on_cpus --fp8-param-gather on
says "p4d-train always gathers parameters in --precision"
exits 5 p4d estimate --model llama3.2-1b --gpu h100 --framework megatron --fp8-param-gather on
says "fp8-param-gather needs precision=fp8" "--precision=fp8"
exits 5 p4d estimate --model llama3.2-1b --gpu h100 --framework megatron --precision fp8 --fp8-recipe rowwise
says "only in torchtitan"
# documents in a sequence: their effect on the step; heads exchanged in a part of cp
long()
{
	p4d estimate --model llama3.1-8b --gpu h100 --nodes 4 --gpus-per-node 8 --seq-len 64k --framework megatron --tp 2 --cp 8 "$@"
}
exits 0 long --document-len 4k
prints "Documents of random length, 4096 tokens on average: attention needs 12 % of the FLOPs that it would need for whole sequences. The slowest of 2 data-parallel ranks needs"
exits 0 long
case $out in *Documents*) fail "documents that nobody named" ;; esac
exits 0 long --cp-heads 4
prints "(unvalidated: hierarchical context parallelism)"
exits 9 p4d estimate --model deepseek-v2-lite --gpu h100 --nodes 2 --gpus-per-node 8 --seq-len 64k --framework megatron --cp 4 --cp-heads 2
says "cp-heads: p4d does not model it"
# copies of moments in bf16, which newer releases of Transformer Engine do not make
copied()
{
	p4d estimate --model llama13b --gpu h100 --gpus-per-node 2 --tp 2 --seq-len 2048 --global-batch 8 --framework megatron \
		--grad-dtype bf16 --optimizer-dtype bf16 --recompute full "$@"
}
refused P4D012 copied
prints "Verdict: reject (unvalidated: fp32 copies of bf16 moments"
refused P4D012 copied --adam-copies on
case $out in *unvalidated*) fail "a release that was given is open" ;; esac
exits 0 copied --adam-copies off
exits 5 p4d estimate --model llama13b --gpu h100 --framework megatron --adam-copies on
says "adam-copies needs optimizer-dtype=bf16" "--optimizer-dtype=bf16"
# NVFP4: half the bytes of 8 bits, and a scale of one byte for 16 numbers
weights_of()
{
	p4d estimate --json --model llama3-70b --gpu b200 --nodes 8 --gpus-per-node 8 --framework megatron --tp 8 --pp 4 --precision fp8 \
		--fp8-recipe "$1" --seq-len 8192 | sed -n 's/.*"params": *\([0-9]*\).*/\1/p' | head -n 1
}
[ "$(weights_of nvfp4)" -lt "$(weights_of mxfp8)" ] || fail "NVFP4 is as large as MXFP8"
exits 0 p4d estimate --model llama3.2-1b --gpu b200 --gpus-per-node 1 --framework megatron --precision fp8 --fp8-recipe nvfp4
prints "(unvalidated: NVFP4)"
exits 9 p4d estimate --model llama3.2-1b --gpu b200 --framework megatron --precision fp8 --fp8-recipe nvfp4 --fp8-param-gather on
says "does not model it" "--fp8-param-gather=off"
exits 0 p4d estimate --model llama3.2-1b --gpu h100 --gpus-per-node 1 --framework megatron --precision fp8 --fp8-recipe nvfp4
says "begins with 10.0" "fp8-recipe=current"
exits 9 p4d estimate --model llama3.2-1b --gpu h100 --framework ddp --precision fp8
says "only in torchtitan"
# the same for experts: their inputs and their products' results are in 8 bits
of_experts()
{
	p4d estimate --json --model mixtral-8x7b --gpu h100 --nodes 8 --gpus-per-node 8 --framework megatron --pp 4 --ep 8 "$@" |
		sed -n 's/.*"activations":\([0-9]*\).*/\1/p' | head -n 1
}
[ "$(of_experts --precision fp8 --fp8-recipe blockwise)" -lt "$(of_experts)" ] || fail "experts take as much in FP8"
exits 5 p4d estimate --model llama3.1-8b --gpu h100 --framework fsdp --precision fp8 --fp8-recipe rowwise --fp8-param-gather on
says "have a single scale" "--fp8-recipe=current"
# torchao casts in each pass, and saves what it is given: of down its gradient twice, its input, its weight; in BF16 the
# most is there a moment later, with one more gradient of up's width
of_fsdp()
{
	p4d estimate --json --model llama2-7b --gpu h100 --nodes 4 --gpus-per-node 8 --framework fsdp --seq-len 8192 --recompute full "$@" |
		sed -n 's/.*"allocated_bytes": *\([0-9]*\).*/\1/p' | sort -n | tail -n 1
}
[ $(($(of_fsdp --precision fp8) - $(of_fsdp))) -eq $((2 * 8192 * 4096 + 8192 * 11008 + 11008 * 4096 - 2 * 8192 * 11008)) ] ||
	fail "FP8 adds $(of_fsdp --precision fp8) - $(of_fsdp)"

# attention within a window takes less of the step
of_window()
{
	p4d estimate --json --model mistral-7b --gpu h100 --gpus-per-node 8 --framework megatron --tp 8 --seq-len 32768 --global-batch 8 "$@" |
		sed -n 's/.*"seconds":\([0-9.]*\).*/\1/p' | head -n 1
}
awk -v all="$(of_window)" -v some="$(of_window --sliding-window 4096)" 'BEGIN { exit !(some > 0 && some < 0.9 * all) }' ||
	fail "a step takes $(of_window) s, with a window $(of_window --sliding-window 4096)"

# models that p4d knows by name, but whose layers it does not model
exits 9 p4d estimate --model Falcon-H1-34B-Base --gpu h100
says "Falcon-H1-34B-Base has Mamba-2 heads next to attention heads"
exits 9 p4d estimate --model qwen3-next-80b-a3b --gpu h100 --workload serve
says "does not model serving of models with state-space layers"
exits 9 p4d estimate --model gpt-oss-20b --gpu h100 --framework megatron
says "does not model in Megatron-LM"
for lacking in grok-1 gemma2-9b olmo2-7b command-r-35b; do
	exits 9 p4d estimate --model $lacking --gpu h100 --framework megatron
	says ", which layers of Megatron-Core 0.16 cannot have"
done
says "attention parallel to the feed-forward layer"
# accelerate keeps the gradients of all parameters while it accumulates, which one micro-batch per rank does not need
fsdp="p4d estimate --framework fsdp --model-code transformers --model qwen2.5-32b --gpu h100 --nodes 1 --gpus-per-node 8 --seq-len 8192 --recompute full --micro-batch 1"
exits 12 $fsdp --global-batch 64
says ", with unsharded gradients, which FSDP keeps during gradient accumulation"
run $fsdp --global-batch 8
case $err in *"unsharded gradients"*) fail "it accumulates nothing" ;; esac
# gpt-oss: transformers trains its experts in bf16, whatever they are stored in, and its attention is not fused
exits 9 p4d estimate --model gpt-oss-20b --gpu h200 --framework fsdp
says "attention sinks and biases of experts" "fix: --model-code=transformers"
exits 0 p4d estimate --model gpt-oss-20b --gpu h200 --gpus-per-node 8 --framework fsdp --model-code transformers --finetune full --seq-len 4096 --recompute full
prints "attention=unfused" "Verdict: pass"
case $out in *unvalidated*) fail "gpt-oss is unvalidated" ;; esac
exits 0 p4d estimate --model gpt-oss-20b --gpu h200 --gpus-per-node 8 --framework fsdp --model-code transformers --attention flash --seq-len 4096 --recompute full
prints "unvalidated: attention sinks in a fused kernel"

# serving: what the engine would report at its start
exits 0 p4d estimate --workload serve --model llama3.1-8b --gpu h100
prints "served by vllm on 1 x h100-80gb" "weights 14.96" "maximum concurrency for 131072 tokens per request: 3." "starts (unvalidated)"
exits 12 p4d estimate --workload serve --model llama3.1-8b --gpu l4
prints "does not start (unvalidated)"
says "p4d: fix: --seq-len="
# layouts and steps are about training, and options of engines do not affect them
exits 1 p4d simulate --workload serve --model llama3.1-8b --gpu h100
says "workload=serve: this command is only for training"
# shellcheck disable=SC2046 # the fix is a command
exits 0 $(fix)
# how fast it answers
serve="--workload serve --model llama3.1-8b --gpu h100 --seq-len 4096"
exits 0 p4d estimate $serve --rate 10 --prompt-len 500 --answer-len 200
prints "Speed: 2000 tokens/s, 10 requests/s with " "first token after " "prompts of 500 tokens, answers of 200; at most "
exits 0 p4d estimate $serve --rate 1000
prints "the time to the first token keeps growing"
exits 0 p4d estimate $serve --concurrency 8 --json
prints '"prompt_tokens":1024' '"in_flight":8' '"first_token_seconds":0.0'
exits 5 p4d estimate $serve --prompt-len 4000
says "a prompt of 4000 tokens and an answer of 256 are longer than the 4096 tokens of a sequence" "p4d: fix: --seq-len=4256"
exits 5 p4d estimate $serve --rate 4 --concurrency 8
says "give only one of rate and concurrency" "p4d: fix: --concurrency=8"
# the cheapest layout that answers
exits 0 p4d plan $serve --gpus-per-node 8 --rate 100
prints "100 requests/s: fewest GPUs first" "--tensor-parallel-size"
exits 0 p4d plan $serve --gpus-per-node 8 --between-tokens 10 --first-token 100 --json
prints '"layouts":[' '"too_slow":'
exits 0 p4d plan $serve --gpus-per-node 8 --nano-batches 2
cat >kinds.conf <<END
mode = observe
partition "h100" { gpu = "h100-80gb" }
partition "a100" { gpu = "a100-80gb" }
version = 1
END
exits 0 p4d plan --workload serve --model llama3.1-8b --seq-len 4096 --partitions all --conf kinds.conf
prints "least GPU-hours per million tokens first"
[ "$(printf '%s\n' "$out" | awk '/-80gb/ { print $1 }' | tr '\n' ' ')" = "h100 a100 " ] || fail "partitions by cost"
exits 0 p4d plan --workload serve --model llama3.1-8b --seq-len 4096 --partitions a100 --conf kinds.conf --rate 30 --json
prints '"partition":"a100"' '"gpu_hours_per_million_tokens":'
exits 13 p4d plan --workload serve --model llama3.1-8b --seq-len 4096 --partitions all --conf kinds.conf --between-tokens 0.5
# an invalid load, or a GPU without rates, is not reported as layouts that are too slow
exits 5 p4d plan $serve --prompt-len 4000
says "a prompt of 4000 tokens" "p4d: fix: --seq-len=4256"
exits 5 p4d plan $serve --rate 4 --concurrency 8
says "give only one of rate and concurrency" "p4d: fix: --concurrency=8"
exits 5 p4d plan --workload serve --model llama3.1-8b --seq-len 4096 --partitions all --conf kinds.conf --prompt-len 4000
says "a prompt of 4000 tokens" "p4d: fix: --seq-len=4256"
# degrees that no engine has
exits 20 p4d plan --workload serve --model llama3.1-8b --gpu h100 --gpus-per-node 8 --tp 3
says "tp=3 does not divide the 32 attention heads"
exits 27 p4d plan --workload serve --model llama3.1-8b --gpu h100 --nodes 1 --gpus-per-node 8 --tp 16
says "tp*pp = 16*1 GPUs, but there are 8"
exits 14 p4d plan --workload serve --model llama3.1-8b --gpu mi355x
says "p4d does not know the multiprocessors of mi355x-288gb"
exits 0 p4d estimate $serve --rate 0.001
prints "Speed: 0.256 tokens/s, 0.001 requests/s with 0.0"
exits 5 p4d plan $serve --between-tokens 0.05
says "--between-tokens=0.05: not a number from 0.1 to 1e+07 milliseconds"
exits 13 p4d plan $serve --between-tokens 1
says "no layout is fast enough; a single request takes at least "
exits 13 p4d plan $serve --rate 1000
says "requests/s within the limits, but 1000 requests/s arrive"
# shellcheck disable=SC2046 # options
exits 0 p4d plan $serve --rate 1000 $(fix)
exits 13 p4d plan --workload serve --model llama3.1-70b --gpu h100 --gpus-per-node 1 --seq-len 4096
# shellcheck disable=SC2046 # options
exits 0 p4d plan --workload serve --model llama3.1-70b --gpu h100 --gpus-per-node 1 --seq-len 4096 $(fix)
exits 5 p4d estimate --model llama3.1-8b --gpu h100 --nodes 2 --tp 8 --resident-layers 4
says "resident-layers=4: all layers are on the GPU unless parameters are sharded or on the host" "--offload=params"
exits 5 p4d estimate --model llama3.1-8b --framework megatron --gpu h100 --nodes 2 --tp 8 --resident-layers 4
says "with Megatron-LM p4d does not model resident layers"
exits 0 p4d plan --model llama3.1-8b --gpu h100 --kv-cache-dtype fp8
says "--kv-cache-dtype has no effect on training"
exits 0 p4d estimate --workload serve --model llama-3.1-8b --gpu h100 --tp 2 --engine-tp 4
says "--engine-tp has no effect on serving, only with --workload=rl"
# reinforcement learning: what stands beside each other, and a fix that is enough
# an option of the engine, which the training program does not heed; and one that p4d's choice of a program does not
exits 0 p4d estimate llama3-70b --gpu=h100 --gpus=32 --workload=rl --framework=megatron --tp=8 --pp=4 --engine-tp=2 \
	--gpu-memory-utilization=0.5 --swap=optimizer,params --reference=host --recompute=full --stored=int4
prints "weights 18.53" "Verdict: fits"
exits 5 p4d estimate llama3-8b --gpu h100 --attention unfused
says "p4d: fix: --framework=megatron"

# sizes at which the simulated allocator lost count, divided by zero or took seconds
small="--heads 2 --kv-heads 2 --head-dim 8"
for options in "olmoe-1b-7b --framework deepspeed --zero-stage 2 --model-code transformers --finetune lora --lora-targets gate_proj" \
	"llama3-8b --framework fsdp --recompute selective --layers 1 --hidden 512 --ffn 8388608 $small --vocab 1 --seq-len 1024 --micro-batch 65536" \
	"qwen3-8b --layers 4 --hidden 1048576 --ffn 1 $small --seq-len 8192 --micro-batch 65536 --framework fsdp --model-code transformers --recompute full --packing on" \
	"llama3-8b --framework megatron --ffn 1 --hidden 1048576 --layers 192 --pp 8 --micro-batch 1 --global-batch 64"; do
	# shellcheck disable=SC2086 # words
	p4d estimate --gpu h100 --gpus 8 $options >"$work/out" 2>&1
	[ $? -lt 100 ] || fail "p4d estimate $options: $(tail -3 "$work/out")"
done

rl="--workload rl --model qwen2.5-7b --framework deepspeed --zero-stage 2 --recompute full --seq-len 4096 --gpus-per-node 8 --gpu h100"
# shellcheck disable=SC2086 # several options
exits 12 p4d estimate $rl --gpu-memory-utilization 0.5
prints "generating     training" "reference               14.19        14.19" "does not fit (unvalidated)"
says "while it generates: actor 25.3, reference 14.2, engine 39.5 (gpu-memory-utilization 0.50)" "p4d: fix: --gpu-memory-utilization=0.45"
# shellcheck disable=SC2086
exits 0 p4d estimate $rl --gpu-memory-utilization 0.45 --json
prints '"training":{' '"reference":15231233024' '"fits":true'
# adapters with 4-bit layers on one GPU: a fix that is accepted, and options without an effect
qlora="--framework ddp --model llama3.1-8b --finetune qlora --lora-rank 16 --gpu a10g --gpus-per-node 1"
# shellcheck disable=SC2086 # several options
exits 0 p4d estimate $qlora --seq-len 512
# shellcheck disable=SC2086
exits 12 p4d estimate $qlora --seq-len 2560
says "[P4D012] llama3.1-8b needs"
command=$(fix)
case $command in
*--recompute=full*--finetune=qlora*) ;;
*) fail "the fix is '$command'" ;;
esac
# shellcheck disable=SC2086
exits 0 $command
exits 5 p4d estimate --framework ddp --model llama3.1-8b --lora-rank 16 --gpu a10g --gpus-per-node 1 --seq-len 512
says "lora-rank has no effect"
exits 9 p4d estimate --framework ddp --model llama3.1-8b --finetune lora --lora-targets q_prj --gpu a10g --gpus-per-node 1 --seq-len 512
says "p4d knows no linear layer named 'q_prj'"

# trainers that accumulate no gradients by default: the batch is one micro-batch per rank; options without a choice in
# the framework get no message; the fix is a framework that shards what DDP copies
exits 12 p4d estimate --framework ddp --model llama3-8b --gpu h100 --gpus-per-node 8 --seq-len 1024
prints "micro-batch 1 x 8 x dp = global-batch 64;"
[ "${out#*te-wgrad=}" = "$out" ] || fail "an option of Transformer Engine is shown"
says "[P4D012]" "fix: p4d estimate " "--zero-stage=2 --framework=deepspeed"
fix=$(fix)
exits 0 $fix
exits 0 p4d estimate --framework ddp --model llama3.2-1b --gpu h100 --gpus-per-node 8 --seq-len 1024 --micro-batch 2
prints "micro-batch 2 x 1 x dp = global-batch 16;"

# adapters with ZeRO: the model's own weights are there, sharded only by stage 3
lora="--framework deepspeed --finetune lora --model llama3-70b --gpu h100 --nodes 4 --gpus-per-node 8 --seq-len 4096 --recompute full"
# shellcheck disable=SC2086
exits 12 p4d estimate $lora --zero-stage 2
prints "Verdict: reject" "init 131."
[ "${out#*unvalidated}" = "$out" ] || fail "adapters with DeepSpeed were compared"
says "--zero-stage=3" "p4d: fix: p4d estimate "
# shellcheck disable=SC2086
exits 0 p4d estimate $lora --zero-stage 3
prints "Verdict: pass"

# torchtitan's modules have no adapters: also with FSDP, adapters are for transformers' modules, and are not all
# parameters
eight="--gpu h100 --gpus-per-node 8 --seq-len 4096 --recompute full"
# shellcheck disable=SC2086
exits 0 p4d estimate --framework fsdp --model llama3.1-8b --finetune lora $eight --verbose
prints "model-code=transformers" "init 3.75, train 11.8"
[ "${out#*unvalidated}" = "$out" ] || fail "FSDP of transformers' modules was compared"
# shellcheck disable=SC2086
exits 5 p4d estimate --framework fsdp --model llama3.1-8b --finetune lora --model-code torchtitan $eight
says "p4d: fix: --model-code=transformers"
# shellcheck disable=SC2086
exits 9 p4d estimate --framework fsdp --model gemma2-9b $eight
says "p4d: fix: --model-code=transformers"
# shellcheck disable=SC2086
exits 0 p4d estimate --framework fsdp --model gemma2-9b --model-code transformers $eight
# shellcheck disable=SC2086
exits 5 p4d estimate --framework ddp --model llama3.1-8b --adapter-dtype bf16 $eight
says "adapter-dtype has no effect"
# shellcheck disable=SC2086
exits 5 p4d estimate --framework fsdp --finetune lora --model llama3.1-8b --adapter-dtype bf16 $eight
says "adapter-dtype has no effect with FSDP"
# shellcheck disable=SC2086
exits 5 p4d estimate --framework fsdp --model llama3.1-8b --autocast on $eight
says "autocast has no effect with FSDP"
# shellcheck disable=SC2086
exits 5 p4d estimate --framework deepspeed --model llama3.1-8b --autocast on $eight
says "autocast has no effect with DeepSpeed" "leave out --autocast"
# shellcheck disable=SC2086
exits 0 p4d estimate --framework deepspeed --model llama3.1-8b --finetune lora --autocast on $eight
# gradients have the type that belongs to the precision
for precision in fp16 fp32; do
	# shellcheck disable=SC2086
	exits 0 p4d estimate --framework deepspeed --model llama3.1-8b --precision $precision $eight
done

# p4d-train has no fp16: p4d refuses it if p4d-train was asked for, and chooses another framework otherwise
exits 5 p4d estimate --framework p4d --model gpt2 --precision fp16 --gpu h100 --gpus-per-node 8
says "[P4D005] precision=fp16: p4d-train has bf16, fp32 and fp8" "p4d: fix: --precision=bf16"
# shellcheck disable=SC2046
exits 0 p4d estimate --framework p4d --model gpt2 --gpu h100 --gpus-per-node 8 $(fix)
exits 0 p4d estimate --model gpt2 --precision fp16 --gpu h100 --gpus-per-node 8
prints "framework megatron" "fp16 on cuda"
# an option that p4d's default framework lacks: the fix names a framework with it, and is accepted
exits 5 p4d estimate --compile on --model llama3.1-8b --gpu h100 --gpus-per-node 8 --seq-len 1024
says "p4d: fix: --framework=fsdp"
# shellcheck disable=SC2046
exits 0 p4d estimate --compile on --model llama3.1-8b --gpu h100 --gpus-per-node 8 --seq-len 1024 $(fix)
exits 5 p4d estimate --zero-stage 2 --model llama3.2-1b --gpu h100 --gpus-per-node 8 --seq-len 1024
says "p4d: fix: --framework=deepspeed"
exits 5 p4d estimate --framework ddp --offload optimizer --model llama3.2-1b --gpu h100 --gpus-per-node 8 --seq-len 1024
says "with DDP only activations can leave the GPU" "--framework=deepspeed --zero-stage=2"

# DeepSpeed's bucket: GiB that its own engine allocated (0.19, Llama 3.1 with four layers, 2,048 tokens, the largest of eight ranks), with
# 500,000,000 elements and as transformers has it where its configuration says auto
while read -r stage bucket steps allocated; do
	exits 0 p4d estimate --framework deepspeed --zero-stage "$stage" --zero-bucket "$bucket" --model llama-3.1-8b --layers 4 \
		--seq-len 2048 --micro-batch 1 --global-batch $((8 * steps)) --recompute full --gpu h100 --gpus-per-node 8
	printf '%s\n' "$out" | awk -v wanted="$allocated" '
	$1 == "stage" { for (i = 1; i <= NF; i++) if ($i == "allocated") column = i; next }
	column && !found { found = 1; off = $column / wanted - 1; exit }
	END { exit !(found && off < 0.01 && off > -0.01) }' || fail "stage $stage, bucket $bucket: $out"
done <<END
3 500000000 1 9.507
3 0 1 8.607
2 500000000 2 11.958
2 0 2 10.746
1 500000000 2 13.875
1 0 2 12.975
END
exits 9 p4d estimate --framework fsdp --pp 256 --vpp 8 --schedule interleaved --layers 1024 --model llama-3.1-8b --gpu h100 --nodes 32 --gpus-per-node 8
says "pp=256 vpp=8: p4d models pipelines of torchtitan with at most 512 chunks"
exits 9 p4d estimate --framework fsdp --layers 1025 --model llama-3.1-8b --gpu h100 --gpus-per-node 8
says "layers=1025: p4d models up to 1024 in FSDP"
exits 5 p4d estimate --framework fsdp --zero-bucket 0 --model llama3.1-8b --gpu h100 --gpus-per-node 8 --seq-len 1024
says "FSDP reduces all gradients of a unit together"

# experts: the site says what imbalance it reckons with, and the answer how much of it fits
cat >sparse.conf <<'END'
defaults { imbalance = 1.3 }
version = 1
END
sparse="--framework megatron --model mixtral-8x7b --gpu h100 --nodes 8 --gpus-per-node 8 --tp 2 --pp 4 --ep 8 --global-batch 256"
exits 0 p4d estimate --conf sparse.conf $sparse
prints "ep 8, etp 1, imbalance 1.3," "Imbalance of experts: the job fits up to 1." "(now 1.3)"
exits 0 p4d estimate --conf sparse.conf $sparse --imbalance 1
prints "imbalance 1," "(now 1)"
exits 0 p4d estimate --json $sparse
prints '"most_imbalance":1.'
exits 12 p4d estimate $sparse --micro-batch 4
prints "Imbalance of experts: the job does not fit even without imbalance"
# recomputed modules of experts: less memory, more time, and a message for options without effect
sparse="--framework megatron --model deepseek-v2 --layers 8 --gpu h100 --nodes 2 --gpus-per-node 8 --pp 2 --ep 8 --global-batch 64"
exits 0 p4d estimate $sparse
plain=$(printf '%s\n' "$out" | sed -n 's/.*, train \([0-9]*\)\..*/\1/p')
exits 0 p4d estimate $sparse --recompute selective --recompute-modules moe_act,mla_up_proj
less=$(printf '%s\n' "$out" | sed -n 's/.*, train \([0-9]*\)\..*/\1/p')
[ "$less" -lt "$plain" ] || fail "modules that are recomputed save nothing: $less of $plain GiB"
exits 5 p4d estimate $sparse --recompute selective --recompute-modules moe_act,attention
says "recompute-modules: no module is named 'attention'"
exits 5 p4d estimate $sparse --recompute-modules moe_act --recompute full
says "recompute-modules has no effect without recompute=selective"
exits 5 p4d estimate --framework megatron --model mixtral-8x7b --gpu h100 --nodes 2 --gpus-per-node 8 --recompute selective --recompute-modules mla_up_proj
says "recompute-modules: mla_up_proj has no effect"

# no step time of layers with a state was compared with a measured one
hybrid="--gpu h100 --model nemotron-h-8b --nodes 2 --gpus-per-node 8"
exits 0 p4d estimate $hybrid --framework megatron --tp 8
prints "Step (unvalidated: state-space layers): "
exits 0 p4d estimate --json $hybrid --framework megatron --tp 8
prints '"unvalidated":"state-space layers"'
exits 0 p4d plan $hybrid --framework megatron
prints "Step times are unvalidated: state-space layers"

# how far step times are from published ones, except with Megatron-LM
usual_step="--model llama3-8b --gpu h100 --gpus-per-node 8 --micro-batch 1 --seq-len 2048 --global-batch 64"
exits 0 p4d estimate $usual_step --framework fsdp
prints "accuracy: published steps differ by 10 % on average"
exits 0 p4d estimate --json $usual_step --framework deepspeed --zero-stage 3
prints '"accuracy":"never compared with published steps"'
exits 0 p4d plan $usual_step --framework fsdp
prints "Accuracy of step times: published steps differ by 10 % on average"
exits 0 p4d estimate $usual_step --framework megatron --tp 2
case $out in *accuracy:*) fail "Megatron-LM's accuracy" ;; esac

# evaluation in micro-batches of its own, with transformers' modules: compared for dense decoders with fused attention
evaluates="p4d estimate --framework ddp --model llama3.2-1b --gpu h100 --gpus-per-node 8 --micro-batch 1 --seq-len 2048 --eval-micro-batch"
exits 0 $evaluates 16
prints "in phase evaluation, 52.22 GiB"
case $out in *unvalidated*) fail "was compared" ;; esac
exits 0 $evaluates 8 --attention unfused
prints "unvalidated: evaluation with unfused attention"
exits 0 p4d estimate --framework ddp --model olmoe-1b-7b --gpu b300 --gpus-per-node 8 --micro-batch 1 --seq-len 2048 --eval-micro-batch 2
prints "unvalidated: evaluation of hybrid models"

# the search for a fix of an absurd request ends, and says so
exits 12 p4d estimate --framework p4d --model custom --layers 1024 --hidden 65536 --ffn 262144 --heads 512 --kv-heads 512 --head-dim 128 --vocab 1000000 \
	--max-seq-len 8192 --norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --gpu h100 --nodes 4096 --gpus-per-node 8 --tp 1 --pp 8
says "p4d did not compare all layouts for the fix"

# JSON has a verdict, whatever the workload
for workload in "serve" "rl --framework deepspeed --zero-stage 3" "preference --framework ddp --finetune lora --seq-len 1024"; do
	exits 0 p4d estimate llama3.2-1b --gpu h200 --gpus 8 --json --workload $workload
	prints '"verdict":"pass"' '"unvalidated":"'
done
exits 0 p4d estimate qwen3-8b --gpu l4 --json --workload serve --gpu-memory-utilization 0.95 --seq-len 4k
prints '"verdict":"warn"' '"code":"P4D112"'
exits 0 p4d estimate qwen3-8b --gpu l4 --json --workload serve --gpu-memory-utilization 0.95 --seq-len 4k --cuda-graphs none
prints '"verdict":"pass"'
exits 12 p4d estimate Qwen/Qwen3-4B-Instruct-2507 --gpu rtx4090 --json --workload serve
prints '"verdict":"reject"' '"max_model_len":262144'
exits 0 p4d estimate qwen3-14b --gpu l4 --workload serve --quant nf4 --seq-len 4k
prints "Verdict: starts"
exits 5 p4d estimate qwen3-14b --gpu l4 --workload serve --quant int8
[ "$(fix)" = "--stored=int8" ] || fail "$(fix)"

# programs that gate on JSON see what the text says of the memory
exits 0 p4d estimate --json --framework megatron --model llama3-70b --gpu b200 --nodes 8 --gpus-per-node 8 --tp 8 --pp 4 --precision fp8
prints '"unvalidated":"FP8 with delayed scales"'
exits 0 p4d plan --json --framework megatron --model llama3-70b --gpu b200 --nodes 8 --gpus-per-node 8 --tp 8 --pp 4 --precision fp8
prints '"unvalidated":"FP8 with delayed scales"'
exits 0 p4d estimate --json --framework megatron --model llama3-70b --gpu b200 --nodes 8 --gpus-per-node 8 --tp 8 --pp 4
prints '"unvalidated":null'

# options of the exchange with experts: their time is counted, and what they need is named
experts="--model mixtral-8x7b --framework megatron --gpu h100 --nodes 2 --gpus-per-node 8 --tp 1 --seq-len 4096"
# shellcheck disable=SC2086 # options
exits 12 p4d estimate $experts --ep 8 --expert-overlap on --token-dispatcher deepep
prints "unvalidated: overlapped experts"
while read -r options; do
	# shellcheck disable=SC2086 # options
	exits 5 p4d estimate $experts $options
done <<'END'
--ep 8 --token-nodes 2
--ep 1 --etp 1 --expert-overlap on
--ep 8 --expert-overlap on --recompute full
--ep 8 --expert-overlap on --pp 2 --vpp 1
END

# an option with the value that holds anyway is no mistake, with any program
states="--model llama3.1-8b --gpu b200 --nodes 4 --gpus-per-node 8 --seq-len 4096"
while read -r options; do
	# shellcheck disable=SC2086 # options
	exits 0 p4d estimate $states $options
done <<EOF
--framework megatron --tp 4 --shared-overlap off --imbalance 1 --token-dispatcher all-to-all --pad-experts off
--framework megatron --tp 4 --recompute none --recompute-modules core_attn
--framework megatron --tp 4 --compile off --chunked-loss off --packing off --token-slices 1 --adam-copies off --lora-dropout off
--framework fsdp --te-wgrad off --attention-dropout off --attention-mask off --shared-overlap off --recompute-modules core_attn --local-loss off --tp-grid 1,1,1
--framework p4d --compile off --attention-mask off --cuda-graphs none --adam-copies off
--framework deepspeed --zero-stage 3 --autocast off --offload none --micro-batch 1 --eval-micro-batch 1
EOF
exits 5 p4d estimate $states --framework fsdp --attention-mask on
says "attention-mask=on: FSDP copies no attention mask to the GPU"
exits 5 p4d estimate $states --framework megatron --shared-overlap on
says "shared-overlap has no effect"
# for a model with vision, the text part: a lower bound, with a message
exits 12 p4d estimate Qwen/Qwen2.5-VL-32B-Instruct --gpu h100 --gpus 8 --seq-len 2048
says "[P4D120] p4d checked only the text part of Qwen2_5_VLForConditionalGeneration" "[P4D012]"

# how many tokens experts drop is known only when they run; padded ones take their capacity
drops="p4d estimate --framework megatron --model qwen3-30b-a3b --gpu h800 --nodes 2 --gpus-per-node 8 --tp 1 --pp 2 --ep 8 --seq-len 8192 --micro-batch 1 --global-batch 64 --recompute none --expert-capacity 1"
exits 12 $drops
prints "Verdict: reject (unvalidated: tokens above the capacity of experts, which are dropped)"
exits 12 $drops --pad-experts on
case $out in *unvalidated*) fail "a capacity that is padded is known" ;; esac

# on one GPU: what else fits there, in words; the fix trains the same, sharded over more GPUs, since more copies of the model do not help
one="p4d estimate --gpu rtx4090 --gpus 1 --framework ddp --recompute full"
refused P4D012 $one --model llama3-8b --micro-batch 1
says "; without more GPUs: QLoRA (--finetune=qlora, 21.0 GiB)"
says "--zero-stage=3 --framework=deepspeed --chunked-loss=on --gpu=rtx4090-24gb --nodes=2 --gpus-per-node=8"
fix=$(fix)
exits 0 $fix
exits 0 $one --model llama3-8b --micro-batch 1 --finetune=qlora
# also where p4d chose the framework and the batch; and DeepSpeed, which shards already, computes its loss in chunks
refused P4D012 p4d estimate meta-llama/Llama-3.1-70B --gpu h100
says "p4d: fix: p4d estimate --model=meta-llama/Llama-3.1-70B" "--zero-stage=3 --framework=deepspeed --gpu=h100-80gb --nodes=3"
fix=$(fix)
exits 0 $fix
# the fix of a command with "auto" also has it; the GPU's name comes before the verdict
refused P4D012 p4d estimate Qwen/Qwen3-8B --gpu a100 --seq-len 2048 --micro-batch auto
says " --micro-batch=auto --gpu=a100-40gb"
case $err in *global-batch*) fail "the batch follows the micro-batch" ;; esac
fix=$(fix)
exits 0 $fix
prints "The largest micro-batch that fits, of powers of two: 2"
case $(p4d estimate Qwen/Qwen3-8B --gpu a100 --quiet 2>&1) in "p4d: [P4D011]"*"Verdict: "*"P4D012"*) ;; *) fail "not in this order" ;; esac
refused P4D012 $one --model qwen3-14b --finetune lora --seq-len 2048 --micro-batch 1
says "; without more GPUs: QLoRA (--finetune=qlora, 15.2 GiB)"
refused P4D012 $one --model llama3-8b --finetune lora --seq-len 16384 --micro-batch 1
says "QLoRA (--chunked-loss=on --finetune=qlora, 14.6 GiB), shorter sequences (--seq-len=2048)"
exits 0 $one --model llama3-8b --finetune qlora --chunked-loss on --seq-len 16384 --micro-batch 1
refused P4D012 p4d estimate --gpu h100 --gpus 1 --framework ddp --model qwen3-8b --finetune lora --seq-len 32768
says "--chunked-loss=on, QLoRA (--chunked-loss=on --finetune=qlora, 24.2 GiB)"
fix=$(fix)
exits 0 $fix
# if nothing fits, there is no fix
refused P4D012 $one --model llama3.1-405b --micro-batch 1 --seq-len 131072
says "; the job does not fit on any number of these GPUs"
case $err in *"fix:"*) fail "there is none" ;; esac

# DPO's loss in 16 bits, as TRL before 1.15 has it with all logits: 7.75 GiB with the copy by TRL 1.10's own code, 5.3 % and 0.5 GiB more on
# the GPU. In fp32 logits are twice as large, and so is what comes out of autocast.
dpo="p4d estimate --workload preference --model custom --architecture llama --bias qkv --hidden 2048 --ffn 11008 --heads 16 --kv-heads 2 --head-dim 128 --vocab 151936 --tied on --max-seq-len 8192 --model-code transformers --framework ddp --recompute full --gpu h100 --gpus 1 --layers 1 --seq-len 1024 --micro-batch 2 --global-batch 2"
exits 0 $dpo --param-dtype bf16 --autocast off --chunked-loss off
prints "policy 7.88, reference 0.72"
exits 0 $dpo --param-dtype bf16 --autocast off --chunked-loss off --reference off
prints "policy 6.66, reference 0.00"

# one page: the verdict before the picture, then the tables
exits 0 p4d estimate llama3-70b --gpu h100 --nodes 4 --tp 8 --pp 4 --html estimate.html
silent
whole_page estimate.html 'class="good">Verdict: pass'
refused P4D012 p4d estimate --model llama2-13b --gpu h100 --gpus-per-node 8 --html reject.html
whole_page reject.html 'class="bad">Verdict: reject'
grep -q 'P4D012: .*<br>fix: <code>' reject.html || fail "no fix on the page"
exits 0 p4d plan llama3-70b --gpu h100 --nodes 4 --html plan.html
whole_page plan.html '<h2 class="">Seconds per step'
grep -q '<li><code>--p4d-model=llama3-70b ' plan.html || fail "no flags on the page"
refused P4D001 p4d estimate --workload serve --model llama3.1-8b --gpu h100 --html serve.html
refused P4D001 p4d plan --model llama3-70b --conf kinds.conf --partitions all --html partitions.html
refused P4D001 p4d plan --model llama3-70b --gpu h100 --nodes 4 --env --html env.html
[ ! -e serve.html ] && [ ! -e partitions.html ] && [ ! -e env.html ] || fail "a page was written"
