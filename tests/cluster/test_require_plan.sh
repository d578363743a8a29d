#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A partition may require a plan of every job with GPUs.
. "${0%/*}/lib.sh"

run sbatch -H -p strict $node job.sh
refused P4D043
run sbatch -H -p strict -N1 -n1 job.sh
accepted
silent
run sbatch -H -p strict $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
# in whatever form Slurm accepts: 26.05 refuses some of these itself
for request in --gres=gpu:+1 --gres=gpu:h100:+2 "--gres=gpu:\ 1" --gres=gpu:h100:00000001 --gpus=+1 --gpus-per-node=+1 \
	"-n1 --gpus-per-task=+1" "--gpus=\ 2"; do
	eval "run sbatch -H -p strict $request job.sh"
	case $err in
	*"Invalid Trackable RESource"*) ;;
	*) refused P4D043 ;;
	esac
done
# --exclusive comes with all GPUs of the node
run sbatch -H -p strict --exclusive job.sh
refused P4D043

# a script that p4d reads says what it trains, also if it only leads to advice and needs files that slurmctld does not
# read
model="--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096
	--max-position-embeddings 4096 --position-embedding-type rope --swiglu --normalization RMSNorm --vocab-size 32000
	--untie-embeddings-and-output-weights --disable-bias-linear --bf16 --hidden-dropout 0 --micro-batch-size 1 --global-batch-size 64"
cat >small.sh <<EOF
#!/bin/sh
torchrun --nproc_per_node 8 pretrain_gpt.py $(echo $model) --tensor-model-parallel-size 8
EOF
echo "TP=8" >sizes.sh
sed "s/parallel-size 8/parallel-size \$TP/; 2i . $work/sizes.sh" small.sh >sourced.sh
for script in small.sh sourced.sh; do
	run sbatch -H -p strict $node $script
	accepted
	silent
done
run sh -c "cat small.sh | sbatch -H -p strict $node"
accepted
run sh -c "cat sourced.sh | sbatch -H -p strict $node"
refused P4D043
# the options that a script leaves open
sed 's/ --global-batch-size 64//' small.sh >part.sh
run sbatch -H -p strict $node part.sh
refused P4D043
says "global-batch (not given)"
same "$(fix)" --p4d-global-batch=N
run sbatch -H -p strict $node --p4d-global-batch=64 part.sh
accepted
sed 's/parallel-size 8/parallel-size 1/' small.sh >large.sh
run sbatch -H -p strict $node large.sh
accepted
says P4D012
echo "python resnet.py" >>job.sh
run sbatch -H -p strict $node job.sh
refused P4D043
says "or --p4d-unmodelled=PROGRAM for other programs"
# with this option the user has said what runs there; a site may still refuse it
run sbatch -H -p strict $node --p4d-unmodelled=resnet.py job.sh
accepted
says "[P4D009] p4d does not model the job's program, so the job was not checked: resnet.py"
contains "$(grep 'code="P4D009"' "$CLUSTER/log/slurmctld.log" | tail -1)" 'verdict="not-judged"'
conf=$CLUSTER/etc/p4d.conf
sed 's/^mode = enforce/&\nunmodelled = reject/' "$CLUSTER/p4d.conf.good" >"$conf.new"
put_site "$conf.new"
run sbatch -H -p strict $node --p4d-unmodelled=resnet.py job.sh
refused P4D009
run sbatch -H -p strict $node job.sh
refused P4D043
says "this site accepts only programs that p4d knows"
