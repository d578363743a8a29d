#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An architecture p4d has no formula for is named, and passes with a warning by default.
. "${0%/*}/lib.sh"

printf '{"architectures": ["RwkvForCausalLM"], "hidden_size": 4096, "num_local_experts": 8}' >config.json
run sbatch -H $node --p4d-model="$work/config.json" --p4d-tp=8 job.sh
accepted
says "p4d: [P4D009]"
says "Rwkv"

# so is a program that p4d knows by name only, and one that the user names
printf '#!/bin/sh\nsrun python MaxText/train.py\n' >maxtext.sh
run sbatch -H $node --p4d-model=llama2-70b --p4d-tp=1 maxtext.sh
accepted
says "[P4D009]"
says "MaxText"
run sh -c "sbatch -H $node --p4d-model=llama13b --p4d-tp=8 --p4d-unmodelled=lora.py <job.sh"
accepted
says "not checked: lora.py"

# what the framework does not model of a preset is no other model to slurmctld
run sbatch -H $node --p4d-model=llama13b --p4d-framework=fsdp --p4d-attention=unfused job.sh
accepted
says "attention=unfused"
