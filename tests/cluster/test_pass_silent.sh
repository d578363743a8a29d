#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job that says everything and fits passes without a word.
. "${0%/*}/lib.sh"

run sbatch -H $node $full job.sh
accepted
silent
same "$out" "Submitted batch job $id"

# nor does slurmctld, which cannot look for accelerate's default configuration, speak of a script that names no model
cat >accelerated.sh <<'JOB'
#!/bin/sh
A="$A --per_device_train_batch_size 4"
accelerate launch --num_processes 8 --use_deepspeed --zero_stage 3 sft.py $A
JOB
run sbatch -H $node accelerated.sh
accepted
silent
