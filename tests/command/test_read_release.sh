#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The release of transformers that a job runs: that of the environment which its script activates, and the message if
# it is not known.
. "${0%/*}/lib.sh"
unset VIRTUAL_ENV CONDA_PREFIX

# environment NAME VERSION
environment()
{
	mkdir -p "$1/bin" "$1/lib/python3.11/site-packages/transformers"
	printf 'VIRTUAL_ENV=%s\nexport VIRTUAL_ENV\nPATH="$VIRTUAL_ENV/bin:$PATH"\nexport PATH\n' "$work/$1" >"$1/bin/activate"
	printf '# %s\n__version__ = "%s"\n' "$1" "$2" >"$1/lib/python3.11/site-packages/transformers/__init__.py"
}
environment old 4.57.1
environment new 5.2.0
head='#!/bin/bash
#SBATCH -N1 --gpus-per-node=8'
run='torchrun --nproc_per_node 8 run_clm.py --do_train --model_name_or_path Qwen/Qwen3-4B --block_size 2048 --per_device_train_batch_size 1 --bf16 --gradient_checkpointing'

# script LINE...: of a job that runs these
script()
{
	printf '%s\n' "$head" "$@" >train.sh
}
# finds RELEASE, or "" for none
finds()
{
	exits 0 p4d read train.sh
	got=$(printf '%s\n' "$out" | sed -n 's/^  transformers  *\([0-9.]*\)  *\(.*\)/\1 \2/p')
	[ "$got" = "${1:+$1 $work/$2/lib/python3.11/site-packages/transformers/__init__.py:2}" ] || fail "$(cat train.sh): $got"
}
script "source $work/old/bin/activate" "$run"
finds 4.57 old
script ". new/bin/activate" "$run"
finds 5.2 new
script "$work/old/bin/$run"
finds 4.57 old
script "conda activate $work/new" "$run"
finds 5.2 new
script ". new/bin/activate" 'export PATH=/opt/vllm/bin:$PATH' "$run"
finds ""
script 'export PATH=/opt/vllm/bin:$PATH' ". new/bin/activate" 'export PATH=$PATH:/opt/cuda/bin' "$run"
finds 5.2 new
script "$run"
finds ""
VIRTUAL_ENV=$work/old
export VIRTUAL_ENV
finds 4.57 old
script "module load pytorch" "$run"
finds ""
script "srun --container-image=pytorch $run"
finds ""
unset VIRTUAL_ENV
script "source old/bin/activate" "apptainer exec --nv pytorch.sif $run"
finds ""
script "if [ -e \$SCRATCH/x ]; then . old/bin/activate; else . new/bin/activate; fi" "$run"
finds ""
script "conda activate train" "$run"
finds ""
echo '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}' >z.json
script "source old/bin/activate" "$run --deepspeed z.json"
finds 4.57 old
script "source old/bin/activate" "$run --fsdp 'full_shard auto_wrap'"
finds 4.57 old

# What the script installs is what runs, if it names one release and installs it for sure.
# installed RELEASE LINE...: "" for none
installed()
{
	want=$1
	shift
	script "source $work/old/bin/activate" "$@" "$run"
	exits 0 p4d read train.sh
	got=$(printf '%s\n' "$out" | sed -n 's/^  transformers  *\([0-9.]*\)  *train.sh:4$/\1/p')
	[ "$got" = "$want" ] || fail "$(cat train.sh): $got"
	[ "$want" ] || case $out in *4.57*) fail "$(cat train.sh): $out" ;; esac
}
installed 4.51 "pip install transformers==4.51.3 peft"
installed 5.17 "python -m pip install -q 'transformers[torch]==5.17.0rc1'"
installed 4.46 "uv pip install transformers==4.46"
installed "" "pip install -U transformers"
installed "" "pip install 'transformers>=4.50'"
installed "" "pip install git+https://github.com/huggingface/transformers@v4.49.0"
installed "" "[ -e \$SCRATCH/x ] || pip install transformers==4.51.3"
installed 4.51 "pip install transformers==4.51.3 || exit 1"
installed 4.51 "$work/old/bin/pip install transformers==4.51.3"
installed 4.51 "pip install transformers==4.51.3" "pip install -U wandb"
# Another environment's, after a marker, elsewhere, or not certain.
installed "" "/opt/vllm/bin/pip install transformers==4.51.3"
installed "" "python -m venv /tmp/e; /tmp/e/bin/pip install transformers==4.51.3"
installed "" "pip install --target=/x transformers==4.51.3"
installed "" "pip install -t /opt/x transformers==4.51.3"
installed "" "pip install --prefix /x transformers==4.51.3"
installed "" "pip install --prefix=/x transformers==4.51.3"
installed "" "pip install \"transformers==4.51.3; python_version<\\\"3.10\\\"\""
installed "" "pip install transformers==4.51.3 || pip install transformers"
installed "" "pip install transformers==4.51.3 && true || pip install transformers"
installed "" "pip3.9 install transformers==4.51.3"
installed "" "srun pip install transformers==4.51.3"
installed "" "pip install transformers==4.51.3; . new/bin/activate"
installed "" "pip install transformers==4.51.3; conda activate train"
installed "" "pip install transformers==4.51.3; . \$SCRATCH/env/bin/activate"
installed "" "pip install transformers==4.51.3; pip install -U trl"
script "/opt/vllm/bin/pip install transformers==4.51.3" ". new/bin/activate" "$run"
finds ""
script "pip install transformers==4.51.3" ". new/bin/activate" "$run"
finds ""
# Changes of the environment after its activation, which its files do not show.
for change in "pip install -U -r requirements.txt" "pip install -r requirements.txt" "pip install -U trl" "pip install -e ." \
	"uv sync" deactivate "module load python" "export PYTHONPATH=/x:\$PYTHONPATH" "pip uninstall -y transformers" "pip-sync requirements.txt" "poetry install" \
	"pip install sentence-transformers==3.1 transformers-stream-generator==0.0.5" "srun pip install -r requirements.txt" \
	". \$SCRATCH/env/bin/activate" "conda deactivate" "\$PIP install -r requirements.txt"; do
	script ". old/bin/activate" "$change" "$run"
	finds ""
done
for change in "pip install -q --upgrade pip" "pip install flash-attn==2.7 wandb --no-build-isolation" "pip list" "module list" \
	"pip install --index-url https://download.pytorch.org/whl/cu128 torch || true"; do
	script ". old/bin/activate" "$change" "$run"
	finds 4.57 old
done
script "module load python" ". old/bin/activate" "$run"
finds 4.57 old
script ". old/bin/activate" "env PYTHONPATH=/x $run"
finds ""
# as in venv's own file
cp -r old left
printf 'deactivate() {\n\tunset VIRTUAL_ENV\n}\nVIRTUAL_ENV=%s\nexport VIRTUAL_ENV\n' "$work/left" >left/bin/activate
script ". left/bin/activate" "$run"
finds 4.57 left
script ". left/bin/activate" deactivate "$run"
finds ""
script "(. left/bin/activate)" "$run"
finds ""

# no file, or no regular one
script "source gone/bin/activate" "$run"
finds ""
rm old/lib/python3.11/site-packages/transformers/__init__.py
mkfifo old/lib/python3.11/site-packages/transformers/__init__.py
script "source old/bin/activate" "$run"
finds ""
rm old/lib/python3.11/site-packages/transformers/__init__.py
environment old 4.57.1

# Before release 5 weights are fp32: then the job does not fit, and a message says so if the release is not known.
script "source new/bin/activate" "$run"
exits 0 p4d check --conf p4d.conf train.sh
case $out$err in *"before 5"*) fail "the release is known" ;; esac
script "source old/bin/activate" "$run"
p4d check --conf p4d.conf train.sh >answer 2>&1
grep -q 'P4D013.*needs .* GiB' answer || fail "fp32 weights do not fit: $(cat answer)"
needs=$(sed -n 's/.*needs \([0-9.]* of [0-9.]* GiB\) .*/\1/p' answer | head -n 1)
script "$run"
exits 0 p4d check --conf p4d.conf train.sh
says "P4D122" "with transformers before 5, which loads weights in fp32, the job needs $needs" "--p4d-transformers=5"
script "$run --dtype bfloat16"
exits 0 p4d check --conf p4d.conf train.sh
case $out$err in *"before 5"*) fail "the script says the type" ;; esac

# The Trainer's FSDP is version 1 before 5.10, unless its configuration says another.
# shards VERSION ENVIRONMENT [ARGUMENT...]: "" for none that is read, and so p4d's
shards()
{
	version=$1
	script "${2:+source $2/bin/activate}" "$run --fsdp 'full_shard auto_wrap' ${3:-}"
	exits 0 p4d read train.sh
	got=$(printf '%s\n' "$out" | sed -n 's/^  fsdp-version  *\([0-9]*\) .*/\1/p')
	[ "$got" = "$version" ] || fail "$(cat train.sh): FSDP$got"
}
environment nine 5.9.2
environment ten 5.10.0.dev0
echo '{"fsdp_version": 2}' >two.json
shards 1 old
shards 1 nine
case $out in *"before 5.10"*) fail "the release is known" ;; esac
shards "" ten
case $out in *"before 5.10"*) fail "the release is known" ;; esac
shards "" ""
prints "release of transformers: before 5.10 it uses FSDP1"
shards 2 nine "--fsdp_config two.json"
shards 2 "" "--fsdp_config two.json"
prints "before 5.0 it always uses FSDP1"
# releases that took no version from there, or kept parameters gathered
shards 1 old "--fsdp_config two.json"
environment three 5.3.1
shards 2 three "--fsdp_config two.json"
prints "reshard-after-forward off"
echo '{"fsdp_version": 2, "fsdp_reshard_after_forward": true}' >again.json
shards 2 three "--fsdp_config again.json"
case $out in *"reshard-after-forward off"*) fail "it was told to reshard" ;; esac
script "source nine/bin/activate" "$run --fsdp full_shard"
exits 0 p4d read train.sh
prints "FSDP1 whose units are not the layers"

# FSDP1's gathers ahead of a forward pass are counted, and gathers without a limit get a message.
echo '{"forward_prefetch": true, "limit_all_gathers": false}' >ahead.json
shards 1 nine "--fsdp_config ahead.json"
prints "forward-prefetch" "limit_all_gathers" "FSDP may gather parameters early"

# Typed, also where it has no effect.
exits 0 p4d estimate --framework ddp --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers 4 --micro-batch 1
prints "param-dtype=fp32"
exits 0 p4d estimate --framework ddp --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers 5 --micro-batch 1
prints "param-dtype=bf16"
for framework in deepspeed "fsdp --model-code transformers"; do
	exits 0 p4d estimate --framework $framework --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers 4
done
exits 5 p4d estimate --framework fsdp --model-code torchtitan --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers 4
says "transformers" "torchtitan has its own code for the model"
for release in 2 2.11 100 4. 4.x .5 4.57x 4.1000 x; do
	exits 5 p4d estimate --framework ddp --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers $release
	says "--transformers=$release: not a release from 3 to 99, such as 4.57"
done

# Losses of classes with several parts, which differ between releases: p4d reports both, and a guess never refuses.
# needs OPTION...: GiB of the job, with DeepSpeed
needs()
{
	exits "$1" p4d estimate --model gemma3-12b --gpu a100-80gb --gpus-per-node 8 --framework deepspeed --zero-stage 3 \
		--finetune lora --lora-rank 8 --lora-targets all-linear --micro-batch 1 --global-batch 8 --recompute full $2
	got=$(printf '%s\n' "$out" | awk '$1 == 0 { print $(NF - 4) }')
}
needs 0 "--seq-len 16384"
newest=$got
for release in 5 5.17 4.49; do
	needs 0 "--seq-len 16384 --transformers $release"
	[ "$got" = "$newest" ] || fail "$release: $got, not $newest"
done
needs 0 "--seq-len 16384 --transformers 4.51" # keeps 16-bit logits, beside two more copies in fp32
awk -v new="$newest" -v old="$got" 'BEGIN { exit !(old - new > 7.5 && old - new < 9) }' || fail "$newest and $got GiB"
echo '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}' >z.json
sed 's/^mode = enforce/&\nscripts = judge/' p4d.conf >judge.conf
# class MODEL TOKENS ROWS: of a job with DeepSpeed
class()
{
	printf '%s\n' "$head" "torchrun --nproc_per_node 8 run_clm.py --do_train --model_name_or_path $1 --block_size $2 --per_device_train_batch_size $3 --bf16 --gradient_checkpointing --optim adamw_torch_fused --deepspeed z.json" >train.sh
}
# refused RELEASE: typed; "" for the environment's
refused()
{
	run p4d check --conf judge.conf ${1:+--p4d-transformers=$1} train.sh
	[ "$status" = 12 ] || [ "$status" = 13 ] || fail "exits with $status"
	says "of 79.1 GiB"
}
class google/gemma-3-4b-it 18000 1
exits 0 p4d check --conf judge.conf train.sh
says "P4D122" "with transformers 4.50 to 4.51, whose Gemma3ForConditionalGeneration" "the job needs 80.2 of 79.1 GiB" "--p4d-transformers=4.52"
for release in 4.52 5 5.16; do
	exits 0 p4d check --conf judge.conf --p4d-transformers=$release train.sh
	case $out$err in *P4D122*) fail "$release is known: $err" ;; esac
done
refused 4.51
environment four 4.51.3
sed -i "2a . four/bin/activate" train.sh
refused ""
# a typed release is used although the script installs another one; a pin that may not be what runs refuses no job
sed -i "s|^\. four.*|pip install transformers==4.51.3|" train.sh
refused ""
exits 0 p4d check --conf judge.conf --p4d-transformers=5.17 train.sh
case $out$err in *P4D046*) fail "it is typed: $err" ;; esac
sed -i "s|^pip install.*|/opt/vllm/bin/&; . new/bin/activate|" train.sh
exits 0 p4d check --conf judge.conf train.sh
says "P4D122"
# also of pairs, and of a server, the text part alone is counted
script "accelerate launch --num_processes 8 -m trl.scripts.dpo --model_name_or_path google/gemma-3-4b-it --dataset_name x --max_length 1024 --per_device_train_batch_size 1 --gradient_checkpointing --bf16 --use_peft"
exits 0 p4d check --conf judge.conf train.sh
says "p4d checked only the text part of Gemma3ForConditionalGeneration"
script "vllm serve google/gemma-3-4b-it --max-model-len 8192"
exits 0 p4d check --conf judge.conf train.sh
says "p4d checked only the text part of Gemma3ForConditionalGeneration"
# LLaVA's copies have 16 bits: what does not fit with a later release may fit with 4.51, and is not refused
mkdir llava
cat >llava/config.json <<'END'
{"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "tie_word_embeddings": false,
 "text_config": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
 "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
 "hidden_act": "silu"}, "vision_config": {"model_type": "clip_vision_model"}}
END
class ./llava 8192 7
exits 0 p4d check --conf judge.conf train.sh
says "P4D121" "with transformers 4.41 to 4.51, whose LlavaForConditionalGeneration"
refused 4.52
exits 0 p4d check --conf judge.conf --p4d-transformers=4.51 train.sh
case $out$err in *P4D121*) fail "it fits: $err" ;; esac

# Experts that are quantized, and refuse nobody, or left in bf16, as was compared with transformers 5.23.
moe="--framework ddp --model qwen3-30b-a3b --gpu h100 --gpus-per-node 1 --finetune qlora --lora-rank 8 --lora-targets attention --seq-len 1024 --micro-batch 1 --global-batch 1"
exits 0 p4d estimate $moe --transformers 4
prints "unvalidated: quantized experts of transformers before 5"
old=$(printf '%s\n' "$out" | awk '$1 == 0 { print $3 }')
exits 0 p4d estimate $moe --transformers 5
case $out in *unvalidated*) fail "was compared" ;; esac
new=$(printf '%s\n' "$out" | awk '$1 == 0 { print $3 }')
awk -v old="$old" -v new="$new" 'BEGIN { exit !(old * 2.5 < new) }' || fail "params: $old and $new GiB"
