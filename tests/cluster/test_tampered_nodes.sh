#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A refused step of two nodes ends on both, soon, with one message; the job goes on and no node is drained.
. "${0%/*}/lib.sh"

cat >steps.sh <<'END'
#!/bin/sh
plan=$P4D_PLAN
P4D_PLAN=$(printf %s "$P4D_PLAN" | sed 's/:layers=[0-9]*@/:layers=4@/')
begun=$(date +%s)
srun -N2 sleep 60
echo "edited=$?"
[ $(($(date +%s) - begun)) -lt 20 ] && echo "soon=yes"
P4D_PLAN=$plan
srun -N2 hostname >/dev/null
echo "plain=$?"
END
run sbatch -N2 --gpus-per-node=8 --p4d-model=llama13b --p4d-tp=8 -o out steps.sh
accepted
finished "$id"
same "$state" COMPLETED
run cat out
lacks "$out" "edited=0"
contains "$out" "edited="
contains "$out" "soon=yes"
contains "$out" "plain=0"
same "$(printf '%s\n' "$out" | grep -c 'p4d: \[')" 1 "messages"
nodes_are_up
