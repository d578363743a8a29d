#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8 --ntasks-per-node=8
# values that hydra adds; a function whose output is kept
CONF=gpt_sft
tune() {
    python /opt/NeMo-Aligner/examples/nlp/gpt/train_gpt_sft.py --config-name=$CONF \
        trainer.num_nodes=2 trainer.devices=8 trainer.precision=bf16 \
        ++model.tensor_model_parallel_size=4 ++model.pipeline_model_parallel_size=2 \
        +model.sequence_parallel=True model.data.train_ds.max_seq_length=4096 \
        model.data.train_ds.micro_batch_size=1 model.data.train_ds.global_batch_size=128 \
        ++model.activations_checkpoint_granularity=full ++model.activations_checkpoint_method=block \
        ++model.activations_checkpoint_num_layers=4
}
tune | tee "log.$SLURM_JOB_ID"
