#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fixes are pasted: jobs of five frameworks at six sites, drawn by a seed. Each fix is accepted, trains the same as before, and the
# edited script is judged as its options are. FIXES_JOBS=1000 takes more jobs, FIXES_SEED=N others. To see one again:
# fixes --seed=N --first=I --count=1 --all --keep.
. "${0%/*}/lib.sh"

jobs=${FIXES_JOBS:-200}
[ -z "${P4D_TEST_ALL:-}" ] || jobs=1500
[ -z "${P4D_TEST_FEW:-}" ] || jobs=40
run "$P4D_TEST_BUILDDIR/fixes" --seed="${FIXES_SEED:-1}" --count="$jobs"
[ "$status" = 0 ] || fail "a fix does not do what it says"
printf '%s\n' "$out"

# the nearest name is another model: the message has no fix to paste, but says where the file comes from
exits 0 p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=1 --wrap='trl sft --model_name_or_path ibm-granite/granite-4.0-micro --bf16 --max_length 4096 --per_device_train_batch_size 1 --use_peft'
says "nearest: granite-4.0-h-micro" "(hf download ibm-granite/granite-4.0-micro config.json)"
[ -z "$(fix)" ] || fail "a fix that is another model"

# torchtune's recipe recomputes everything and has no option for less, so there is nothing to paste
printf '#!/bin/bash\ntune run --nnodes 2 --nproc_per_node 1 full_finetune_distributed --config llama3_2/1B_full batch_size=1 gradient_accumulation_steps=64 tokenizer.max_seq_len=16384\n' >tune.sh
printf 'mode = enforce\nscripts = judge\npartition l4 {\n\tgpu = "l4-24gb"\n\tgpus_per_node = 8\n}\nversion = 1\n' >l4.conf
run p4d check --conf l4.conf -p l4 --nodes=2 --gpus-per-node=1 tune.sh
says "P4D123"
case $err in *without*) fail "leaves out what is not there" ;; esac

# an option that does not reach the program is not a fix
cat >factory.sh <<'JOB'
#!/bin/sh
export NNODES=2
llamafactory-cli train --do_train --model_name_or_path Qwen/Qwen2.5-1.5B --stage sft --finetuning_type lora --cutoff_len 4096
JOB
exits 0 p4d check --conf p4d.conf -p h100 -N2 --gpus-per-node=8 factory.sh
says "P4D118"
[ -z "$(fix)" ] || fail "a fix that is refused"
exits 46 p4d check --conf p4d.conf -p h100 -N2 --gpus-per-node=8 --p4d-micro-batch=1 factory.sh
[ "$(fix)" = --p4d-micro-batch=8 ] || fail "the fix contradicts the script as well"

# FSDP on one GPU: more GPUs also need more processes, and the changed script is judged as the fix said
trains="run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B --do_train --gradient_accumulation_steps 8 --per_device_train_batch_size 1 --bf16 True --block_size 4096 --gradient_checkpointing True --output_dir out"
cat >fsdp.yaml <<'YAML'
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 1
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
YAML
one="--conf judge.conf -p h100 -N1"
sed 's/^mode = enforce/mode = enforce\nscripts = judge/' p4d.conf >judge.conf
does_not_say() { case $out$err in *"$1"*) fail "it says: $1" ;; esac; }
# grown COMMAND WORDS: the fix of a script with this command ends in these words and, pasted, is accepted
grown()
{
	printf '#!/bin/bash\n%s\n' "$1" >one.sh
	# shellcheck disable=SC2086 # options
	run p4d check $one --gpus-per-node=1 one.sh
	fix=$(fix)
	case $fix in
	"--nodes=1 --gpus-per-node=4; one.sh:2: --per_device_train_batch_size 2; one.sh:2: --gradient_accumulation_steps 1$2") ;;
	*) fail "the fix is '$fix'" ;;
	esac
	sed -i 's/--per_device_train_batch_size 1/--per_device_train_batch_size 2/; s/--gradient_accumulation_steps 8/--gradient_accumulation_steps 1/
		s/--nproc.per.node[ =]1/--nproc_per_node 4/; s/--num_processes 1/--num_processes 4/' one.sh
	sed 's/^num_processes: 1/num_processes: 4/' fsdp.yaml >many.yaml
	sed -i 's/fsdp.yaml/many.yaml/' one.sh
	# shellcheck disable=SC2086 # options
	exits 0 p4d check $one --nodes=1 --gpus-per-node=4 one.sh
	printf '%s\n' "$out$err" | grep -q "1 node of 4 x h100-80gb, tp=1 cp=1 pp=1 dp=4 micro-batch=2" || fail "not judged on 4 GPUs"
	does_not_say "may not fit"
}
grown "accelerate launch --config_file fsdp.yaml --num_processes 1 $trains" "; one.sh:2: --num_processes 4"
grown "accelerate launch --config_file fsdp.yaml $trains" "; fsdp.yaml:4: num_processes: 4"
grown "torchrun --nproc_per_node 1 $trains --fsdp full_shard" "; one.sh:2: --nproc_per_node 4"
grown "torchrun --nproc-per-node=1 $trains --fsdp full_shard" "; one.sh:2: --nproc-per-node 4"
# shellcheck disable=SC2016 # the script's
grown 'torchrun --nproc_per_node $SLURM_GPUS_ON_NODE '"$trains --fsdp full_shard" ""
# shellcheck disable=SC2016 # the script's
grown 'srun --gpus-per-node=$SLURM_GPUS_ON_NODE torchrun --nproc_per_node 1 '"$trains --fsdp full_shard" "; one.sh:2: --nproc_per_node 4"
# in words where the script names its GPUs, or starts one process without a launcher
sed 's/^num_processes/gpu_ids: "0"\nnum_processes/' fsdp.yaml >ids.yaml
for command in "CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node 1 $trains --fsdp full_shard" \
	"srun --gpus-per-node=1 python $trains --fsdp full_shard" "srun --gres=gpu:1 torchrun --nproc_per_node 1 $trains --fsdp full_shard" \
	"srun -G1 bash -c 'torchrun --nproc_per_node 1 $trains --fsdp full_shard'" \
	"accelerate launch --config_file ids.yaml $trains" "python $trains --fsdp full_shard"; do
	printf '#!/bin/bash\n%s\n' "$command" >one.sh
	# shellcheck disable=SC2086 # options
	run p4d check $one --gpus-per-node=1 one.sh
	[ -z "$(fix)" ] || fail "a fix that does not reach its GPUs"
	says "; with more GPUs: FSDP on 1 x 4 (" "GiB, recompute=full)"
done
# a batch of one sequence cannot be divided
printf '#!/bin/bash\ntorchrun --nproc_per_node 1 %s --fsdp full_shard\n' "$trains" | sed 's/--gradient_accumulation_steps 8//' >one.sh
# shellcheck disable=SC2086 # options
run p4d check $one --gpus-per-node=1 one.sh
[ -z "$(fix)" ] || fail "a fix that trains with another batch"
says "; with more GPUs: FSDP on 1 x 2 (" "recompute=full, global-batch=2)"

# a variable that also sets another argument: the fix names the line where the argument is
cat >shared.sh <<'JOB'
#!/bin/bash
N=2
torchrun --nproc_per_node $N pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
	--group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --swiglu --normalization RMSNorm \
	--untie-embeddings-and-output-weights --position-embedding-type rope --disable-bias-linear --vocab-size 128256 --tokenizer-type NullTokenizer \
	--micro-batch-size 1 --global-batch-size 64 --bf16 --tensor-model-parallel-size 1 --use-distributed-optimizer \
	--no-create-attention-mask-in-dataloader --recompute-activations --context-parallel-size=$N
JOB
run p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=2 shared.sh
says "shared.sh:3: --nproc_per_node 4"
case $(fix) in *shared.sh:2*) fail "the fix also changes the context parallel size" ;; esac

# DPO: the most pairs that fit, and the accumulation that keeps the batch
for steps in "" "--gradient_accumulation_steps 2"; do
	printf '#!/bin/bash\ntrl dpo --model_name_or_path Qwen/Qwen2.5-1.5B --dataset_name x --per_device_train_batch_size 32 --bf16 --max_length 4096 --gradient_checkpointing %s\n' "$steps" >dpo.sh
	run p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=1 dpo.sh
	says "with 32 pairs, reference 5.8"
	if [ -z "$steps" ]; then
		same_fix="dpo.sh:2: --per_device_train_batch_size 8; dpo.sh:2: add --gradient_accumulation_steps 4"
	else
		same_fix="dpo.sh:2: --per_device_train_batch_size 8; dpo.sh:2: --gradient_accumulation_steps 8"
	fi
	[ "$(fix)" = "$same_fix" ] || fail "the fix is $(fix)"
done
printf '#!/bin/bash\ntrl dpo --model_name_or_path Qwen/Qwen2.5-1.5B --dataset_name x --per_device_train_batch_size 8 --gradient_accumulation_steps 4 --bf16 --max_length 4096 --gradient_checkpointing\n' >dpo.sh
run p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=1 dpo.sh
prints "global-batch=32" " of 79.1 GiB (unvalidated)"

# reinforcement learning: verl keeps its batch by itself, TRL by accumulation
printf '#!/bin/bash\ntrl grpo --model_name_or_path Qwen/Qwen2.5-1.5B --dataset_name x --per_device_train_batch_size 64 --bf16 --max_prompt_length 4096 --max_completion_length 4096 --gradient_checkpointing\n' >grpo.sh
run p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=1 grpo.sh
[ "$(fix)" = "grpo.sh:2: --per_device_train_batch_size 2; grpo.sh:2: add --gradient_accumulation_steps 32" ] || fail "the fix is $(fix)"
verl()
{
	printf '#!/bin/bash\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=512 data.max_prompt_length=4096 data.max_response_length=4096 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.model.enable_gradient_checkpointing=True actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.gpu_memory_utilization=0.5 trainer.n_gpus_per_node=8 trainer.nnodes=1 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=%s\n' "$1" >verl.sh
	run p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=8 verl.sh
}
verl 16
[ "$(fix)" = "verl.sh:2: actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8" ] || fail "the fix is $(fix)"
verl 8
prints "would pass: Qwen/Qwen2.5-7B-Instruct, reinforcement learning"
