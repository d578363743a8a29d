/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds jobs whose verdict takes longest: changes random jobs step by step to those that take the most CPU
 * time in a host that replaces slurmctld. It prints the slowest submissions and the slowest updates. Then
 * it measures these jobs again, with more repetitions, because other processes make some jobs seem slow.
 * `worst_verdict [SECONDS [SEED]]`. A long time is no failure. Add the slowest jobs to
 * test_fakehost_cost.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "doubles/slurm/fakehost.h"
#include "doubles/slurm/plans.h"
#include "plan/plan_line.h"
#include "request/defaults.h"
#include "request/layout.h"

enum { OPTIONS = 41, TEXTS = 8, TEXT = 1 << 17, REPEATS = 3, REPEATS_OF_WORST = 200 };

/* Letters of a hybrid model's layer pattern. */
#define NINE(letters) letters letters letters letters letters letters letters letters letters
#define LETTERS(five) NINE(five five five)

/* Values that a plan may have. Those at the limits take most time; "": unset. */
static const struct {
	const char *name, *values[10];
} options[OPTIONS] = {
    {"pp", {"1", "2", "4", "16", "64", "128", "256", "512", "1024"}},
    {"vpp", {"1", "2", "3", "4", "8", "64", "256", "1024"}},
    {"tp", {"1", "2", "4", "8", "512"}},
    {"cp", {"1", "2", "8", "4096"}},
    {"cp-comm", {"p2p", "all-gather"}},
    {"micro-batch", {"1", "2", "65536"}},
    {"global-batch", {"512", "1024", "8192", "65536", "16777216"}},
    {"seq-len", {"1024", "8192", "134217728"}},
    {"schedule", {"1f1b", "gpipe", "interleaved", "zb1p", "zbv", "v-half"}},
    {"vocab-parallel", {"off", "vocab-1", "vocab-2"}},
    {"recompute", {"none", "selective", "mlp", "full"}},
    {"sequence-parallel", {"off", "on"}},
    {"pipeline-split", {"", "even", "rising", "mixed"}},
    {"framework", {"p4d", "megatron", "megatron", "megatron", "fsdp", "deepspeed", "ddp"}},
    {"precision", {"bf16", "fp32"}},
    {"device", {"cuda", "cpu"}},
    {"layers", {"1024", "256", "2048", "4096", "8192", "32768", "65535", "65536"}},
    {"hidden", {"64", "1024", "1048576"}},
    {"ffn", {"64", "4096", "8388608"}},
    {"heads", {"8", "512", "65536"}},
    {"kv-heads", {"8", "512"}},
    {"head-dim", {"64", "128", "65536"}},
    {"tied", {"off", "on"}},
    {"nodes", {"1", "8", "128", "1024"}},
    {"experts", {"", "", "8", "256", "65536"}},
    {"experts-per-token", {"", "", "8", "4096", "65536"}},
    {"expert-every", {"", "", "2", "3"}},
    {"dense-layers", {"", "", "3", "1000"}},
    {"ep", {"", "8", "1024", "4096"}},
    {"token-dispatcher", {"", "all-gather", "deepep"}},
    {"expert-capacity", {"", "1.5"}},
    {"architecture", {"", "", "", "nemotron-h", "qwen3-next", "gpt-oss", "gemma2"}},
    {"layer-pattern", {"", "", "", LETTERS("M*M-M"), LETTERS("MEM*E"), LETTERS("GGG*G")}},
    {"state-size", {"", "128"}},
    {"state-heads", {"", "64"}},
    {"kv-lora-rank", {"", "", "512"}},
    {"zero-stage", {"", "", "2", "3"}},
    {"finetune", {"", "", "lora"}},
    {"model-code", {"", "", "transformers", "litgpt", "torchtitan"}},
    {"recompute-modules", {"", "", "core_attn,moe_act"}},
    {"eval-micro-batch", {"", "", "65536"}},
};

/* A long text repeats one of these pieces. "@" becomes a running number. */
static const struct {
	const char *name, *pieces[10];
} texts[TEXTS] = {
    {"partition", {"", "h100,", "a@,", "live,", "aaaaaaaa@,", "live,h100,a@,"}},
    {"constraint", {"", "x|", "h100&", "a100|x&", "h100,", "[x*4&"}},
    {"gres", {"", "gpu:@,", "lustre:1,", "gpu:h100:8,", "gpu(S:0,1),"}},
    {"nodelist", {"", "h1,", "n[0-9][0-9][0-9],", "n[1,2,3,4,5],", ",", "h[0-99999]"}},
    {"exclude", {"", "h1,", "n[0-9][0-9][0-9],", "n[1,2,3,4,5],", ",", "h[0-99999]"}},
    {"account", {"", "a", "ab", "physics"}},
    {"qos", {"", "a", "ab", "large,"}},
    {"script", {"", "a", "$P4D_", "-n ", "p4d-", "--num-layers 80 ", "\n", "srun p4d-train -n 8\n", "# "}},
};
static const size_t lengths[] = {100, 400, 530, 1024, 1025, 8192, 16384, TEXT - 1};

typedef struct genome {
	unsigned char option[OPTIONS], piece[TEXTS], length[TEXTS], environment;
} genome;

static fakehost host;
static uint64_t random_state = 1;

static unsigned draw(unsigned below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 11) % below;
}

static unsigned count(const char *const *list, unsigned most)
{
	unsigned n = 0;

	while (n < most && list[n])
		n++;
	return n;
}

static const char *split_of(const char *kind, int64_t stages, int64_t layers, char *buf, size_t size)
{
	size_t used = 0;
	int64_t left = layers;

	for (int64_t i = 0; i < stages && used + 8 < size; i++) {
		int64_t n = i == stages - 1 ? left
			    : *kind == 'e'  ? layers / stages
			    : *kind == 'r'  ? i + 1
					    : 1 + i % 2;
		left -= n;
		used += (size_t)snprintf(buf + used, size - used, "%s%lld", i ? "," : "", (long long)n);
	}
	return buf;
}

/* Makes a plan line that a user could write by hand. It has all fields and a correct hash, but its values
 * may contradict each other. Returns false if the parser refuses the line. */
static bool plan_of(const genome *g, char line[P4D_PLAN_MAX])
{
	p4d_request r = {.model = ""};
	p4d_gpu gpu = {.name = "h100-80gb", .sm = 90};
	static p4d_layout layout;
	char split[1024];
	p4d_error err;

	p4d_request_set(&r, P4D_MODEL, "worst", P4D_BY_USER, &err);
	for (int i = 0; i < OPTIONS; i++) {
		const p4d_option option = (p4d_option)p4d_request_option_find(options[i].name);
		const char *value = options[i].values[g->option[i]];
		if (option == P4D_PIPELINE_SPLIT || option == P4D_NODES || !*value)
			continue;
		if (p4d_request_set(&r, option, value, P4D_BY_USER, &err) < 0)
			return false;
	}
	static const char *const rest[][2] = {{"vocab", "32000"},     {"norm", "rmsnorm"}, {"glu", "on"},
					      {"positions", "rope"},  {"bias", "none"},    {"qk-norm", "off"},
					      {"max-seq-len", "1024"}};
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
		p4d_request_set(&r, (p4d_option)p4d_request_option_find(rest[i][0]), rest[i][1], P4D_BY_USER,
				&err);
	const char *kind = options[12].values[g->option[12]];
	if (*kind)
		p4d_request_set(&r, P4D_PIPELINE_SPLIT,
				split_of(kind, r.value[P4D_PP], r.value[P4D_LAYERS], split, sizeof(split)),
				P4D_BY_USER, &err);
	const uint64_t nodes = strtoull(options[23].values[g->option[23]], NULL, 10);
	p4d_request_complete(&r, 0, nodes * 8);
	p4d_plan_place(&r, nodes, 8, gpu.name);
	if (p4d_layout_build(&r, nodes, 8, &layout, NULL) == 0)
		p4d_plan_add_checksum(&r, &layout, &gpu, NULL);
	return p4d_plan_write(&r, line, P4D_PLAN_MAX, NULL) == 0;
}

static char *text_of(const genome *g, int i)
{
	const char *piece = texts[i].pieces[g->piece[i]];
	const size_t most = lengths[g->length[i]];
	char *text = malloc(TEXT + 64);
	size_t used = 0;

	for (int n = 0; *piece && used < most; n++)
		for (const char *at = piece; *at; at++)
			if (*at == '@')
				used += (size_t)sprintf(text + used, "%d", n);
			else
				text[used++] = *at;
	text[used < most ? used : most] = '\0';
	return text;
}

static job_desc_msg_t *job_of(const genome *g)
{
	char line[P4D_PLAN_MAX], name[32];
	job_desc_msg_t *desc = fakehost_desc();
	char **fields[TEXTS] = {&desc->partition, &desc->features, &desc->tres_per_node, &desc->req_nodes,
				&desc->exc_nodes, &desc->account,  &desc->qos,           &desc->script};

	desc->ntasks_per_node = 8;
	desc->min_nodes = desc->max_nodes = (uint32_t)atoi(options[23].values[g->option[23]]);
	if (plan_of(g, line))
		fakehost_env(desc, "P4D_PLAN", line);
	for (int i = 0; i < TEXTS; i++) {
		char *text = text_of(g, i);
		if (*text)
			fakehost_set(fields[i], text);
		free(text);
	}
	if (!desc->tres_per_node)
		fakehost_set(&desc->tres_per_node, "gres:gpu:8");
	for (int i = 0; g->environment && i < 600; i++) {
		snprintf(name, sizeof(name), "P4D_TP_%d", i);
		fakehost_env(desc, name, "x");
	}
	return desc;
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* Makes an update of a queued job. If p4d refuses the updated job, it also judges the job as it was. */
static job_desc_msg_t *update_of(const job_desc_msg_t *job)
{
	job_desc_msg_t *change = fakehost_desc();

	fakehost_set(&change->features, job->features ? job->features : "h100");
	fakehost_set(&change->req_nodes, job->req_nodes);
	fakehost_set(&change->exc_nodes, job->exc_nodes);
	return change;
}

static double cost(const genome *g, bool update, int repeats, char *said, size_t size)
{
	job_desc_msg_t *desc = job_of(g), *change = update_of(desc);
	const char *text = "";
	double best = 1e9;

	fakehost_forget();
	for (int i = 0; i < repeats; i++) {
		double start = cpu_us();
		if (update)
			fakehost_modify(&host, change, desc, &text);
		else
			fakehost_submit(&host, desc, &text);
		double took = cpu_us() - start;
		best = took < best ? took : best;
	}
	const char *logged = strstr(fakehost_log(), "text=");
	snprintf(said, size, "%s", *text || !logged ? text : logged);
	fakehost_free(change);
	fakehost_free(desc);
	return best;
}

static genome random_genome(void)
{
	genome g;

	for (int i = 0; i < OPTIONS; i++)
		g.option[i] = (unsigned char)draw(count(options[i].values, 10));
	for (int i = 0; i < TEXTS; i++) {
		g.piece[i] = (unsigned char)(draw(2) ? draw(count(texts[i].pieces, 10)) : 0);
		g.length[i] = (unsigned char)draw(sizeof(lengths) / sizeof(lengths[0]));
	}
	g.environment = draw(4) == 0;
	return g;
}

/* A job that p4d judges completely, with as many stages, layers or kinds of layers as possible. */
static genome passing_genome(void)
{
	static const char *const jobs[][12] = {
	    {"pp=1024", "global-batch=8192", "vocab-parallel=vocab-2", "tied=on", "nodes=128"},
	    {"framework=megatron", "pp=64", "layers=256", "nodes=1024", "architecture=nemotron-h",
	     "layer-pattern=" LETTERS("M*M-M"), "state-size=128", "state-heads=64", "global-batch=65536"},
	    {"framework=megatron", "pp=64", "layers=256", "nodes=1024", "architecture=nemotron-h",
	     "layer-pattern=" LETTERS("MEM*E"), "state-size=128", "state-heads=64", "experts=65536",
	     "experts-per-token=4096", "global-batch=65536"},
	    {"framework=megatron", "pp=1024", "vpp=64", "schedule=interleaved", "layers=65536", "nodes=128",
	     "experts=65536", "experts-per-token=4096", "token-dispatcher=deepep", "global-batch=65536"},
	    {"framework=megatron", "pp=128", "vpp=8", "schedule=interleaved", "layers=65536", "nodes=1024",
	     "experts=256", "experts-per-token=8", "expert-every=2", "ep=8", "global-batch=65536"},
	    {"framework=fsdp", "layers=2048", "experts=256", "experts-per-token=8", "ep=8", "expert-every=2",
	     "global-batch=65536", "model-code=torchtitan"},
	    {"framework=fsdp", "layers=2048", "experts=256", "experts-per-token=8", "expert-every=2",
	     "global-batch=65536", "model-code=transformers"},
	    {"framework=fsdp", "pp=64", "schedule=gpipe", "layers=2048", "experts=256", "experts-per-token=8",
	     "expert-every=2", "global-batch=16777216", "nodes=128", "model-code=torchtitan"},
	    {"framework=fsdp", "pp=128", "vpp=8", "schedule=interleaved", "layers=2048", "experts=256",
	     "experts-per-token=8", "expert-every=2", "global-batch=65536", "nodes=128",
	     "model-code=torchtitan"},
	    {"framework=deepspeed", "layers=2048", "zero-stage=3", "global-batch=65536"},
	    {"framework=ddp", "layers=2048", "finetune=lora", "global-batch=65536"},
	};
	const char *const *job = jobs[draw(sizeof(jobs) / sizeof(jobs[0]))];
	genome g = {.environment = 0};

	for (int i = 0; i < OPTIONS; i++)
		for (int k = 0; k < 12 && job[k]; k++) {
			const size_t length = strcspn(job[k], "=");
			if (strncmp(options[i].name, job[k], length) || options[i].name[length])
				continue;
			while (strcmp(options[i].values[g.option[i]], job[k] + length + 1) != 0)
				if (!options[i].values[++g.option[i]]) {
					fprintf(stderr, "worst_verdict: no %s\n", job[k]);
					exit(1);
				}
		}
	return g;
}

static void mutate(genome *g)
{
	const genome other = random_genome();

	for (unsigned n = 1 + draw(4); n--;) {
		unsigned i = draw(OPTIONS + 2 * TEXTS + 1);
		((unsigned char *)g)[i] = ((const unsigned char *)&other)[i];
	}
}

static void print(const genome *g, bool update, double us, const char *said)
{
	printf("worst_verdict: %7.1f us of %s:", us, update ? "an update" : "a submission");
	for (int i = 0; i < OPTIONS; i++)
		if (*options[i].values[g->option[i]])
			printf(" %s=%s", options[i].name, options[i].values[g->option[i]]);
	for (int i = 0; i < TEXTS; i++)
		if (*texts[i].pieces[g->piece[i]])
			printf(" %s=\"%.*s\"x%zu", texts[i].name,
			       (int)strcspn(texts[i].pieces[g->piece[i]], "\n"), texts[i].pieces[g->piece[i]],
			       lengths[g->length[i]]);
	printf("%s\n    %.150s\n", g->environment ? " and an environment" : "", said);
}

int main(int argc, char **argv)
{
	const char *build = getenv("P4D_TEST_BUILDDIR");
	const double seconds = argc > 1 ? atof(argv[1]) : 5;
	char plugin[4096], said[256], conf[16384];
	size_t used;

	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) * 2654435761u + 1 : 1;
	snprintf(plugin, sizeof(plugin), "%s/.libs/job_submit_p4d.so", build ? build : ".");
	const char *directory = site_make();
	used = (size_t)snprintf(
	    conf, sizeof(conf),
	    "data = \"%s\"\nmode = enforce\npartition h100 { gpu = \"h100-80gb\" default = true }\n",
	    getenv("P4D_TEST_DATADIR") ? getenv("P4D_TEST_DATADIR") : "etc");
	for (int i = 0; i < 120; i++)
		used +=
		    (size_t)snprintf(conf + used, sizeof(conf) - used, "%s \"*a*a*b%d\" { mode = observe }\n",
				     i % 3 == 0   ? "partition"
				     : i % 3 == 1 ? "account"
						  : "qos",
				     i);
	snprintf(conf + used, sizeof(conf) - used, "version = 1\n");
	site_write(conf);
	fakehost_open(&host, plugin, directory);
	bool update = false;
	genome worst[2] = {{.environment = 0}};
	double of_worst[2] = {0};
	for (double end = cpu_us() + 1e6 * seconds; cpu_us() < end; update = !update) {
		genome best = draw(2) ? passing_genome() : random_genome();
		double most = cost(&best, update, REPEATS, said, sizeof(said));
		for (int tries = 0; tries < 150 && cpu_us() < end; tries++) {
			genome next = best;
			mutate(&next);
			double took = cost(&next, update, REPEATS, said, sizeof(said));
			if (took > most) {
				most = took;
				best = next;
				tries = 0;
			}
		}
		most = cost(&best, update, REPEATS, said, sizeof(said));
		print(&best, update, most, said);
		if (most > of_worst[update]) {
			of_worst[update] = most;
			worst[update] = best;
		}
	}
	puts("The worst again:");
	for (int i = 0; i < 2; i++)
		if (of_worst[i] > 0)
			print(&worst[i], i, cost(&worst[i], i, REPEATS_OF_WORST, said, sizeof(said)), said);
	fakehost_close(&host);
	site_remove();
	return 0;
}
