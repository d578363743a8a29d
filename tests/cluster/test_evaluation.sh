#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job is refused if only its evaluation does not fit; the pasted fix does not change training, and reaches
# Megatron-LM.
. "${0%/*}/lib.sh"

printf '#!/bin/sh\nsrun python pretrain_gpt.py $P4D_MEGATRON_ARGS\n' >evaluates.sh
run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 --p4d-eval-micro-batch=4 job.sh
refused P4D005 spank
training="--p4d-framework=megatron --p4d-model=llama13b --p4d-tp=8 --p4d-cp=1 --p4d-pp=1 --p4d-vpp=1 --p4d-micro-batch=1 --p4d-recompute=full"
run sbatch -H $node $training evaluates.sh
accepted
run sbatch -H $node $training --p4d-eval-micro-batch=2048 evaluates.sh
refused P4D012 spank
says "in evaluation (eval-micro-batch=2048)"
flags=$(fix)
run sbatch -H $node $training --p4d-eval-micro-batch=2048 $flags evaluates.sh
accepted
run sbatch $node $training --p4d-eval-micro-batch=4 -o out job.sh
accepted
finished "$id"
run cat out
contains "$(variable P4D_MEGATRON_ARGS)" "--eval-micro-batch-size 4"
