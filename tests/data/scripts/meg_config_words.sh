#!/bin/bash
#SBATCH -N 4 --gpus-per-node=8
# "tp,pp,cp" and "key=value" lists, as sweeps hand them over
LAYOUT=${LAYOUT:-4,2,2}
IFS=',' read -ra DEGREES <<< "$LAYOUT"
SETTINGS="micro-batch-size=2:global-batch-size=256:seq-length=32768"
ARGS=()
for setting in $(echo $SETTINGS | tr ':' ' '); do
    ARGS+=("--${setting%%=*}" "${setting#*=}")
done
mapfile -t SHAPE <<< "--num-layers 36
--hidden-size 4096
--num-attention-heads 32"
NUM=$(echo "${DEGREES[@]}" | wc -w)
[ "$NUM" -eq 3 ] || { echo "three degrees, please"; exit 1; }
srun --cpu-bind=none python pretrain_gpt.py ${SHAPE[@]} "${ARGS[@]}" \
    --tensor-model-parallel-size ${DEGREES[0]} --pipeline-model-parallel-size ${DEGREES[1]} \
    --context-parallel-size ${DEGREES[2]} --vocab-size $(( 250 * 512 )) "${@:1}"
