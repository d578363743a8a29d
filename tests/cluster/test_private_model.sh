#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A model file that only its owner may read is judged with the owner's rights.
. "${0%/*}/lib.sh"

[ "$(id -u)" = 0 ] || skip "needs root, to submit as another user"
[ "$(scontrol show config | sed -n 's/^AuthType *= *//p')" = auth/munge ] || skip "needs munge, to tell users apart"
cp "$SOURCE/etc/models/llama13b.json" private.json
printf '{"architectures": ["LlamaForCausalLM"], "hidden_size": 5120, "intermediate_size": 13824,
	"num_attention_heads": 40, "num_hidden_layers": 40, "vocab_size": 32000}' >private.json
chown nobody private.json
chmod 400 private.json
as() { setpriv --reuid="$1" --regid=nogroup --clear-groups sbatch -H -D / -o /dev/null $node \
	--p4d-model="$work/private.json" --p4d-tp=8 job.sh; }
run as nobody
accepted
says "p4d: [P4D110]"
scancel "$id"
run as daemon
refused P4D003 spank
says "$work/private.json"
