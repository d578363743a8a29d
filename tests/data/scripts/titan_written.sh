#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file <(cat <<EOF
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = ${LBS:-4}
seq_len = 8192
[activation_checkpoint]
mode = "selective"
[compile]
enable = true
EOF
)
