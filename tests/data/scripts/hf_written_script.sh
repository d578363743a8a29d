#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8 --ntasks-per-node=1
cat > run_inner.sh <<EOT
#!/bin/bash
export NODE_RANK=\$SLURM_NODEID
GPUS=8
torchrun --nnodes $SLURM_NNODES --node_rank \$NODE_RANK --nproc_per_node \$GPUS \\
   run_clm.py --do_train --model_name_or_path google/gemma-2b --block_size 2048 --bf16 \\
   --per_device_train_batch_size 2 --deepspeed z2.json
EOT
cat > z2.json <<< '{"zero_optimization":{"stage":2},"bf16":{"enabled":true},"train_micro_batch_size_per_gpu":"auto"}'
chmod +x run_inner.sh
srun ./run_inner.sh
