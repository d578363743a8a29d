#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# #SBATCH lines set p4d options; the command line wins over them.
. "${0%/*}/lib.sh"

cat >lines.sh <<'END'
#!/bin/sh
#SBATCH -N1 --gpus-per-node=8
#SBATCH --p4d-model=llama13b
#SBATCH --p4d-tp=2
env | grep '^P4D_'
END
run sbatch -H lines.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=2@u:"
run sbatch -H --p4d-tp=8 lines.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"
