#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No option of p4d-train is silent: each option in its help changes training, its memory or its losses, or is refused
# by name; and so is each option of p4d that p4d-train lacks.
. "${0%/*}/lib.sh"
by_hand
seq 1 400 >text
exits 0 p4d data -o tokens text

model="--model custom --layers 4 --hidden 32 --ffn 48 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 64
	--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32 --global-batch 4"
# without OPTION: the model's options but this one
without() { echo "$model" | tr -s '\n\t ' '\n' | sed "/^$1\$/,+1d" | tr '\n' ' '; }
# trained FILE: what a log says that does not depend on the machine's speed and memory
trained() { sed 's/"\(seconds\|tokens_per_second\|model_tflops\|memory_bytes\|host_[a-z_]*\)":[^,}]*//g' "$1"; }
# runs LOG OPTION...
runs()
{
	log=$1
	shift
	# shellcheck disable=SC2086
	run p4d-train --data tokens --steps 2 --lr 1e-2 --device cpu --log "$log" "$@"
}

# option, value, a layout in which it has an effect; additions to the other runs' model
walked=
while read -r option value layout; do
	walked="$walked $option"
	base=base$(echo "$layout" | tr -d ' -')
	# shellcheck disable=SC2046,SC2086
	[ -e "$base" ] || runs "$base" $model $layout
	# shellcheck disable=SC2046,SC2086
	runs one $(without "$option") "$option" "$value" $layout
	if [ "$status" = 0 ]; then
		[ "$(trained one)" != "$(trained "$base")" ] || fail "$option $value has no effect, and nothing says so"
	else
		name=$(echo "${option#--}" | tr - .)
		[ "$name" != glu ] || name=activation # which it is part of
		echo "$err" | grep -q -e "$name" || fail "$option $value is refused without its name"
		echo "$err" | grep -q "has no option --" && fail "$option is p4d-train's, which does not take it"
	fi
	rm -f one
done <<'END'
--model llama3.2-1b
--tp 4 --local-ranks 4 --tp 2 --pp 2
--tp 2 --local-ranks 2
--cp 2 --local-ranks 2
--cp-comm all-gather --local-ranks 2 --cp 2
--cp-comm a2a --local-ranks 2 --cp 2
--pp 2 --local-ranks 2
--vpp 2 --local-ranks 2 --pp 2
--micro-batch 2
--global-batch 8
--seq-len 16
--schedule gpipe --local-ranks 2 --pp 2
--schedule zbv --local-ranks 2 --pp 2
--schedule v-half --local-ranks 2 --pp 2
--schedule zbv
--token-slices 4 --local-ranks 2 --pp 2
--token-slices 2
--slice-lengths 24,8 --local-ranks 2 --pp 2 --token-slices 2
--slice-lengths 24,8
--tp-grid 1,2,1 --local-ranks 2 --tp 2
--tp-grid 1,1,2 --local-ranks 2 --tp 2 --micro-batch 2
--tp-grid 2,2,1 --local-ranks 2 --tp 2
--local-loss stage --local-ranks 2 --pp 2
--local-loss stage
--shard-degree 2 --local-ranks 4 --optimizer-sharding gradients
--shard-degree 2
--optimizer-sharding gradients --local-ranks 2
--optimizer-sharding parameters --local-ranks 2
--vocab-parallel vocab-1 --local-ranks 2 --pp 2
--vocab-parallel vocab-2
--recompute full
--recompute none
--recompute moe
--sequence-parallel off --local-ranks 2 --tp 2
--tp-comm-overlap on --local-ranks 2 --tp 2
--optimizer-sharding off --local-ranks 2
--optimizer-dtype bf16
--optimizer adamw-8bit
--optimizer muon
--optimizer sgd
--offload optimizer
--offload params
--offload activations
--offload activations --recompute full
--resident-layers 1 --offload params
--resident-layers 1 --local-ranks 2 --optimizer-sharding parameters
--resident-layers 1
--finetune lora
--lora-rank 4
--lora-targets attention
--lora-dropout 0.1
--workload preference
--pipeline-split 1,3 --local-ranks 2 --pp 2
--precision bf16
--precision fp16
--precision fp8
--packing on
--architecture gpt2
--layers 2
--hidden 16
--ffn 32
--heads 2
--kv-heads 4
--head-dim 16
--vocab 300
--max-seq-len 16
--norm layernorm
--glu off
--activation geglu
--tied on
--positions learned
--bias qkv
--qk-norm on
--sliding-window 8
--norm-epsilon 0.1
--embedding-scale 3
--residual-scale 0.5
--attention-scale 0.3
--logit-scale 0.1
--rope-theta 2
--rope-scaling linear,4
--gpu nothing
END

# options for several nodes or for GPUs, of which there are none here
walked="$walked --nvlink-domain --document-len"
for option in $(p4d-train --help | sed -n '/^Model and layout/,/--help/s/^  \(--[a-z-]*\) .*/\1/p'); do
	case " $walked --help " in
	*" $option "*) ;;
	*) fail "$option is not walked" ;;
	esac
done

# p4d's that are not p4d-train's: no value makes them pass
for option in $(p4d estimate --help | sed -n 's/^  \(--[a-z0-9-]*\) [^ ].*/\1/p'); do
	case " $walked --device --datadir --conf " in
	*" $option "*) continue ;;
	esac
	# shellcheck disable=SC2086
	runs one $model "$option" 1
	[ "$status" != 0 ] || fail "$option 1 passes"
	rm -f one
done

# options of training: beside what; "-": it takes no value. What is seen: the log, and the files that a run leaves
# leaves LOG: what is seen of a run
leaves() { trained "$1"; find ck board -type f -o -type d 2>/dev/null | sed 's/events.*/events/' | sort; find . -maxdepth 1 -name 'trace.*'; }
exits 0 p4d data -o others job.sh
exits 0 p4d data --split-lines -o lines text
rm -f base*
walked=
while read -r option value beside; do
	walked="$walked $option"
	[ "$value" != - ] || value=
	rm -rf ck board trace.* one base
	# shellcheck disable=SC2086
	run p4d-train --data lines --steps 3 --lr 1e-2 --device cpu --log base $model $beside
	[ "$status" = 0 ] || fail "beside $option: $beside"
	leaves base >base.seen
	rm -rf ck board trace.*
	# shellcheck disable=SC2086
	run p4d-train --data lines --steps 3 --lr 1e-2 --device cpu --log one $model $beside $option $value
	if [ "$status" = 0 ]; then
		leaves one | cmp -s - base.seen && fail "$option $value has no effect, and nothing says so"
	else
		echo "$err" | grep -q -e "$option" || fail "$option $value is refused without its name"
	fi
done <<'END'
--data others
--valid-data lines
--valid-fraction 0.5
--sequences packed --document-mask on
--document-mask on
--delimiter 3
--beta 0.2
--steps 2
--epochs 2
--config nosuch.toml
--print-config -
--lr 2e-2
--min-lr 5e-3
--warmup 1
--schedule-lr wsd
--schedule-lr linear
--schedule-lr constant
--decay-steps 1 --schedule-lr wsd
--decay-steps 1
--beta1 0.5
--beta2 0.5
--epsilon 1e-2
--weight-decay 0.9
--clip 1e-3
--z-loss 1e-2
--seed 2
--init-from nothing
--lora-alpha 2
--checkpoint ck
--save-every 1 --checkpoint ck
--save-every 1
--keep 1 --checkpoint ck --save-every 1
--keep 1
--save-best - --checkpoint ck --valid-data lines
--save-best -
--resume must --checkpoint ck
--resume must
--resume never
--sample text
--logits file
--tokenizer bytes
--sample-tokens 3
--temperature 1
--top-p 0.5
--eval-every 1 --valid-data lines
--eval-every 1
--eval-batches 2 --valid-data lines
--eval-batches 2
--stop-after-worse 2
--eval-only -
--trace trace.json
--tensorboard board
--comm staged
--comm nccl
--local-ranks 2
--threads 2048
--device cuda
END
# what shows when something goes wrong, or in time: test_train.sh, test_killed, test_train_threads
walked="$walked --on-spike --skips --spikes --watchdog --log --help --version"
for option in $(p4d-train --help | sed -n '/^Training/,/^Model and layout/s/^  \(--[a-z0-9-]*\).*/\1/p'); do
	case " $walked " in
	*" $option "*) ;;
	*) fail "$option is not walked" ;;
	esac
done
