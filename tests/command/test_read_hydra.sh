#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configurations that hydra puts together: --config-path and --config-name, the defaults list, groups, and what the command line says.
. "${0%/*}/lib.sh"

unset CFG
mkdir -p conf/model conf/actor conf/size nemo/conf
cat >conf/run.yaml <<'E'
defaults:
  - ppo_trainer
  - model@actor_rollout_ref.model: qwen
  - actor@actor_rollout_ref.actor: small
  - size: base
  - optional data: nowhere
  - override hydra/job_logging: disabled
  - _self_
data:
  max_prompt_length: 1024
  max_response_length: 3072
algorithm: {adv_estimator: grpo}
E
printf 'path: Qwen/Qwen2.5-7B-Instruct\nuse_remove_padding: true\n' >conf/model/qwen.yaml
printf 'defaults: [qwen]\npath: meta-llama/Llama-3.1-8B-Instruct\n' >conf/model/llama.yaml
printf 'ppo_micro_batch_size_per_gpu: 2\nuse_kl_loss: true\n' >conf/actor/small.yaml
printf '# @package _global_\ntrainer: {n_gpus_per_node: 4, nnodes: 2}\ndata: {max_prompt_length: 8}\n' >conf/size/base.yaml
# of two files the one after _self_ takes precedence; without _self_, the file itself does
printf 'defaults: [_self_, {size: base}]\ndata: {max_prompt_length: 100, max_response_length: 92}\n' >conf/late.yaml
printf 'defaults: [{size: base}]\ndata: {max_prompt_length: 100, max_response_length: 92}\n' >conf/early.yaml
# runs WORDS: p4d read of verl with these words
runs()
{
	printf '%s\n' '#!/bin/bash' '#SBATCH -N2 --gpus-per-node=4' "python3 -m verl.trainer.main_ppo $*" >job.sh
	exits 0 p4d read job.sh
}
# has NAME VALUE FILE, lacks NAME: no value of it is known, and none is a default
has() { printf '%s\n' "$out" | grep -qE "^  $1 +$2 +[^ ]*$3" || fail "no $1 $2 of $3: $(tail -n 1 job.sh)"; }
lacks()
{
	printf '%s\n' "$out" | grep -qE "^  $1 " && fail "$1: $(tail -n 1 job.sh)"
	return 0
}

for words in '--config-path=$PWD/conf --config-name=run' '--config-path $PWD/conf --config-name run.yaml' '-cp "$PWD/conf" -cn run' \
	'--config-dir=conf --config-name=run'; do
	runs "$words actor_rollout_ref.rollout.tensor_model_parallel_size=4"
	has model Qwen/Qwen2.5-7B-Instruct conf/model/qwen.yaml:1
	has micro-batch 2 conf/actor/small.yaml:1
	has seq-len 4096 conf/run.yaml
	has nodes 2 conf/size/base.yaml:2
	has reference on conf/actor/small.yaml:2
	has critic off conf/run.yaml
	has packing on conf/model/qwen.yaml:2
	has engine-tp 4 job.sh
	lacks file
done
# the command line chooses files, and overrides their values
runs '--config-path=$PWD/conf --config-name=run model@actor_rollout_ref.model=llama data.max_prompt_length=512' \
	'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1'
has model meta-llama/Llama-3.1-8B-Instruct conf/model/llama.yaml:2
has packing on conf/model/qwen.yaml:2
has seq-len 3584 conf/run.yaml
has micro-batch 1 job.sh
runs '--config-path=$PWD/conf --config-name=late'
has seq-len 100 conf/
runs '--config-path=$PWD/conf --config-name=early'
has seq-len 192 conf/early.yaml
# a file that the script writes
runs '--config-path=$PWD/own --config-name=mine'
sed -i "2a mkdir -p own; cat >own/mine.yaml <<X\ndefaults: [ppo_trainer, _self_]\nactor_rollout_ref: {rollout: {tensor_model_parallel_size: 8}}\nX" job.sh
exits 0 p4d read job.sh
has engine-tp 8 job.sh:5
# a file that cannot be read may set anything: no value is verl's default
for words in '--config-path=/shared/conf --config-name=mine' '--config-dir conf --config-name nothere' '--config-name=mine' \
	'--config-path=$PWD/conf --config-name=$CFG' '--config-path=$CFG --config-name=mine' '--config-path=/shared/conf'; do
	runs "$words data.max_prompt_length=512 actor_rollout_ref.rollout.gpu_memory_utilization=0.7"
	has gpu-memory-utilization 0.7 job.sh
	for option in engine-tp critic reference recompute framework packing; do lacks $option; done
	has file '.*' ''
done
exits 0 p4d check --conf p4d.conf -p h100 job.sh
says "/shared/conf/ppo_trainer.yaml cannot be read, so p4d does not know what it sets" "[P4D117]"
# if a part cannot be read, only that part is unknown
printf 'defaults: [ppo_trainer, {rollout@actor_rollout_ref.rollout: ours}]\ndata: {max_prompt_length: 24, max_response_length: 40}\n' >conf/part.yaml
runs '--config-path=$PWD/conf --config-name=part'
has seq-len 64 conf/part.yaml
lacks recompute
lacks engine-tp
# configurations of verl's own, wherever it lies
for words in '--config-name=ppo_trainer' '--config-path=config --config-name=ppo_trainer.yaml'; do
	runs "$words data.max_prompt_length=512"
	has engine-tp 2 ''
	has framework fsdp ''
	lacks file
done
runs '--config-name=ppo_megatron_trainer data.max_prompt_length=512'
has framework megatron job.sh
# NeMo's are next to its program
printf 'trainer: {num_nodes: 2, devices: 8}\nmodel:\n  tensor_model_parallel_size: 4\n  num_layers: 32\n' >nemo/conf/gpt.yaml
printf '#!/bin/bash\n#SBATCH -N2 --gpus-per-node=8\nsrun python nemo/megatron_gpt_pretraining.py --config-path=conf --config-name=gpt model.hidden_size=4096\n' >job.sh
exits 0 p4d read job.sh
has tp 4 nemo/conf/gpt.yaml:3
has layers 32 nemo/conf/gpt.yaml:4
has hidden 4096 job.sh
# p4d stops reading files that include each other
printf 'defaults: [b]\n' >conf/a.yaml
printf 'defaults: [a]\n' >conf/b.yaml
runs '--config-path=$PWD/conf --config-name=a data.max_prompt_length=512'

# OmegaConf's ??? is no value, and a value that others override leaves no doubt
mkdir -p open/actor
printf 'defaults: [{actor@actor_rollout_ref.actor: mine}, _self_]\nactor_rollout_ref:\n  rollout:\n    name: ???\n' >open/open.yaml
printf 'defaults: [base, _self_]\nstrategy: megatron\n' >open/actor/mine.yaml
printf 'strategy: unheard-of\nmegatron: {tensor_model_parallel_size: 2}\n' >open/actor/base.yaml
runs '--config-path=$PWD/open --config-name=open'
has framework megatron open/actor/mine.yaml:2
has tp 2 open/actor/base.yaml:2
prints "engine"
case $out in *"???"* | *unheard-of*) fail "a value that no program gets: $out" ;; esac
# references to arguments of other files, and of the command line
printf 'actor_rollout_ref: {ref: {fsdp_config: {param_offload: "%s"}}, actor: {use_kl_loss: true, fsdp_config: {param_offload: %s}}}\n' \
	'${oc.select:actor_rollout_ref.actor.fsdp_config.param_offload,True}' false >open/refers.yaml
runs '--config-path=$PWD/open --config-name=refers'
has reference on open/refers.yaml
runs '--config-path=$PWD/open --config-name=refers actor_rollout_ref.actor.fsdp_config.param_offload=True'
has reference host open/refers.yaml
runs '--config-path=$PWD/open --config-name=refers actor_rollout_ref.ref.fsdp_config.param_offload=True'
has reference host open/refers.yaml
sed -i 's/oc.select:.*True}/oc.select:actor_rollout_ref.actor.other,True}/' open/refers.yaml
runs '--config-path=$PWD/open --config-name=refers'
prints "the value is computed from other values"
