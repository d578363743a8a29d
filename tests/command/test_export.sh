#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d export: files of a size, checkpoints that are torn or not there, directories that cannot be written, adapters whose model
# has changed or moved. That the weights are the ones that were trained: test_train_released.sh, test_train_lora.sh.
. "${0%/*}/lib.sh"
released=$P4D_TEST_SRCDIR/tests/data/released
by_hand

! ldd "$P4D_TEST_BUILDDIR/p4d" 2>/dev/null | grep -iE 'cuda|cublas|nccl|mpi|openblas' || fail "p4d links what trains"
exits 0 p4d data --tokenizer ids --vocab 40 -o ids "$released/ids.jsonl"
cp -r "$released/llama" own
run="--data ids --device cpu --global-batch 1 --seq-len 32 --lr 1e-3 --init-from own"
# shellcheck disable=SC2086 # a list of words
train() { p4d-train $run "$@"; }
exits 0 train --steps 2 --save-every 1 --checkpoint whole

# files of at most a size, and their index; the same tensors as in one
exits 0 p4d export whole one
prints "one: weights of whole/step-00000002 in bf16"
exits 0 p4d export --bf16 --shard-size 4KB whole/step-00000002 several
[ "$(ls several/model-*-of-*.safetensors | wc -l)" -gt 2 ] || fail "too few files: $(ls several)"
for file in several/model-*.safetensors; do
	[ "$(stat -c %s "$file")" -lt 6000 ] || fail "$file has $(stat -c %s "$file") bytes"
	grep -q "\"$(basename "$file")\"" several/model.safetensors.index.json || fail "$file is not in the index"
done
exits 0 train --steps 1 --lr 0 --log one.json --init-from one
exits 0 train --steps 1 --lr 0 --log several.json --init-from several
[ "$(sed -n 's/.*"loss":\([^,]*\),"grad.*/\1/p' one.json)" = "$(sed -n 's/.*"loss":\([^,]*\),"grad.*/\1/p' several.json)" ] ||
	fail "files of a size hold other weights: $(cat one.json several.json)"
exits 0 p4d export --shard-size 1GiB whole gib
[ -s gib/model.safetensors ] || fail "more files than a GiB needs"
for size in 0GB 5 GB 5gb 5TB 99999999999999999999B 99999999999GiB ''; do
	exits 5 p4d export --shard-size "$size" whole other
	says "shard-size"
done

# Gemma's classes with biases of attention are in the library
for model in gemma gemma2 gemma3; do
	rm -rf biased
	cp -r "$P4D_TEST_SRCDIR/tests/data/parity/$model" biased
	sed -i 's/"attention_bias": *false/"attention_bias": true/' biased/config.json
	grep -q '"attention_bias": true' biased/config.json || fail "$model has no such field"
	exits 0 p4d-train --model biased/config.json --data ids --device cpu --global-batch 1 --seq-len 32 --steps 1 --checkpoint "$model.run"
	exits 0 p4d export "$model.run" "$model.hf"
	grep -q '"attention_bias": *true' "$model.hf/config.json" || fail "$model: $out, $(ls "$model.hf")"
done

# command lines
refused P4D001 p4d export
says "CHECKPOINT is missing" "fix: p4d help export"
refused P4D001 p4d export whole
says "DIR is missing"
refused P4D001 p4d export whole other more
refused P4D001 p4d export --bf16 --fp32 whole other
refused P4D001 p4d export --steps 1 whole other
says "unknown option --steps"
refused P4D005 p4d export --form gguf whole other
refused P4D001 p4d export --shard-size 1GB --shard-size 2GB whole other
says "--shard-size has two values"
refused P4D001 p4d-train --checkpoint whole --export other
says "unknown option --export"

# no checkpoint there, or a torn one: the one before it is named, and can be exported
refused P4D052 p4d export nowhere other
says "nowhere: no checkpoint found"
refused P4D052 p4d export "$work/bin" other
printf '\377' | dd of=whole/step-00000002/rank-00000.safetensors bs=1 seek=3000 conv=notrunc 2>dd.log
refused P4D052 p4d export whole torn
says "whole/step-00000002/rank-00000.safetensors" "checksum" "fix: p4d export whole/step-00000001"
[ ! -e torn/model.safetensors ] || fail "a torn checkpoint was exported"
truncate -s 2000 whole/step-00000002/rank-00000.safetensors
refused P4D052 p4d export whole other
says "has 2000 bytes, expected"
sed -i 's/"seed"/"sead"/' whole/step-00000002/manifest.json
refused P4D052 p4d export whole/step-00000002 other
says "its checksum is"
[ -z "$(fix)" ] || fail "a fix where one was named"
exits 0 p4d export whole/step-00000001 other

# destinations that cannot be written
refused P4D003 p4d export whole/step-00000001 other
says "other/model.safetensors: already exists; give another directory"
echo text >file
refused P4D003 p4d export whole/step-00000001 file
says "file"
refused P4D003 p4d export whole/step-00000001 nosuch/folder
says "nosuch/folder" "No such file"
if [ "$(id -u)" != 0 ]; then
	mkdir closed && chmod 555 closed
	refused P4D003 p4d export whole/step-00000001 closed
	says "closed" "Permission denied"
fi
(ulimit -f 4 && trap '' XFSZ && exec p4d export --fp32 whole/step-00000001 small) 2>said && fail "a full disk passes"
grep -q '\[P4D003\] small/model.safetensors' said || fail "of a full disk it says $(cat said)"
[ -z "$(ls small)" ] || fail "a full disk leaves $(ls small)"

# adapters: the model has moved or changed, or the run has no adapters
exits 0 train --steps 1 --finetune lora --lora-rank 2 --checkpoint adapted
refused P4D001 p4d export --form adapter --shard-size 1GB adapted other2
says "--shard-size has no effect"
mv own moved
refused P4D052 p4d export adapted merged
says "the adapters were trained with the weights of own, which is neither a directory" "fix: --init-from DIR"
exits 0 p4d export --init-from moved adapted merged
[ -s merged/model.safetensors ] || fail "nothing is merged"
exits 0 p4d export --form adapter adapted alone
[ -s alone/adapter_config.json ] || fail "no adapters"
printf '\377' | dd of=moved/model.safetensors bs=1 seek=$(($(stat -c %s moved/model.safetensors) - 5)) conv=notrunc 2>dd.log
refused P4D052 p4d export --init-from moved adapted other2
says "moved has other weights than those with which the adapters were trained (own)" "fix: --init-from own"
mv moved own
refused P4D052 p4d export adapted other2
says "own: its weights have changed since the adapters were trained" "fix: --init-from DIR"
refused P4D001 p4d export --form adapter whole/step-00000001 other2
says "--form=adapter has no effect: whole/step-00000001 contains a whole model and no adapters" "fix: leave out --form=adapter"

# what lies next to the released weights comes with an export, and special tokens have the numbers that they had there; a model
# that is not there any more is named by --init-from
ids() { sed -n 's/.*"\([bep][oa][sd]_token_id\)": *\(.*[^,]\),*$/\1 \2/p' "$1/config.json" | sort | tr '\n' ' '; }
cp -r "$released/llama" chats
sed -i 's/"bos_token_id": null/"bos_token_id": 1/; s/"eos_token_id": null/"eos_token_id": 2/; /pad_token_id/d' chats/config.json
mkdir chats/additional_chat_templates
for file in tokenizer.json tokenizer_config.json chat_template.jinja generation_config.json additional_chat_templates/tool_use.jinja; do
	echo "{\"of\": \"$file\"}" >"chats/$file"
done
same_files() # FOLDER
{
	for file in tokenizer.json tokenizer_config.json chat_template.jinja generation_config.json additional_chat_templates/tool_use.jinja; do
		cmp -s "chats/$file" "$1/$file" || fail "$1 has another $file, or none"
	done
}
exits 0 train --steps 1 --init-from chats --checkpoint of-chats
exits 0 train --steps 2 --init-from chats --checkpoint of-chats
cp "$released/tokenizer.json" chats/tokenizer.json
for from in "--checkpoint of-chats" "--init-from chats"; do
	# shellcheck disable=SC2086
	exits 0 p4d-train $from --sample 7wg --sample-tokens 1 --seq-len 32
done
exits 0 p4d export of-chats tuned
prints "tuned: weights of of-chats/step-00000002 in bf16; tokenizer, templates and settings: 5 files of $work/chats"
same_files tuned
[ "$(ids tuned)" = "bos_token_id 1 eos_token_id 2 " ] || fail "special tokens: $(ids tuned)"
exits 0 train --steps 1 --finetune lora --lora-rank 2 --init-from chats --checkpoint beside-chats
exits 0 p4d export beside-chats merged-chats
same_files merged-chats
[ "$(ids merged-chats)" = "bos_token_id 1 eos_token_id 2 " ] || fail "special tokens: $(ids merged-chats)"
exits 0 p4d export --form adapter beside-chats alone-chats
same_files alone-chats
grep -q "\"base_model_name_or_path\": *\"$work/chats\"" alone-chats/adapter_config.json || fail "$(cat alone-chats/adapter_config.json)"
mkdir mine && echo mine >mine/chat_template.jinja
exits 0 p4d export of-chats mine
[ "$(cat mine/chat_template.jinja)" = mine ] || fail "a template that was there is lost"
mv chats elsewhere
exits 0 p4d export of-chats without
prints "without: weights of of-chats/step-00000002 in bf16"
[ "$(ids without)" = "bos_token_id null eos_token_id null pad_token_id null " ] || fail "special tokens: $(ids without)"
mv elsewhere chats
exits 0 p4d export --init-from chats of-chats named
same_files named
refused P4D052 p4d export --init-from nowhere of-chats other2
