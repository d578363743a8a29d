/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose layout p4d reads. p4d models their memory like Megatron-LM's, or not at all. */
#include <inttypes.h>
#include <string.h>

#include "reader/read_finetune.h"

static const char *const precisions[] = {"bf16", "bf16", "bf16-mixed", "bf16", "bf16_mixed", "bf16",
					 "16",   "fp16", "16-mixed",   "fp16", "32",         "fp32",
					 "fp16", "fp16", "bfloat16",   "bf16", NULL};
static const char *const recomputations[] = {"full", "full", "selective", "selective", NULL};

enum { CONFIG_NAME, RECIPE, GRAPHS, GRAPH_SCOPE };

/* NeMo 1 and 2, and Megatron-Bridge: overrides in hydra's syntax. */
static const p4d_read_argument nemo_arguments[] = {
    {"--model.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--model.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--model.virtual_pipeline_model_parallel_size", P4D_VPP, NULL, NULL},
    {"--model.context_parallel_size", P4D_CP, NULL, NULL},
    {"--model.sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", NULL},
    {"--model.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--model.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--train.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--train.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--model.encoder_seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.data.seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--dataset.sequence_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.data.train_ds.max_seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.data.train_ds.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--model.data.train_ds.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--model.max_position_embeddings", P4D_MAX_SEQ_LEN, NULL, NULL},
    {"--model.num_layers", P4D_LAYERS, NULL, NULL},
    {"--model.hidden_size", P4D_HIDDEN, NULL, NULL},
    {"--model.ffn_hidden_size", P4D_FFN, NULL, NULL},
    {"--model.num_attention_heads", P4D_HEADS, NULL, NULL},
    {"--model.num_query_groups", P4D_KV_HEADS, NULL, NULL},
    {"--model.activations_checkpoint_granularity", P4D_RECOMPUTE, NULL, recomputations},
    {"--model.recompute_granularity", P4D_RECOMPUTE, NULL, recomputations},
    {"--model.activations_checkpoint_method", P4D_RECOMPUTE_METHOD, NULL, NULL},
    {"--model.recompute_method", P4D_RECOMPUTE_METHOD, NULL, NULL},
    {"--model.activations_checkpoint_num_layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--model.recompute_num_layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--model.cuda_graph_impl", P4D_READ_EXTRA(GRAPHS), NULL, NULL},
    {"--model.cuda_graph_scope", P4D_READ_EXTRA(GRAPH_SCOPE), NULL, p4d_reader__list},
    {"--factory", P4D_READ_EXTRA(RECIPE), NULL, NULL}, /* of NeMo 2's command line */
    {"--trainer.strategy.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--trainer.strategy.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--trainer.strategy.virtual_pipeline_model_parallel_size", P4D_VPP, NULL, NULL},
    {"--trainer.strategy.context_parallel_size", P4D_CP, NULL, NULL},
    {"--trainer.strategy.expert_model_parallel_size", P4D_EP, NULL, NULL},
    {"--trainer.strategy.sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", NULL},
    {"--data.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--data.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--data.seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--trainer.devices", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.num_nodes", P4D_NODES, NULL, NULL},
    {"--trainer.precision", P4D_PRECISION, NULL, precisions},
    {"--model.restore_from_path", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--model.peft.peft_scheme", P4D_READ_NOT_MODELLED, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* Finishes the reading of NeMo and Megatron-Bridge, which run Megatron-Core. A value that the command line
 * lacks is in one of the many files of their configuration. */
static void finish_nemo(p4d_reading *r)
{
	if (r->named)
		p4d_reader__put_default(r, P4D_FRAMEWORK, "megatron");
	if (p4d_reader__set(&r->value[P4D_LAYERS]) && p4d_reader__set(&r->value[P4D_HIDDEN]))
		p4d_reader__put_default(r, P4D_MODEL, "custom");
	p4d_reader__graphs(r, &r->extra[GRAPHS], &r->extra[GRAPH_SCOPE]);
	if (p4d_reader__set(&r->extra[RECIPE])) {
		p4d_reader__unknown(r, "file", "p4d does not read the values of the recipe %.60s",
				    r->extra[RECIPE].text);
		r->more_arguments = true;
	}
}

static const p4d_read_hydra nemo_hydra = {NULL, "conf", "megatron_gpt_config"};

const p4d_reader p4d_reader__nemo = {
    .framework = "nemo",
    .programs = {"megatron_gpt_pretraining.py", "megatron_gpt_finetuning.py", "~train_gpt_sft.py",
		 "nemo llm"},
    .arguments_alone = {"model.tensor_model_parallel_size", "train.global_batch_size"},
    .arguments = {nemo_arguments},
    .hydra = &nemo_hydra,
    .assignments = true,
    .finish = finish_nemo,
};

/* GPT-NeoX: several YAML files with the names of command-line arguments. */
static const p4d_read_argument neox_arguments[] = {
    {"", P4D_READ_FILE, "", NULL},
    {"--conf_dir", P4D_READ_EXTRA(CONFIG_NAME), NULL, NULL},
    {"-d", P4D_READ_EXTRA(CONFIG_NAME), NULL, NULL},
    {"--model-parallel-size", P4D_TP, NULL, NULL},
    {"--pipe-parallel-size", P4D_PP, NULL, NULL},
    {"--sequence-parallel", P4D_SEQUENCE_PARALLEL, "on", NULL},
    {"--num-layers", P4D_LAYERS, NULL, NULL},
    {"--hidden-size", P4D_HIDDEN, NULL, NULL},
    {"--intermediate-size", P4D_FFN, NULL, NULL},
    {"--num-attention-heads", P4D_HEADS, NULL, NULL},
    {"--num-kv-heads", P4D_KV_HEADS, NULL, NULL},
    {"--seq-length", P4D_SEQ_LEN, NULL, NULL},
    {"--max-position-embeddings", P4D_MAX_SEQ_LEN, NULL, NULL},
    {"--train-micro-batch-size-per-gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--train-batch-size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--checkpoint-activations", P4D_RECOMPUTE, "full", NULL},
    {"--precision", P4D_PRECISION, NULL, precisions},
    {"--zero-optimization.stage", P4D_ZERO_STAGE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__neox = {
    .framework = "gpt-neox",
    .programs = {"deepy.py train.py", "~deepy.py"},
    .folders = {"--conf_dir", "-d"},
    .arguments = {neox_arguments},
    .finish = p4d_finetune__unmodelled,
};

enum { REPLICAS, ACCUMULATION };

static const char *const untied[] = {"off"};
static const char *const engines[] = {"1f1b", "1f1b", "afab", "gpipe", NULL};

static const p4d_read_argument nanotron_arguments[] = {
    {"--config-file", P4D_READ_FILE, "", NULL},
    {"--parallelism.tp", P4D_TP, NULL, NULL},
    {"--parallelism.pp", P4D_PP, NULL, NULL},
    {"--parallelism.context_parallel_size", P4D_CP, NULL, NULL},
    {"--parallelism.recompute_layer", P4D_RECOMPUTE, "full", NULL},
    {"--tokens.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--tokens.sequence_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.dtype", P4D_PRECISION, NULL, precisions},
    {"--model.model_config.hidden_size", P4D_HIDDEN, NULL, NULL},
    {"--model.model_config.intermediate_size", P4D_FFN, NULL, NULL},
    {"--model.model_config.num_hidden_layers", P4D_LAYERS, NULL, NULL},
    {"--model.model_config.num_attention_heads", P4D_HEADS, NULL, NULL},
    {"--model.model_config.num_key_value_heads", P4D_KV_HEADS, NULL, NULL},
    {"--model.model_config.vocab_size", P4D_VOCAB, NULL, NULL},
    {"--model.model_config.max_position_embeddings", P4D_MAX_SEQ_LEN, NULL, NULL},
    {"--model.model_config.tie_word_embeddings", P4D_TIED, "on", untied},
    {"--optimizer.zero_stage", P4D_ZERO_STAGE, NULL, NULL},
    {"--parallelism.pp_engine", P4D_SCHEDULE, NULL, engines},
    {"--parallelism.dp", P4D_READ_EXTRA(REPLICAS), NULL, NULL},
    {"--tokens.batch_accumulation_per_replica", P4D_READ_EXTRA(ACCUMULATION), NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static void finish_nanotron(p4d_reading *r)
{
	const p4d_read_value *accumulation = &r->extra[ACCUMULATION];
	const uint64_t micro = p4d_reader__number(&r->value[P4D_MICRO_BATCH]),
		       replicas = p4d_reader__number(&r->extra[REPLICAS]),
		       times = p4d_reader__number(accumulation);

	if (micro && replicas && times && micro < UINT16_MAX && times < UINT16_MAX)
		p4d_reader__put(r, P4D_GLOBAL_BATCH, accumulation, "%" PRIu64, micro * replicas * times);
	p4d_finetune__unmodelled(r);
}

const p4d_reader p4d_reader__nanotron = {
    .framework = "nanotron",
    .programs = {"~run_train.py"},
    .arguments = {nanotron_arguments},
    .assignments = true,
    .finish = finish_nanotron,
};

/* p4d-train, whose arguments are p4d's options. */
static const p4d_read_argument p4d_arguments[] = {
#define INTEGER(id, name, ...) {"--" name, P4D_##id, NULL, NULL},
#define DECIMAL(id, name, ...) {"--" name, P4D_##id, NULL, NULL},
#define CHOICE(id, name, ...) {"--" name, P4D_##id, NULL, NULL},
#define TEXT(id, name, ...) {"--" name, P4D_##id, NULL, NULL},
#define SWITCH(id, name, ...)
#include "request/options.def"
#undef INTEGER
#undef DECIMAL
#undef CHOICE
#undef TEXT
#undef SWITCH
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default p4d_defaults[] = {{P4D_FRAMEWORK, "p4d"}, {0, NULL}};

const p4d_reader p4d_reader__p4d = {
    .framework = "p4d",
    .programs = {"p4d-train"},
    .arguments = {p4d_arguments},
    .defaults = p4d_defaults,
};
