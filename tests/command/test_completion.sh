#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What shells complete after p4d, and after sbatch --p4d. bash runs the script; zsh and fish only parse it, if they are
# installed.
. "${0%/*}/lib.sh"

exits 0 p4d completion bash
p4d completion bash >completion.bash
bash -n completion.bash || fail "bash does not read it"
refused P4D001 p4d completion tcsh
says "p4d completion bash"

# completes WORD...: what bash offers for the last word, in $offered
completes()
{
	offered=$(bash -c '. ./completion.bash
		shift 0
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		case $1 in p4d) _p4d "$1" ;; *) _p4d_slurm "$1" ;; esac
		printf "%s\n" "${COMPREPLY[@]}"' bash "$@")
}
offers() { for word in "$@"; do echo "$offered" | grep -qx -- "$word" || fail "$word is not offered, but: $offered"; done; }

completes p4d es
offers estimate
completes p4d estimate --rec
offers --recompute --recompute-layers
completes p4d estimate --recompute = fu
offers full
completes p4d estimate --recompute ''
offers none selective full
completes p4d estimate --model qwen3-8
offers qwen3-8b
completes p4d plan --gpu h100-8
offers h100-80gb
completes p4d backtest --read
offers --read-output
completes p4d check --js
offers --json
touch job_of_mine.sh
completes p4d check job_of
offers job_of_mine.sh
completes sbatch --p4d-rec
offers --p4d-recompute
completes sbatch --p4d-framework = me
offers megatron
completes sbatch -p
[ -z "$offered" ] || fail "options of sbatch are offered"
# another program's completion of sbatch still works
offered=$(bash -c 'before() { COMPREPLY=(--partition); }
	complete -F before sbatch
	. ./completion.bash
	. ./completion.bash
	COMP_WORDS=(sbatch --part) COMP_CWORD=1
	_p4d_slurm sbatch
	echo "${COMPREPLY[@]}"')
offers --partition

for shell in zsh fish; do
	exits 0 p4d completion $shell
	prints "recompute" "p4d-model"
	p4d completion $shell >completion.$shell
	! command -v $shell >/dev/null || $shell -n completion.$shell || fail "$shell does not read it"
done

command -v p4d-train >/dev/null || exit 0

# p4d-train: its own options and those of models and layouts, their choices, files and models
exits 0 p4d-train --completion bash
printf '%s\n' "$out" >train.bash
bash -n train.bash || fail "bash does not read it"
refused P4D001 p4d-train --completion tcsh
says "not in tcsh" "p4d-train --completion bash"
trains()
{
	offered=$(bash -c '. ./train.bash
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		_p4d_train p4d-train
		printf "%s\n" "${COMPREPLY[@]}"' bash p4d-train "$@")
}
trains --lo
offers --lora-alpha --log --logits --local-ranks
trains --resume ''
offers auto must never
trains --data x --recompute = fu
offers full
trains --init-from --data
offers --data
trains --model qwen3-8
offers qwen3-8b
touch tokens_of_mine.bin
trains --data tokens_of
offers tokens_of_mine.bin
trains --init-from ''
! echo "$offered" | grep -qx NAME || fail "the word for a value is offered"
# every option that the help lists, and no other
p4d-train --help | grep -oE '^  --[a-z0-9-]+' | tr -d ' ' | sort -u >helped
sed -n "s/^\t\twords='\(.*\)'$/\1/p" train.bash | tr -s ' ' '\n' | grep . | sort -u >offered
cmp helped offered || fail "$(diff helped offered)"
for shell in zsh fish; do
	exits 0 p4d-train --completion $shell
	prints "recompute" "init-from" "resume"
	p4d-train --completion $shell >train.$shell
	! command -v $shell >/dev/null || $shell -n train.$shell || fail "$shell does not read it"
done
grep -qF -- "--data=[token file" train.zsh && grep -F -- "--data=[" train.zsh | grep -qF ":value:_files'" || fail "zsh completes no files"
grep -F -- "-l resume -x -a 'auto must never'" train.fish >/dev/null && grep -qF -- "-l data -r -F " train.fish || fail "fish lacks values"
