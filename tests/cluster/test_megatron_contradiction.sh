#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A literal flag in a Megatron-LM script that contradicts the plan is quoted.
. "${0%/*}/lib.sh"

cat >megatron.sh <<'END'
#!/bin/sh
srun python pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 1
END
run sbatch -H $node --p4d-framework=megatron $full --p4d-framework=megatron megatron.sh
refused P4D046
says "--tensor-model-parallel-size 4"
sed -i 's/parallel-size 4/parallel-size 8/' megatron.sh
run sbatch -H $node $full --p4d-framework=megatron megatron.sh
accepted
