#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What releases of TRL and its like do differently: the job is judged by one, and warned of others.
. "${0%/*}/lib.sh"

at() { p4d check -N1 --gpus-per-node=h100:1 "$@"; }
cat >sft.sh <<'JOB'
#!/bin/sh
accelerate launch --num_processes 1 sft.py --model_name_or_path meta-llama/Llama-3.2-3B --dataset_name x --bf16 --optim adamw_torch_fused \
	--gradient_checkpointing --per_device_train_batch_size 8 --max_length 4096
JOB

# from TRL 1.15 on there are no logits; before 1.7 there are
exits 0 at sft.sh
prints "would pass with a warning"
says "[P4D122] with TRL before 1.7, which stores all logits, the job needs" "--p4d-chunked-loss=trl-fused"
exits 0 p4d read sft.sh
prints "so p4d takes the defaults of TRL 1.16" "chunked-loss         trl-fused"
exits 0 at --p4d-chunked-loss=trl-fused sft.sh
case $err in *P4D122*) fail "which release it is was said" ;; esac
refused P4D012 at --p4d-chunked-loss=off --p4d-padding=max-length sft.sh

# a script that leaves out Liger has TRL's own loss
sed 's/--bf16/--bf16 --use_liger_kernel False/' sft.sh >no_liger.sh
exits 0 p4d read no_liger.sh
prints "chunked-loss         trl-fused"
sed 's/--bf16/--bf16 --use_liger_kernel/' sft.sh >liger.sh
exits 0 p4d read liger.sh
prints "chunked-loss         on"

# a loss that the script requests from TRL
sed 's/--bf16/--bf16 --loss_type nll/' sft.sh >nll.sh
exits 0 at nll.sh
says "[P4D122] with TRL before 1.15, which stores all logits, the job needs"
sed 's/--bf16/--bf16 --loss_type chunked_nll/' sft.sh >chunked.sh
exits 0 at chunked.sh
case $err in *P4D122*) fail "all releases that have it make no logits" ;; esac

# DPO
sed 's/sft.py/dpo.py/; s,meta-llama/Llama-3.2-3B,Qwen/Qwen2.5-3B,; s/batch_size 8/batch_size 2/' sft.sh >dpo.sh
exits 0 at dpo.sh
says "[P4D122] with TRL before 1.15, which stores all logits, unvalidated: Qwen/Qwen2.5-3B needs"
exits 0 at --p4d-chunked-loss=trl-fused dpo.sh
case $err in *P4D122*) fail "which release it is was said" ;; esac

# the release that is installed in the environment
mkdir -p venv/bin venv/lib/python3.12/site-packages/trl/trainer venv/lib/python3.12/site-packages/transformers
: >venv/bin/activate
printf 'import x\n__version__ = "5.23.0"\n' >venv/lib/python3.12/site-packages/transformers/__init__.py
config=venv/lib/python3.12/site-packages/trl/trainer/sft_config.py
sed "2i . $PWD/venv/bin/activate" sft.sh >active.sh
sed "2i . $PWD/venv/bin/activate" nll.sh >active_nll.sh
sed "2i . $PWD/venv/bin/activate" chunked.sh >active_chunked.sh
loss() { p4d read "$1" | sed -n 's/^  chunked-loss *\([a-z-]*\) .*/\1/p'; }
are() {
	[ "$(loss active.sh) $(loss active_nll.sh) $(loss active_chunked.sh)" = "$1" ] ||
		fail "$(cat $config): $(loss active.sh) $(loss active_nll.sh) $(loss active_chunked.sh) instead of $1"
}
printf 'class SFTConfig:\n    - "nll"\n' >$config
are "off off off"
# shellcheck disable=SC2016 # as it stands there
printf 'class SFTConfig:\n    defaults to `"nll"`\n    - `"chunked_nll"`: same math\n' >$config
are "off off trl"
# shellcheck disable=SC2016
printf 'class SFTConfig:\n    defaults to `"chunked_nll"`\n    - `"chunked_nll"`: same math\n' >$config
are "trl off trl"
# shellcheck disable=SC2016
printf 'class SFTConfig:\n    defaults to `"nll"`\n    - `"chunked_nll"`: deprecated alias of `"nll"`, which\n' >$config
are "trl-fused trl-fused trl-fused"
exits 0 at active.sh
case $err in *P4D122*) fail "the release was read" ;; esac

# torch's AdamW that is not fused, which the Trainer takes with PyTorch before 2.8
sed 's/ --optim adamw_torch_fused//; s/batch_size 8/batch_size 1/; s,meta-llama/Llama-3.2-3B,Qwen/Qwen3-4B,' chunked.sh >unfused.sh
exits 0 at unfused.sh
says "[P4D122] with PyTorch before 2.8, where the Trainer's AdamW is not fused, the job needs"
exits 0 at --p4d-optimizer-foreach=off unfused.sh
case $err in *P4D122*) fail "which AdamW it is was said" ;; esac

# LLaMA-Factory loads what it does not train in the type that it computes in, and casts what it trains to fp32
factory() { printf '#!/bin/sh\nllamafactory-cli train --do_train --model_name_or_path %s --stage sft --cutoff_len 1024 --per_device_train_batch_size 1 --optim adamw_torch_fused %s\n' "$1" "$2"; }
gpu="p4d check -N1 --gpus-per-node=rtx4090:1"
factory meta-llama/Llama-2-7b-hf "--finetuning_type lora --fp16" >lora.sh
exits 0 $gpu lora.sh
prints "would pass: " "14.6 of 23.6 GiB"
factory meta-llama/Llama-2-7b-hf "--finetuning_type lora --bf16" >lora.sh
exits 0 $gpu lora.sh
case $err in *P4D122*) fail "LLaMA-Factory always names a type" ;; esac
factory Qwen/Qwen2.5-1.5B "--finetuning_type full --bf16" >full.sh
exits 0 $gpu full.sh
says "[P4D013] Qwen/Qwen2.5-1.5B needs 26.6 of 23.6 GiB"
factory Qwen/Qwen2.5-1.5B "--finetuning_type full --bf16 --pure_bf16" >full.sh
exits 0 $gpu full.sh
prints "would pass: "

# offloaded memory is in the verdict, and p4d suggests no fewer or smaller GPUs for it
cat >offload.sh <<'JOB'
#!/bin/bash
cat >ds.json <<X
{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}}
X
deepspeed --num_gpus 1 run_clm.py --do_train --deepspeed ds.json --model_name_or_path Qwen/Qwen2.5-32B --bf16 --per_device_train_batch_size 1 --block_size 2048 --gradient_checkpointing
JOB
exits 0 at --mem=800G offload.sh
prints "GiB (" "host memory 612.3 GiB a node (unvalidated: offloading of parameters or activations)"
case $err in *P4D121*) fail "738.2 of 800 GiB is 92 %" ;; esac
# a run of this size with 744 GB was killed
exits 0 at --mem=744G offload.sh
says "need 612.3 GiB of host memory, or 738.2 GiB if PyTorch pins each tensor, --mem grants 744.0 GiB (99 %, limit 95 %)"
[ "$(fix)" = --mem=778G ] || fail "the fix is $(fix)"
exits 0 at --mem=778G offload.sh
case $err in *P4D121*) fail "the fix is not enough" ;; esac
case $out in *"would also fit"*) fail "host memory elsewhere is not known" ;; esac

# FSDP: a job that fits but for fragmentation gets a warning
large="-N2 --p4d-framework=fsdp --p4d-model-code=transformers --p4d-fsdp-version=1 --p4d-model=qwen2.5-32b --p4d-micro-batch=1 --p4d-recompute=full --wrap=true"
# shellcheck disable=SC2086
{
	exits 0 p4d check --gpus-per-node=h100:8 $large --p4d-seq-len=20000 --p4d-global-batch=16
	says "[P4D121] unvalidated (fragmentation; without it the job fits): qwen2.5-32b needs 82.2 of 79.1 GiB"
	refused P4D013 p4d check --gpus-per-node=h100:8 $large --p4d-seq-len=24000 --p4d-global-batch=32
	says "with unsharded gradients, which FSDP keeps during gradient accumulation"
}

# a GPU without a flash kernel: which attention p4d assumes
cat >v100.sh <<'JOB'
#!/bin/sh
torchrun --nproc_per_node 1 run_clm.py --do_train --model_name_or_path meta-llama/Llama-3.2-1B --dataset_name x --per_device_train_batch_size 2 \
	--block_size 4096 --fp16 --optim adamw_torch_fused --gradient_checkpointing
JOB
exits 0 p4d check -N1 --gpus-per-node=v100-32gb:1 v100.sh
says "[P4D122] with eager attention, which transformers before 4.36 uses, and later releases may use on this GPU, the job needs"
sed 's/--fp16/--fp16 --attn_implementation sdpa/' v100.sh >sdpa.sh
exits 0 p4d check -N1 --gpus-per-node=v100-32gb:1 sdpa.sh
case $err in *eager*) fail "it is told which" ;; esac
# no kernel of PyTorch's attention takes bf16 there
sed 's/--fp16/--bf16 --attn_implementation sdpa/; s/batch_size 2/batch_size 1/; s/size 4096/size 8192/' v100.sh >bf16.sh
exits 0 p4d check -N1 --gpus-per-node=v100-32gb:1 bf16.sh
says "[P4D122] with PyTorch's own attention (sdpa), which has no kernel for bf16 on this GPU and stores scores as eager attention does, the job needs" "fp16"
exits 0 p4d check -N1 --gpus-per-node=a40-48gb:1 bf16.sh
case $err in *scores*) fail "Ampere has a kernel" ;; esac
# nor has Transformer Engine one in any type
cat >volta.sh <<'JOB'
#!/bin/sh
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 8192 \
	--max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 8 --fp16 --tensor-model-parallel-size 2 \
	--vocab-size 50257 --tokenizer-type NullTokenizer --use-distributed-optimizer --attention-dropout 0 --hidden-dropout 0
JOB
exits 0 p4d check -N1 --gpus-per-node=v100-32gb:8 volta.sh
says "[P4D122] with unfused attention, the only attention that Transformer Engine has for this GPU, the job needs" "--p4d-attention=unfused"
refused P4D012 p4d check -N1 --gpus-per-node=v100-32gb:8 --p4d-attention=unfused volta.sh
# and with context parallelism it has no attention at all there
sed 's/--fp16/--fp16 --context-parallel-size 2/' volta.sh >cp.sh
exits 0 p4d check -N1 --gpus-per-node=v100-32gb:8 cp.sh
case $err in *P4D122*) fail "there is no such attention" ;; esac
exits 0 p4d check -N1 --gpus-per-node=a40-48gb:8 volta.sh
case $err in *P4D122*) fail "Ampere has a kernel" ;; esac

# what p4d has no formula for
cat >saves.sh <<'JOB'
#!/bin/bash
cat >ds.json <<X
{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true}}
X
deepspeed --num_gpus 8 run_clm.py --do_train --deepspeed ds.json --model_name_or_path Qwen/Qwen2.5-7B --bf16 --per_device_train_batch_size 1 --block_size 2048 --gradient_checkpointing
JOB
eight="p4d check -N1 --gpus-per-node=h100:8"
exits 0 $eight saves.sh
prints "would pass: " "Not counted: the 16-bit weights that rank 0 gathers in host memory when it saves"
[ -z "$err" ] || fail "sbatch says nothing of it: $err"
exits 0 $eight --json saves.sh
prints '"not_counted":"the 16-bit weights'
for other in 's/save": true/save": false/' 's/"stage": 3/"stage": 2/'; do
	sed "$other" saves.sh >others.sh
	exits 0 $eight others.sh
	case $out in *"Not counted"*) fail "$other: nothing is gathered" ;; esac
done
flat="--p4d-framework=fsdp --p4d-model-code=transformers --p4d-fsdp-version=1 --p4d-model=llama-2-70b --p4d-micro-batch=1 --p4d-seq-len=1024 --p4d-recompute=full --wrap=true"
exits 0 $eight --p4d-finetune=qlora --p4d-lora-rank=16 $flat
prints "Not counted: the GPU memory during loading, before FSDP1 shards the quantized weights"
exits 0 $eight --p4d-finetune=lora --p4d-lora-rank=16 $flat
case $out in *"Not counted"*) fail "weights in 16 bits are loaded as they are sharded" ;; esac

# p4d estimate says of fragmentation what sbatch does
same="p4d estimate --framework=fsdp --model-code=transformers --fsdp-version=1 --model=qwen2.5-32b --micro-batch=1 --recompute=full --gpu=h100 --nodes=2 --gpus-per-node=8"
exits 0 $same --seq-len=20000 --global-batch=16
prints "Verdict: warn (unvalidated: fragmentation; without it the job fits)"
says "[P4D121] unvalidated (fragmentation; without it the job fits): qwen2.5-32b needs 82.2 of 79.1 GiB"
exits 0 $same --seq-len=20000 --global-batch=16 --json
prints '"verdict":"warn"' '"unvalidated":"fragmentation; without it the job fits"'
refused P4D012 $same --seq-len=24000 --global-batch=32

# experts with Megatron-Core, at the margin: recipes differ in gradients and loss, and fragmentation from job to job
experts="p4d check -N1 --gpus-per-node=b300:8 --p4d-framework=megatron --p4d-model=qwen3-30b-a3b --p4d-tp=1 --p4d-cp=1 --p4d-pp=1 --p4d-ep=8 --p4d-recompute=none --p4d-seq-len=4096 --p4d-global-batch=512 --p4d-optimizer-sharding=on"
exits 0 $experts --p4d-micro-batch=8 --wrap=./recipe.sh
says "[P4D121] unvalidated (gradients in fp32 and an unfused loss; " "needs 286.3 of 267.7 GiB"
exits 0 $experts --p4d-micro-batch=8 --p4d-grad-dtype=bf16 --p4d-cross-entropy=fused --wrap=./recipe.sh
says "[P4D121] unvalidated (fragmentation; without it the job fits)" "needs 256.6 of 267.7 GiB"
refused P4D012 $experts --p4d-micro-batch=8 --p4d-grad-dtype=fp32 --p4d-cross-entropy=unfused --wrap=./recipe.sh
refused P4D012 $experts --p4d-micro-batch=16 --wrap=./recipe.sh
# the program takes what the plan says
refused P4D012 $experts --p4d-micro-batch=8 --wrap='srun pretrain_gpt.py $P4D_MEGATRON_ARGS'

# vLLM: stages of other lengths than p4d would assume
for way in "export VLLM_PP_LAYER_PARTITION=16,32
vllm" "VLLM_PP_LAYER_PARTITION=16,32 vllm"; do
	printf '#!/bin/sh\n%s serve Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8 --pipeline-parallel-size 2\n' "$way" >stages.sh
	exits 0 p4d check -N1 --gpus-per-node=v100-32gb:2 stages.sh
	says "VLLM_PP_LAYER_PARTITION (stages.sh:2) is not modelled"
done
printf '#!/bin/sh\nvllm serve Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8 --pipeline-parallel-size 2\n' >stages.sh
exits 0 p4d check -N1 --gpus-per-node=v100-32gb:2 stages.sh
says "[P4D112] pp=2: vLLM 0.14 and 0.15 compare the KV cache of all stages, 24.0 GiB for 262144 tokens" "fix: stages.sh:2: add --max-model-len "
