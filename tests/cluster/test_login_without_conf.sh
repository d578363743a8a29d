#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A login node without p4d.conf, or with one that it cannot use, only observes: then the user gets slurmctld's
# messages.
. "${0%/*}/lib.sh"

model="--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096
	--max-position-embeddings 4096 --position-embedding-type rope --swiglu --normalization RMSNorm --vocab-size 32000
	--untie-embeddings-and-output-weights --disable-bias-linear --bf16 --hidden-dropout 0 --micro-batch-size 1 --global-batch-size 64"
cat >large.sh <<END
#!/bin/sh
torchrun --nproc_per_node 8 pretrain_gpt.py $(echo $model) --tensor-model-parallel-size 1
END
sed 's/parallel-size 1/parallel-size 8/' large.sh >small.sh
# what slurmctld alone cannot read
echo TP=1 >sizes.sh
sed "s/parallel-size 1/parallel-size \$TP/; 2i . $work/sizes.sh" large.sh >sourced.sh

without()
{
	for script in large.sh sourced.sh; do
		run sbatch -H $node $script
		accepted
		says "p4d: [P4D012]"
		says "needs"
		same "$(printf '%s\n' "$err" | grep -c P4D012)" 1 "times that it said so"
	done
	run sbatch -H $node small.sh
	accepted
	silent
	run sbatch -H $node job.sh
	accepted
	silent
	run sbatch -H -p warn $node $toobig job.sh
	accepted
	says P4D01
}
sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/plugstack.conf|" "$SLURM_CONF" >slurm.conf
echo "optional $BUILD/.libs/p4d.so" >plugstack.conf
usual=$SLURM_CONF
export SLURM_CONF="$work/slurm.conf"
without
echo "mode = nonsense" >p4d.conf
without
# with one the submitting side says it, and slurmctld nothing
export SLURM_CONF="$usual"
run sbatch -H $node large.sh
accepted
same "$(printf '%s\n' "$err" | grep -c 'P4D012')" 1 "times that it said so"
run sbatch -H -p observe $node large.sh
accepted
silent
