#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d-train needs one task for each GPU; the geometry is never rewritten.
. "${0%/*}/lib.sh"

printf '#!/bin/sh\nsrun p4d-train\n' >train.sh
run sbatch -H $node --ntasks-per-node=4 --p4d-model=llama13b --p4d-tp=8 train.sh
refused P4D032
contains "$(fix)" "--ntasks-per-node=8"
run sbatch -H $node --ntasks-per-node=8 --p4d-model=llama13b --p4d-tp=8 train.sh
accepted
