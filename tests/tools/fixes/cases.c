/* SPDX-License-Identifier: Apache-2.0 */
/* Makes jobs of five frameworks for sites of different sizes. Many of the jobs do not fit. */
#include "cases.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const site sites[] = {
    {"h100", "h100-80gb", 8, 2, 2000, "gpu*|2048000|128|2|32|h[1-2]|(null)|gpu:h100:8",
     "gpus_per_node = 8 mem_per_node_gib = 2000"},
    {"a100", "a100-80gb", 8, 16, 1000, "gpu*|1024000|128|2|32|a[1-16]|(null)|gpu:a100:8",
     "gpus_per_node = 8"},
    {"a100-40", "a100-40gb", 4, 4, 500, "gpu*|512000|64|2|16|a[1-4]|(null)|gpu:a100:4", ""},
    {"l4", "l4-24gb", 8, 4, 380, "gpu*|389120|64|2|16|l[1-4]|(null)|gpu:l4:8", "gpus_per_node = 8"},
    {"rtx4090", "rtx4090-24gb", 4, 1, 128, "gpu*|131072|32|1|16|r1|(null)|gpu:rtx4090:4", ""},
    {"mixed", NULL, 4, 3, 250,
     "gpu*|256000|64|2|16|m1|(null)|gpu:h100:4\ngpu*|256000|64|2|16|m[2-4]|(null)|gpu:a100:4", ""},
};

typedef struct model {
	const char *name, *hub, *titan, *tune;
	unsigned layers, hidden, ffn, heads, kv_heads, vocab;
} model;

static const model models[] = {
    {"llama3.2-1b", "meta-llama/Llama-3.2-1B", "llama3 1B", "llama3_2/1B", 16, 2048, 8192, 32, 8, 128256},
    {"qwen3-4b", "Qwen/Qwen3-4B", "qwen3 4B", "qwen3/4B", 36, 2560, 9728, 32, 8, 151936},
    {"llama3.1-8b", "meta-llama/Llama-3.1-8B", "llama3 8B", "llama3_1/8B", 32, 4096, 14336, 32, 8, 128256},
    {"qwen3-8b", "Qwen/Qwen3-8B", "qwen3 8B", "qwen3/8B", 36, 4096, 12288, 32, 8, 151936},
    {"mistral-7b", "mistralai/Mistral-7B-v0.1", "llama3 8B", "llama3_1/8B", 32, 4096, 14336, 32, 8, 32000},
    {"gemma2-9b", "google/gemma-2-9b", "llama3 8B", "gemma2/9B", 42, 3584, 14336, 16, 8, 256000},
    {"qwen2.5-14b", "Qwen/Qwen2.5-14B", "qwen3 14B", "qwen2_5/14B", 48, 5120, 13824, 40, 8, 152064},
    {"qwen3-32b", "Qwen/Qwen3-32B", "qwen3 32B", "qwen2_5/32B", 64, 5120, 25600, 64, 8, 151936},
    {"llama3-70b", "meta-llama/Meta-Llama-3-70B", "llama3 70B", "llama3_1/70B", 80, 8192, 28672, 64, 8,
     128256},
    {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", "qwen3 30B-A3B", "llama3_1/8B", 48, 2048, 6144, 32, 4, 151936},
};

static uint64_t state;

static unsigned chance(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)((state * 0x2545f4914f6cdd1dull >> 33) % below);
}

typedef struct sizes {
	const model *m;
	unsigned nodes, gpus, micro_batch, accumulation, length;
	bool checkpointing, lora;
} sizes;

static FILE *begin(const char *name)
{
	FILE *f = fopen(name, "we");

	if (!f)
		abort();
	return f;
}

static void write_file(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_file(const char *name, const char *format, ...)
{
	FILE *f = begin(name);
	va_list args;

	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	if (fclose(f) != 0)
		abort();
}

/* A script with one command, which may be in two lines. */
static void write_script(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void write_script(const char *format, ...)
{
	FILE *f = begin("job.sh");
	va_list args;

	fputs("#!/bin/bash\nset -e\n", f);
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fputc('\n', f);
	if (fclose(f) != 0)
		abort();
}

static const char *launcher(const sizes *s, char buf[200])
{
	if (s->nodes == 1)
		snprintf(buf, 200, "torchrun --nproc_per_node %u", s->gpus);
	else
		snprintf(buf, 200, "srun torchrun --nnodes %u --nproc_per_node %u", s->nodes, s->gpus);
	return buf;
}

/* The arguments that all programs of the Trainer have. */
static const char *trainer(const sizes *s, char buf[400])
{
	snprintf(buf, 400,
		 "--model_name_or_path %s --dataset_name d --bf16 --per_device_train_batch_size %u \\\n"
		 "  --gradient_accumulation_steps %u --output_dir out%s",
		 s->m->hub, s->micro_batch, s->accumulation,
		 s->checkpointing ? " --gradient_checkpointing" : "");
	return buf;
}

static void on_p4d(const sizes *s)
{
	(void)s;
	write_script("srun p4d-train --data text");
}

static void on_megatron(const sizes *s)
{
	char start[200];
	const unsigned tp = 1u << chance(2), pp = chance(4) ? 1 : 2;

	write_script(
	    "%s pretrain_gpt.py \\\n  --num-layers %u --hidden-size %u --ffn-hidden-size %u "
	    "--num-attention-heads %u --group-query-attention --num-query-groups %u --vocab-size %u \\\n"
	    "  --seq-length %u --max-position-embeddings %u --position-embedding-type rope --swiglu "
	    "--normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear --bf16 \\\n"
	    "  --micro-batch-size %u --global-batch-size %u%s%s%s --tokenizer-type NullTokenizer --mock-data",
	    launcher(s, start), s->m->layers, s->m->hidden, s->m->ffn, s->m->heads, s->m->kv_heads,
	    s->m->vocab, s->length, s->length, s->micro_batch,
	    s->micro_batch * s->accumulation * s->nodes * s->gpus,
	    tp > 1 && tp <= s->gpus ? " --tensor-model-parallel-size 2" : "",
	    pp > 1 && s->nodes * s->gpus > 2 ? " --pipeline-model-parallel-size 2" : "",
	    chance(2) ? " --use-distributed-optimizer" : "");
}

static void on_megatron_variable(const sizes *s)
{
	char start[200];

	write_script("%s pretrain_gpt.py $P4D_MEGATRON_ARGS", launcher(s, start));
}

static void on_trl(const sizes *s)
{
	char start[200], args[400];

	write_script("%s sft.py %s --max_length %u%s", launcher(s, start), trainer(s, args), s->length,
		     s->lora ? " --use_peft --lora_r 16" : "");
}

static void on_clm(const sizes *s)
{
	char start[200], args[400];

	write_script("%s run_clm.py %s --do_train --block_size %u", launcher(s, start), trainer(s, args),
		     s->length);
}

static void on_swift(const sizes *s)
{
	write_script("export NNODES=%u NPROC_PER_NODE=%u\n%sswift sft --model %s --train_type %s "
		     "--torch_dtype bfloat16 \\\n"
		     "  --dataset d --per_device_train_batch_size %u --gradient_accumulation_steps %u "
		     "--max_length %u%s",
		     s->nodes, s->gpus, s->nodes > 1 ? "srun " : "", s->m->hub, s->lora ? "lora" : "full",
		     s->micro_batch, s->accumulation, s->length, chance(3) ? "" : " --deepspeed zero2");
}

static void write_zero(const char *name, unsigned stage)
{
	write_file(
	    name,
	    "{\n  \"bf16\": {\"enabled\": \"auto\"},\n  \"zero_optimization\": {\n    \"stage\": %u,\n"
	    "    \"overlap_comm\": true\n  },\n"
	    "  \"train_micro_batch_size_per_gpu\": \"auto\",\n  \"gradient_accumulation_steps\": \"auto\",\n"
	    "  \"train_batch_size\": \"auto\"\n}\n",
	    stage);
}

static void write_factory(const sizes *s, const char *more)
{
	write_script("export FORCE_TORCHRUN=1 NNODES=%u NPROC_PER_NODE=%u\n%sllamafactory-cli train c.yaml",
		     s->nodes, s->gpus, s->nodes > 1 ? "srun " : "");
	write_file(
	    "c.yaml",
	    "model_name_or_path: %s\nstage: sft\ndo_train: true\nfinetuning_type: %s\ndataset: d\ntemplate: "
	    "default\n"
	    "cutoff_len: %u\nper_device_train_batch_size: %u\ngradient_accumulation_steps: %u\nbf16: true\n"
	    "output_dir: out\n%s%s",
	    s->m->hub, s->lora ? "lora" : "full", s->length, s->micro_batch, s->accumulation, more,
	    s->checkpointing ? "" : "disable_gradient_checkpointing: true\n");
}

static void on_factory(const sizes *s)
{
	write_factory(s, "");
}

static void on_factory_zero(const sizes *s)
{
	write_zero("ds.json", chance(4));
	write_factory(s, "deepspeed: ds.json\n");
}

static void on_axolotl(const sizes *s)
{
	static const char *const more[] = {"", "deepspeed: ds.json\n",
					   "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n"};

	write_zero("ds.json", 1 + chance(3));
	write_script("%saccelerate launch --num_processes %u --num_machines %u -m axolotl.cli.train c.yaml",
		     s->nodes > 1 ? "srun " : "", s->nodes * s->gpus, s->nodes);
	write_file("c.yaml",
		   "base_model: %s\nsequence_len: %u\nmicro_batch_size: %u\ngradient_accumulation_steps: "
		   "%u\nbf16: true\n"
		   "optimizer: adamw_torch_fused\nflash_attention: true\ngradient_checkpointing: %s\n%s%s",
		   s->m->hub, s->length, s->micro_batch, s->accumulation, s->checkpointing ? "true" : "false",
		   s->lora ? "adapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\n" : "",
		   more[chance(3)]);
}

static void split_titan(const model *m, char name[32], char flavor[32])
{
	sscanf(m->titan, "%31s %31s", name, flavor);
}

static void on_titan(const sizes *s)
{
	char start[200], name[32], flavor[32];

	split_titan(s->m, name, flavor);
	write_script("%s -m torchtitan.train --model.name %s --model.flavor %s \\\n"
		     "  --training.local_batch_size %u --training.seq_len %u \\\n"
		     "  --activation_checkpoint.mode %s%s",
		     launcher(s, start), name, flavor, s->micro_batch, s->length,
		     s->checkpointing ? "full" : "none",
		     chance(2) ? "" : " --parallelism.tensor_parallel_degree 1");
}

static void on_titan_file(const sizes *s)
{
	char start[200], name[32], flavor[32];

	split_titan(s->m, name, flavor);
	write_script("%s -m torchtitan.train --job.config_file c.toml", launcher(s, start));
	write_file(
	    "c.toml",
	    "[model]\nname = \"%s\"\nflavor = \"%s\"\n\n[training]\nlocal_batch_size = %u\nseq_len = %u\n\n"
	    "[parallelism]\ntensor_parallel_degree = 1\npipeline_parallel_degree = 1\n\n"
	    "[activation_checkpoint]\nmode = \"%s\"\n",
	    name, flavor, s->micro_batch, s->length, s->checkpointing ? "full" : "none");
}

static void on_tune(const sizes *s)
{
	write_script("tune run --nnodes %u --nproc_per_node %u %s --config %s_full batch_size=%u "
		     "gradient_accumulation_steps=%u tokenizer.max_seq_len=%u",
		     s->nodes, s->gpus, "full_finetune_distributed", s->m->tune, s->micro_batch,
		     s->accumulation, s->length);
}

static void write_accelerated(const sizes *s, const char *how)
{
	char args[400];

	write_script(
	    "%saccelerate launch %s--num_processes %u --num_machines %u \\\n  sft.py %s --max_length %u%s",
	    s->nodes > 1 ? "srun " : "", how, s->nodes * s->gpus, s->nodes, trainer(s, args), s->length,
	    s->lora ? " --use_peft" : "");
}

static void on_accelerate_plain(const sizes *s)
{
	write_accelerated(s, "");
}

static void on_accelerate_fsdp(const sizes *s)
{
	write_file("acc.yaml",
		   "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: %u\nnum_processes: "
		   "%u\nfsdp_config:\n"
		   "  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
		   s->nodes, s->nodes * s->gpus);
	write_accelerated(s, "--config_file acc.yaml ");
}

static void on_trainer_fsdp(const sizes *s)
{
	char start[200], args[400];

	write_script("%s run_clm.py %s --do_train --block_size %u --fsdp \"full_shard auto_wrap\"",
		     launcher(s, start), trainer(s, args), s->length);
}

static void on_zero(const sizes *s)
{
	char start[200], args[400];

	write_zero("ds.json", chance(4));
	write_script("%s run_clm.py --deepspeed ds.json %s --do_train --block_size %u", launcher(s, start),
		     trainer(s, args), s->length);
}

static void on_accelerate_zero(const sizes *s)
{
	char how[80];

	snprintf(how, sizeof(how), "--use_deepspeed --zero_stage %u ", 1 + chance(3));
	write_accelerated(s, how);
}

static void on_accelerate_zero_file(const sizes *s)
{
	write_file("acc.yaml",
		   "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: %u\nnum_processes: %u\n"
		   "deepspeed_config:\n  zero_stage: %u\n",
		   s->nodes, s->nodes * s->gpus, 1 + chance(3));
	write_accelerated(s, "--config_file acc.yaml ");
}

static void on_vllm(const sizes *s)
{
	const unsigned tp = 1u << chance(2);

	write_script("vllm serve %s --max-model-len %u%s", s->m->hub, 4 * s->length,
		     tp > 1 && s->gpus > 1 ? " --tensor-parallel-size 2" : "");
}

static void on_nothing(const sizes *s)
{
	(void)s;
	write_script("srun ./train");
}

/* options: p4d's options that the user types; NULL: the script has all values. */
static const struct kind {
	const char *name, *framework;
	void (*write)(const sizes *s);
} kinds[] = {
    {"p4d-train", "p4d", on_p4d},
    {"p4d-train", "p4d", on_p4d},
    {"megatron", NULL, on_megatron},
    {"megatron variable", "megatron", on_megatron_variable},
    {"trl", NULL, on_trl},
    {"run_clm", NULL, on_clm},
    {"swift", NULL, on_swift},
    {"llamafactory", NULL, on_factory},
    {"accelerate", NULL, on_accelerate_plain},
    {"ddp options", "ddp", on_nothing},
    {"torchtitan", NULL, on_titan},
    {"torchtitan file", NULL, on_titan_file},
    {"torchtune", NULL, on_tune},
    {"accelerate fsdp", NULL, on_accelerate_fsdp},
    {"trainer fsdp", NULL, on_trainer_fsdp},
    {"fsdp options", "fsdp", on_nothing},
    {"deepspeed", NULL, on_zero},
    {"accelerate deepspeed", NULL, on_accelerate_zero},
    {"accelerate deepspeed file", NULL, on_accelerate_zero_file},
    {"llamafactory deepspeed", NULL, on_factory_zero},
    {"axolotl", NULL, on_axolotl},
    {"deepspeed options", "deepspeed", on_nothing},
    {"vllm", NULL, on_vllm},
};

static void write_tools(const site *s)
{
	mkdir("bin", 0700);
	write_file("bin/sinfo", "#!/bin/sh\ncat <<'END'\n%s\nEND\n", s->sinfo);
	write_file("bin/scontrol", "#!/bin/sh\n[ \"$2 $3\" = 'show partition' ] || exit 1\n"
				   "echo 'PartitionName=gpu AllowGroups=ALL MaxNodes=UNLIMITED'\n");
	chmod("bin/sinfo", 0700);
	chmod("bin/scontrol", 0700);
	if (s->gpu)
		write_file("site.conf",
			   "mode = enforce\nscripts = judge\npartition \"gpu\" {\n\tgpu = \"%s\"\n\tdefault "
			   "= true\n%s\n}\n"
			   "version = 1\n",
			   s->gpu, s->conf);
	else
		write_file("site.conf", "mode = enforce\nscripts = judge\nversion = 1\n");
}

static void add(test_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(test_case *c, const char *format, ...)
{
	const size_t used = strlen(c->options);
	va_list args;

	va_start(args, format);
	vsnprintf(c->options + used, sizeof(c->options) - used, format, args);
	va_end(args);
}

static void ask_slurm(test_case *c, const sizes *s)
{
	static const char *const types[] = {"h100", "a100"};
	char type[16] = "";

	if (!c->site->gpu && chance(3))
		snprintf(type, sizeof(type), "%s:", types[chance(2)]);
	switch (chance(3)) {
	case 0:
		add(c, " --nodes=%u --gres=gpu:%s%u", s->nodes, type, s->gpus);
		break;
	case 1:
		add(c, " --nodes=%u --gpus-per-node=%s%u", s->nodes, type, s->gpus);
		break;
	default:
		add(c, " -N%u --ntasks=%u --ntasks-per-node=%u --gpus-per-node=%s%u", s->nodes,
		    s->nodes * s->gpus, s->gpus, type, s->gpus);
	}
	if (!chance(4))
		add(c, " --mem=%uG", c->site->mem_gib / 8);
	else if (!chance(5))
		add(c, " --mem-per-gpu=32G");
	else if (!chance(5))
		add(c, " --mem=0");
}

void write_case(uint64_t seed, uint64_t number, test_case *c)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15ull + number * 0xbf58476d1ce4e5b9ull + 1;

	z = (z ^ z >> 30) * 0x94d049bb133111ebull;
	state = z ^ z >> 31 ? z ^ z >> 31 : 1;
	for (int i = 0; i < 8; i++)
		chance(2);
	const struct kind *k = &kinds[chance(sizeof(kinds) / sizeof(*kinds))];
	*c = (test_case){.site = &sites[chance(sizeof(sites) / sizeof(*sites))], .kind = k->name};
	sizes s = {.m = &models[chance(sizeof(models) / sizeof(*models))],
		   .nodes = 1 + chance(c->site->nodes < 2 ? c->site->nodes : 2),
		   .gpus = chance(3) ? c->site->gpus : 1u << chance(3),
		   .micro_batch = 1u << chance(5),
		   .accumulation = 1u << chance(4),
		   .length = 1024u << chance(5),
		   .checkpointing = chance(2),
		   .lora = !chance(4)};
	if (s.gpus > c->site->gpus)
		s.gpus = c->site->gpus;
	write_tools(c->site);
	k->write(&s);
	ask_slurm(c, &s);
	if (!k->framework)
		return;
	add(c, " --p4d-model=%s --p4d-framework=%s --p4d-seq-len=%u", s.m->name, k->framework, s.length);
	if (chance(2))
		add(c, " --p4d-micro-batch=%u", s.micro_batch);
	if (chance(2))
		add(c, " --p4d-global-batch=%u", s.micro_batch * s.accumulation * s.nodes * s.gpus);
	if (!chance(4) && strcmp(k->framework, "megatron") != 0)
		add(c, " --p4d-recompute=%s", s.checkpointing ? "full" : "none");
	if (s.lora && strcmp(k->framework, "ddp") == 0)
		add(c, " --p4d-finetune=lora");
}
