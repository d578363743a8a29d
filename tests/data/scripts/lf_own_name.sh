#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CONFIG=${HERE}/$(basename "$0" .sh).yaml
[ -f "$CONFIG" ] || { echo "no $CONFIG" >&2; exit 1; }
FORCE_TORCHRUN=1 exec llamafactory-cli train "$CONFIG" output_dir=out per_device_train_batch_size=2
