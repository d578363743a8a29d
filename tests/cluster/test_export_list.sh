#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --export=LIST neither.
. "${0%/*}/lib.sh"

run sbatch -H --export=PATH,HOME $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"

# --export decides what the job gets of this environment, and PyTorch's allocator depends on it
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
megatron="sbatch -H $node --p4d-model=llama13b --p4d-tp=8 --p4d-framework=megatron"
plan() { job "$id" AdminComment; }
run $megatron job.sh
contains "$(plan)" allocator=expandable
run $megatron --export=ALL,A=1 job.sh
contains "$(plan)" allocator=expandable
run $megatron --export=PATH,HOME job.sh
accepted
lacks "$(plan)" allocator=expandable
run $megatron --export=NONE job.sh
lacks "$(plan)" allocator=expandable
run $megatron --export=PATH,PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512 job.sh
lacks "$(plan)" allocator=expandable
unset PYTORCH_CUDA_ALLOC_CONF
run $megatron --export=PATH,PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True job.sh
contains "$(plan)" allocator=expandable
