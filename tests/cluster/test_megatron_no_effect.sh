#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A Megatron-LM script that would not see what p4d chose is refused; one that uses it passes.
. "${0%/*}/lib.sh"

printf '#!/bin/sh\nsrun python pretrain_gpt.py --bf16\n' >deaf.sh
run sbatch -H $node --p4d-framework=megatron --p4d-model=llama13b --p4d-tp=8 deaf.sh
refused P4D045
says "P4D_MEGATRON_ARGS"
printf '#!/bin/sh\nsrun python pretrain_gpt.py $P4D_MEGATRON_ARGS\n' >hearing.sh
run sbatch -H $node --p4d-framework=megatron --p4d-model=llama13b --p4d-tp=8 hearing.sh
accepted
