#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What releases of TRL and its like do differently: the job is judged by one, and warned of others.
. "${0%/*}/lib.sh"

at() { p4d check -N1 --gpus-per-node=h100:1 "$@"; }
cat >sft.sh <<'JOB'
#!/bin/sh
accelerate launch --num_processes 1 sft.py --model_name_or_path meta-llama/Llama-3.2-3B --dataset_name x --bf16 \
	--gradient_checkpointing --per_device_train_batch_size 8 --max_length 4096
JOB

# from TRL 1.15 on there are no logits; before 1.7 there are
exits 0 at sft.sh
prints "would pass with a warning"
says "[P4D122] with TRL before 1.7, which makes all logits, it needs" "--p4d-chunked-loss=trl-fused"
exits 0 p4d read sft.sh
prints "as TRL 1.16 does by default" "chunked-loss         trl-fused"
exits 0 at --p4d-chunked-loss=trl-fused sft.sh
case $err in *P4D122*) fail "which release it is was said" ;; esac
refused P4D012 at --p4d-chunked-loss=off --p4d-padding=max-length sft.sh

# a loss that TRL is asked for
sed 's/--bf16/--bf16 --loss_type nll/' sft.sh >nll.sh
exits 0 at nll.sh
says "[P4D122] with TRL before 1.15, which makes all logits, it needs"
sed 's/--bf16/--bf16 --loss_type chunked_nll/' sft.sh >chunked.sh
exits 0 at chunked.sh
case $err in *P4D122*) fail "all releases that have it make no logits" ;; esac

# the release that the environment has
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
