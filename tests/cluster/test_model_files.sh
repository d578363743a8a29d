#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Malformed and unreadable model files, each with its own message.
. "${0%/*}/lib.sh"

write() { printf '%s' "$1" >config.json; }
try()
{
	run sbatch -H $node --p4d-model="$work/config.json" --p4d-tp=8 job.sh
	refused "$1" spank
}
write '{"architectures": ["LlamaForCausalLM"], "hidden_size": 51'
try P4D004
{ for _ in $(seq 2000); do printf '['; done; } >config.json
try P4D004
head -c 10485760 /dev/zero | tr '\0' ' ' >config.json
try P4D003
rm config.json
try P4D003
mkfifo config.json
try P4D003
rm config.json
good='{"architectures": ["LlamaForCausalLM"], "hidden_size": 5120, "intermediate_size": 13824,
	"num_attention_heads": 40, "num_hidden_layers": 40, "vocab_size": 32000, "max_position_embeddings": 2048}'
write "$good"
run sbatch -H $node --p4d-model="$work/config.json" --p4d-tp=8 job.sh
accepted
write "$(printf %s "$good" | sed 's/40, "num_hidden/-40, "num_hidden/')"
try P4D005
write "$(printf %s "$good" | sed 's/5120/9223372036854775808/')"
try P4D005
write "$(printf %s "$good" | sed 's/5120/"5120"/')"
try P4D004
