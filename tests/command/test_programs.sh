#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which program a script starts: evidence decides, not a file's name. A script that trains no language model gets no
# message, an unknown program is never judged with the defaults of another one, and known ones are judged.
. "${0%/*}/lib.sh"

printf '%s\n' 'mode = enforce' 'scripts = judge' 'partition "*" { gpu = a100-80gb }' 'version = 1' >judge.conf
printf '%s\n' 'mode = enforce' 'scripts = advise' 'partition "*" { gpu = a100-80gb }' 'version = 1' >advise.conf
count=0
job() # job COMMAND: a script that runs it on a node of four
{
	printf '%s\n' '#!/bin/bash' "#SBATCH -p gpu -N1 --gpus-per-node=${gpus:-4}" "$1" >job.sh
	count=$((count + 1))
}
# quiet COMMAND: no message at sbatch, however the site judges scripts
quiet()
{
	job "$1"
	for site in judge advise; do
		exits 0 p4d check --conf $site.conf job.sh
		[ -z "$err" ] || fail "$1: p4d speaks"
		case $out in "p4d: would pass: the job has no p4d options,"*) ;; *) fail "$1" ;; esac
	done
}
# strange COMMAND: one line that says that the program is not known, and no verdict
strange()
{
	job "$1"
	for site in judge advise; do
		exits 0 p4d check --conf $site.conf job.sh
		case $err in
		"p4d: [P4D117] p4d does not know the program "*"; its memory was not checked"*) ;;
		*) fail "$1" ;;
		esac
		[ "$out" = "p4d: would be submitted: not checked" ] || fail "$1"
	done
	exits 0 p4d read job.sh
	case $out in *"by default:"*) fail "$1: p4d read has defaults" ;; esac
}
# judged COMMAND [STATUS]: p4d judges the job's memory
judged()
{
	job "$1"
	run p4d check --conf judge.conf job.sh
	[ "$status" = "${2:-0}" ] || fail "$1"
	case $out$err in *"GiB"*) ;; *) fail "$1: no verdict" ;; esac
	case $err in *"is not a program"* | *"was not checked"*) fail "$1" ;; esac
}

# ---- no language model ----
quiet 'python ppo.py --env-id CartPole-v1 --total-timesteps 50000 --num-envs 8'
quiet 'python ppo.py --seed 1 --gamma 0.98 --learning-rate 2.5e-4'
quiet 'python train/train.py --epochs 90 --arch resnet50'
quiet 'torchrun --nproc_per_node 4 run_train.py model=resnet data=imagenet'
quiet 'torchrun --standalone --nproc_per_node=4 train_gpt.py'
quiet 'python -m recipe.train --config cifar.yaml'
quiet 'python deepy.py --mode test'
quiet 'python sft.py'
quiet 'torchrun --nproc_per_node 4 dpo.py'
quiet 'accelerate launch grpo.py --lr 1e-5'
quiet 'python reward_modeling.py --data ratings.csv --epochs 3'
quiet 'deepspeed --num_gpus 4 train_mnist.py --deepspeed --deepspeed_config ds.json --epochs 5'
quiet 'python run_glue.py --model_name_or_path bert-base-cased --task_name mrpc --do_train --max_seq_length 128 --per_device_train_batch_size 32'
quiet 'python run_ner.py --model_name_or_path dslim/bert-base-NER --dataset_name conll2003 --per_device_train_batch_size 16'
quiet 'python run_mlm.py --model_name_or_path FacebookAI/roberta-base --dataset_name wikitext --per_device_train_batch_size 8 --do_train'
quiet 'torchrun --nproc_per_node 4 run_speech_recognition_ctc.py --model_name_or_path facebook/wav2vec2-large-xlsr-53 --per_device_train_batch_size 16'
quiet 'torchrun --nproc_per_node 4 finetune_whisper.py --model_name_or_path openai/whisper-large-v3 --per_device_train_batch_size 8 --bf16'
quiet 'python run_image_classification.py --model_name_or_path google/vit-base-patch16-224-in21k --per_device_train_batch_size 64'
quiet 'python finetune_segformer.py --model_name_or_path nvidia/mit-b0 --per_device_train_batch_size 16'
quiet 'python train_st.py --model_name_or_path sentence-transformers/all-mpnet-base-v2 --per_device_train_batch_size 64'
quiet 'python train_esm.py --model_name_or_path facebook/esm2_t33_650M_UR50D --per_device_train_batch_size 4 --deepspeed z3.json'
quiet 'python sft.py --model_name_or_path /models/whisper-small --per_device_train_batch_size 4'
# encoders with a decoder
for model in facebook/bart-large-cnn sshleifer/distilbart-cnn-12-6 google/pegasus-xsum Helsinki-NLP/opus-mt-en-de facebook/mbart-large-50 \
	facebook/nllb-200-distilled-600M google/mt5-base google/byt5-small t5-small google-t5/t5-large google/flan-t5-xl google/t5-v1_1-xl Salesforce/codet5p-770m; do
	quiet "torchrun --nproc_per_node 8 examples/pytorch/summarization/run_summarization.py --model_name_or_path $model --do_train --per_device_train_batch_size 8 --bf16"
	quiet "python run_translation.py --model_name_or_path $model --do_train --per_device_train_batch_size 8 --max_source_length 512"
done
quiet 'python train.py --per_device_train_batch_size 8 --data tables.csv'
quiet 'python train.py --per_device_train_batch_size 8 --model_name_or_path /scratch/me/unknown-net'
quiet 'python xla_spawn.py --num_cores 8 train_resnet.py'
quiet 'python train_grpo.py --num_generations 8 --env CartPole-v1'
quiet 'python src/train.py configs/unet.yaml'
quiet './run_train.sh resnet50'
quiet 'composer -n 4 train/train.py resnet.yaml'
quiet 'python llm_finetune/finetune.py --config mine.yaml'
quiet 'python examples/run_sft.py --config mine.yaml'
quiet 'python run_grpo_math.py'

# ---- programs of the user's own ----
llama='--model_name_or_path meta-llama/Llama-3.1-8B'
strange "python sft.py $llama --per_device_train_batch_size 1 --max_seq_length 2048 --bf16 --quant4 --lora_r 16 --lora_alpha 32"
exits 0 p4d check --conf judge.conf job.sh
says "p4d does not know the program sft.py; its memory was not checked (its arguments are like those of trl)"
strange "python sft.py $llama --per_device_train_batch_size 1 --use_4bit"
strange "python run_sft.py $llama --per_device_train_batch_size 1 --data_path mine.json"
strange "python dpo.py $llama --per_device_train_batch_size 1 --pairs mine.json"
strange "torchrun --nproc_per_node 4 run_dpo.py $llama --per_device_train_batch_size 1 --my_beta 0.3"
strange "python train_grpo.py $llama --per_device_train_batch_size 1 --num_generations 8 --use_4bit --reward_kind combined --lora_r 16"
strange "python grpo.py $llama --per_device_train_batch_size 1 --num_generations 8 --format_reward on"
strange "python finetune_lora.py $llama --per_device_train_batch_size 1 --max_seq_length 2048 --bf16 --lora_r 16"
strange "torchrun --nproc_per_node 4 train.py $llama --per_device_train_batch_size 4 --bf16"
strange "accelerate launch finetune.py $llama --per_device_train_batch_size 4 --lora_r 8"
strange "torchrun --nproc_per_node 4 run_clm.py --do_train $llama --per_device_train_batch_size 1 --my_option 3"
strange "python run_clm.py train $llama --per_device_train_batch_size 1"
strange "python sft_trainer.py $llama --per_device_train_batch_size 2 --packing"
strange 'torchrun --nproc_per_node 4 my_pretrain.py --tensor-model-parallel-size 2 --num-layers 24 --hidden-size 2048 --num-attention-heads 16'
strange "python my_sft.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --gradient_checkpointing"
strange "python experiments/sft.py --model_name_or_path mistralai/Mistral-7B-v0.1 --per_device_train_batch_size 2 --wandb_tag x"
strange "python -m mylab.sft --model_name_or_path mistralai/Mistral-7B-v0.1 --per_device_train_batch_size 2"
strange "python online_dpo.py $llama --per_device_train_batch_size 2 --game chess"
strange "python kto.py $llama --per_device_train_batch_size 2 -c mine"

# a configuration file says the same as arguments: one value that the parser does not know is enough
printf '%s\n' 'model_name_or_path: meta-llama/Llama-3.1-8B' 'per_device_train_batch_size: 1' 'max_length: 2048' 'quantize: true' >own.yaml
strange 'accelerate launch sft.py --config own.yaml'
strange 'python run_sft.py own.yaml'
# a file that cannot be read is reported first
job "python sft.py --config nowhere.yaml $llama --per_device_train_batch_size 1"
exits 0 p4d check --conf judge.conf job.sh
says "p4d: [P4D117] job.sh:3 (sft.py) was not checked: nowhere.yaml cannot be read, so p4d does not know what it sets"
quiet 'python sft.py --config nowhere.yaml'

# ---- the real ones ----
gpus=1
lora='--use_peft --lora_r 16 --lora_alpha 32 --gradient_checkpointing --max_length 2048 --per_device_train_batch_size 1 --bf16'
judged "trl sft $llama --dataset_name x $lora"
judged "python -m trl.scripts.sft $llama --dataset_name x $lora"
judged "accelerate launch trl/scripts/sft.py $llama --dataset_name x $lora"
judged "python trl/scripts/sft.py $llama $lora --local_option 1" # a path that only that project has
# an argument of a newer release, or of a changed copy: advice, never a refusal
judged "accelerate launch examples/scripts/sft.py $llama --dataset_name x $lora --argument_of_tomorrow 3"
judged "accelerate launch /opt/trl/examples/scripts/dpo.py $llama --dataset_name x $lora --argument_of_tomorrow=3"
full="--model_name_or_path meta-llama/Llama-2-13b-hf --per_device_train_batch_size 1"
judged "torchrun examples/scripts/sft.py $full" 13
judged "torchrun examples/scripts/sft.py $full --argument_of_tomorrow 3"
says "though --argument_of_tomorrow is not an argument of TRL 1.16; the job is submitted as it is"
judged "torchrun transformers/examples/pytorch/language-modeling/run_clm.py --do_train $full --block_size 1024" 13
judged "torchrun transformers/examples/pytorch/language-modeling/run_clm.py --do_train $full --block_size 1024 --argument_of_tomorrow"
quiet 'python examples/scripts/sft.py --net resnet50'
judged "accelerate launch sft.py $llama --dataset_name x $lora"
judged "python sft.py $llama $lora --neftune_noise_alpha 5 --warmup_ratio 0.03 --report_to wandb --assistant_only_loss --eos_token x"
judged "python sft.py $llama $lora --no_remove_unused_columns --dataset-text-field text --lr_scheduler_ty cosine"
judged "python sft.py $llama $lora --logging-steps 1 --hub_model_revision main --dataset_num_proc 8 --ddp_timeout -1"
judged "python scripts/run_sft.py $llama $lora --chat_template x --preprocessing_num_workers 4"
judged "torchrun dpo.py $llama --beta 0.1 --precompute_ref_batch_size 4 $lora"
judged "trl dpo $llama $lora"
judged "accelerate launch grpo.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 8 --num_generations 8 --max_prompt_length 512 --max_completion_length 256 --reward_funcs a"
judged "accelerate launch train_grpo.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 8 --num_generations 8 --max_prompt_length 512 --temperature 0.9 --epsilon_high 0.28"
judged "accelerate launch src/open_r1/grpo.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 8 --num_generations 8 --max_prompt_length 512 --system_prompt hello"
clm='--per_device_train_batch_size 1 --block_size 1024 --do_train --bf16 --dataset_name wikitext'
judged "torchrun run_clm.py --do_train --model_name_or_path gpt2 $clm --tokenizer_name gpt2 --low_cpu_mem_usage --validation_split_percentage 1"
judged "python transformers/examples/pytorch/language-modeling/run_clm.py --do_train --model_name_or_path gpt2 $clm --mine 1"
judged "python run_clm.py --do_train --model_name_or_path gpt2 $clm --save_safetensors False --overwrite_output_dir --fp16_opt_level O1"
judged 'torchrun train_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --vocab-size 50257'
printf '%s\n' 'model_name_or_path: gpt2' 'per_device_train_batch_size: 1' 'max_length: 1024' 'model_init_kwargs:' '  torch_dtype: bfloat16' 'env:' '  A: b' >trl.yaml
judged 'accelerate launch sft.py --config trl.yaml'
judged 'python sft.py --config trl.yaml --packing --eval_strategy no'
printf '%s\n' 'model_name_or_path: meta-llama/Llama-3.2-1B' 'stage: sft' 'do_train: true' 'finetuning_type: lora' 'template: llama3' 'cutoff_len: 1024' 'per_device_train_batch_size: 1' >lf.yaml
judged 'torchrun src/train.py lf.yaml'

judged 'torchrun src/train.py --stage sft --do_train --model_name_or_path meta-llama/Llama-3.2-1B --template llama3 --finetuning_type lora --per_device_train_batch_size 1'
judged "trl sft --model_name_or_path gpt2 --max_length 1024 --per_device_train_batch_size 1 --bf16 \$NOTHING"

# accelerate's options belong to trl itself
gpus=4
judged "trl sft $full --num_processes 4" 13
says "add --use_deepspeed --zero_stage"
case $err in *"accelerate launch"*) fail "no accelerate launch is there" ;; esac
gpus=1

# A fix has the names of the script's release: earlier ones of OpenRLHF have no dots.
ppo='python3 -m openrlhf.cli.train_ppo_ray --colocate_all_models --vllm_num_engines 4 --vllm_tensor_parallel_size 2 --vllm_gpu_memory_utilization 0.5
--pretrain meta-llama/Llama-3.1-8B --reward_pretrain a/reward-8b --micro_train_batch_size 8 --train_batch_size 128 --zero_stage 3 --bf16 --packing_samples --gradient_checkpointing'
dotted='python3 -m openrlhf.cli.train_ppo_ray --train.colocate_all --vllm.num_engines 4 --vllm.tensor_parallel_size 2 --vllm.gpu_memory_utilization 0.5
--actor.model_name_or_path meta-llama/Llama-3.1-8B --train.micro_batch_size 8 --train.batch_size 128 --ds.zero_stage 3 --ds.packing_samples --actor.gradient_checkpointing_enable'
gpus=8
judged "$(printf %s "$ppo" | tr '\n' ' ')"
says "add --vllm_enable_sleep"
says "though the reward model (job.sh:3) is not counted"
judged "$(printf %s "$dotted" | tr '\n' ' ')"
says "add --vllm.enable_sleep"
gpus=1

# A rank of LoRA without the switch for adapters makes p4d unsure: advice, never a refusal.
job "trl sft --model_name_or_path meta-llama/Llama-2-13b-hf --per_device_train_batch_size 1 --max_length 2048 --lora_r 16"
exits 0 p4d check --conf judge.conf job.sh
says "--lora_r (job.sh:3) does not say whether the program trains adapters"
sed -i 's/ --lora_r 16//' job.sh
run p4d check --conf judge.conf job.sh
[ "$status" = 13 ] || fail "full finetuning of 13B is not refused"

[ $count -ge 75 ] || fail "only $count scripts"

# Control characters of a script are never printed as they are.
escape=$(printf '\033')
for command in "torchrun --nproc_per_node 1 tr${escape}[2Jain.py $llama --per_device_train_batch_size 1 --max_length 'a${escape}b'" \
	"trl sft --model_name_or_path 'meta${escape}[2J' --per_device_train_batch_size 1 --dtype '${escape}'" \
	"torchrun --nproc_per_node 1 own${escape}.py" ". './env${escape}.sh'; trl sft $llama --per_device_train_batch_size 1"; do
	job "$command"
	for way in "read" "read --json" "check --conf judge.conf" "check --conf judge.conf --json"; do
		# shellcheck disable=SC2086 # words
		exits 0 p4d $way job.sh
		case $out$err in *"$escape"*) fail "p4d $way prints control characters" ;; esac
	done
done
