/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the jobs for which sbatch's search for missing options takes the most CPU time. It changes random
 * jobs step by step, keeps the slower ones and prints the slowest. `worst_completion [SECONDS [SEED]]`. A
 * long time is no failure.
 *
 * `worst_completion --answers COUNT [SEED]` prints the results for random jobs, without times. A change
 * that only makes the search faster must not change this output.
 *
 * `worst_completion --job "llama13b on 1 of 8 h100 tp=8"` completes a printed job again and again, for a
 * profiler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "guard/guard.h"
#include "guard/verdict.h"
#include "model/model.h"

enum { OPTIONS = 23, VALUES = 14, REPEATS = 2 };

static const char site_text[] = "mode = enforce\n"
				"partition h100 { gpu = \"h100-80gb\" default = true }\n"
				"partition a100 { gpu = \"a100-40gb\" }\n"
				"partition v100 { gpu = \"v100-32gb\" }\n"
				"partition h200 { gpu = \"h200-141gb\" }\n"
				"partition b200 { gpu = \"b200-180gb\" }\n"
				"partition l4 { gpu = \"l4-24gb\" }\n"
				"version = 1\n";

/* the first value leaves an option unset */
static const struct {
	const char *name, *values[VALUES];
} options[OPTIONS] = {
    {"tp", {"", "", "", "1", "2", "4", "8", "3"}},
    {"cp", {"", "", "", "1", "2", "8", "64"}},
    {"pp", {"", "", "", "1", "2", "4", "8", "60", "1024"}},
    {"vpp", {"", "", "", "", "1", "2", "7", "64"}},
    {"schedule", {"", "", "", "1f1b", "gpipe", "interleaved", "zb1p", "zbv", "v-half"}},
    {"vocab-parallel", {"", "", "off", "vocab-1", "vocab-2"}},
    {"micro-batch", {"", "", "", "1", "2", "16", "1024"}},
    {"global-batch", {"", "", "64", "512", "1920", "5040", "1048576", "16777216"}},
    {"seq-len", {"", "", "", "1024", "8192", "131072", "16777216"}},
    {"recompute", {"", "", "", "none", "selective", "mlp", "full"}},
    {"sequence-parallel", {"", "", "off", "on"}},
    {"cp-comm", {"", "", "p2p", "all-gather"}},
    {"framework", {"p4d", "p4d", "megatron", "megatron", "fsdp", "deepspeed", "ddp"}},
    {"precision", {"", "", "", "fp16", "fp32"}},
    {"attention", {"", "", "unfused"}},
    {"eval-micro-batch", {"", "", "", "16"}},
    {"layers", {"12", "32", "48", "60", "80", "96", "120", "126", "240", "720", "5040", "65520"}},
    {"hidden", {"1024", "4096", "5120", "8192", "18432"}},
    {"ffn", {"4096", "11008", "28672", "49152"}},
    {"heads", {"16", "32", "64", "128"}},
    {"kv-heads", {"8", "16"}},
    {"vocab", {"32000", "50257", "128256", "262144"}},
    {"tied", {"off", "on"}},
};
static const char *const models[] = {"custom",     "custom",        "custom",      "llama3-8b",  "llama13b",
				     "llama2-70b", "llama3.1-405b", "gpt3-175b",   "gpt-1t",     "qwen3-32b",
				     "gemma3-27b", "mixtral-8x7b",  "deepseek-v3", "qwen2.5-72b"};
static const char *const partitions[] = {"h100", "a100", "v100", "h200", "b200", "l4"};
static const uint32_t nodes[] = {1, 1, 1, 2, 2, 3, 4, 8, 15, 60, 64, 128, 720, 1024, 5040};
static const uint32_t gpus[] = {1, 2, 4, 6, 8, 8, 8, 8, 7};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct genome {
	unsigned char option[OPTIONS], model, partition, nodes, gpus;
} genome;

static p4d_site *site;
static p4d_verdict verdict;
static p4d_request request;
static uint64_t random_state = 1;

static unsigned draw(size_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 11) % below);
}

static void seed(const char *text)
{
	random_state = text ? strtoull(text, NULL, 10) * 2654435761u + 1 : 1;
}

static size_t count(const char *const *list)
{
	size_t n = 0;

	while (n < VALUES && list[n])
		n++;
	return n;
}

static bool is_custom(const genome *g)
{
	return !strcmp(models[g->model], "custom");
}

/* The value of an option; the sizes are set only for a custom model. */
static const char *value_of(const genome *g, int i)
{
	return i >= 16 && !is_custom(g) ? "" : options[i].values[g->option[i]];
}

static bool fill(const genome *g, uint32_t *published_batch)
{
	static const char *const rest[][2] = {
	    {"norm", "rmsnorm"}, {"glu", "on"},       {"positions", "rope"},  {"bias", "none"},
	    {"qk-norm", "off"},  {"head-dim", "128"}, {"max-seq-len", "4096"}};
	p4d_preset preset = {.name = ""};

	memset(&request, 0, sizeof(request));
	p4d_request_set(&request, P4D_MODEL, models[g->model], P4D_BY_USER, NULL);
	for (int i = 0; i < OPTIONS; i++)
		if (*value_of(g, i) &&
		    p4d_request_set(&request, (p4d_option)p4d_request_option_find(options[i].name),
				    value_of(g, i), P4D_BY_USER, NULL) < 0)
			return false;
	for (size_t i = 0; is_custom(g) && i < COUNT(rest); i++)
		p4d_request_set(&request, (p4d_option)p4d_request_option_find(rest[i][0]), rest[i][1],
				P4D_BY_USER, NULL);
	if (p4d_model_resolve(&request, p4d_site_datadir(site), &preset, NULL) < 0)
		return false;
	*published_batch = preset.global_batch;
	return true;
}

static void complete(const genome *g)
{
	char gres[32];
	uint32_t published_batch;
	p4d_job job = {.partition = partitions[g->partition],
		       .gres = gres,
		       .min_nodes = nodes[g->nodes],
		       .max_nodes = nodes[g->nodes]};

	snprintf(gres, sizeof(gres), "gpu:%u", gpus[g->gpus]);
	memset(&verdict, 0, sizeof(verdict));
	if (fill(g, &published_batch))
		p4d_guard__complete(site, &job, NULL, NULL, published_batch, true, &request, &verdict);
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static double cost(const genome *g)
{
	double best = 1e9;

	for (int i = 0; i < REPEATS; i++) {
		const double start = cpu_ms();
		complete(g);
		const double took = cpu_ms() - start;
		best = took < best ? took : best;
	}
	return best;
}

static genome random_genome(void)
{
	genome g;

	for (int i = 0; i < OPTIONS; i++)
		g.option[i] = (unsigned char)draw(count(options[i].values));
	g.model = (unsigned char)draw(COUNT(models));
	g.partition = (unsigned char)draw(COUNT(partitions));
	g.nodes = (unsigned char)draw(COUNT(nodes));
	g.gpus = (unsigned char)draw(COUNT(gpus));
	return g;
}

static void mutate(genome *g)
{
	const genome other = random_genome();

	for (unsigned n = 1 + draw(4); n--;) {
		const size_t i = draw(sizeof(*g));
		((unsigned char *)g)[i] = ((const unsigned char *)&other)[i];
	}
}

static void print_job(const genome *g)
{
	printf("%s on %u of %u %s", models[g->model], nodes[g->nodes], gpus[g->gpus],
	       partitions[g->partition]);
	for (int i = 0; i < OPTIONS; i++)
		if (*value_of(g, i))
			printf(" %s=%s", options[i].name, value_of(g, i));
}

static unsigned char index_of(const char *const *list, size_t size, const char *word)
{
	for (size_t i = 0; i < size; i++)
		if (!strcmp(list[i], word))
			return (unsigned char)i;
	return 0;
}

static unsigned char index_of_number(const uint32_t *list, size_t size, const char *word)
{
	for (size_t i = 0; i < size; i++)
		if (list[i] == strtoul(word, NULL, 10))
			return (unsigned char)i;
	return 0;
}

/* Reads a job that print_job printed. Options that the text does not have stay unset. */
static genome genome_of(char *text)
{
	genome g = {.option = {0}};
	char *word = strtok(text, " ");

	for (int at = 0; word; word = strtok(NULL, " "), at++) {
		char *value = strchr(word, '=');
		if (at == 0)
			g.model = index_of(models, COUNT(models), word);
		else if (at == 2)
			g.nodes = index_of_number(nodes, COUNT(nodes), word);
		else if (at == 4)
			g.gpus = index_of_number(gpus, COUNT(gpus), word);
		else if (at == 5)
			g.partition = index_of(partitions, COUNT(partitions), word);
		if (!value)
			continue;
		*value++ = '\0';
		for (int i = 0; i < OPTIONS; i++)
			if (!strcmp(options[i].name, word))
				g.option[i] = index_of(options[i].values, count(options[i].values), value);
	}
	return g;
}

static void print_answer(void)
{
	printf("%.700s\n", verdict.plan);
	for (unsigned i = 0; i < verdict.messages; i++)
		printf("    %s\n    %s\n", verdict.message[i].text, verdict.message[i].fix);
}

static void climb(double seconds)
{
	for (double end = cpu_ms() + 1e3 * seconds; cpu_ms() < end;) {
		genome best = random_genome();
		double most = cost(&best);
		for (int tries = 0; tries < 100 && cpu_ms() < end; tries++) {
			genome next = best;
			mutate(&next);
			const double took = cost(&next);
			if (took > most) {
				most = took;
				best = next;
				tries = 0;
			}
		}
		most = cost(&best);
		printf("worst_completion: %6.1f ms: ", most);
		print_job(&best);
		printf("\n    %.150s\n", verdict.messages ? verdict.message[0].text : "");
	}
}

static p4d_site *load_site(void)
{
	char path[] = "/tmp/p4d-worst-XXXXXX";
	p4d_error err = {.code = P4D_OK};
	const int fd = mkstemp(path);

	if (fd < 0 || write(fd, site_text, sizeof(site_text) - 1) < 0)
		return NULL;
	close(fd);
	p4d_site *loaded = p4d_site_load(path, getenv("P4D_TEST_DATADIR"), false, 0, &err);
	unlink(path);
	if (!loaded)
		fprintf(stderr, "worst_completion: %s\n", err.text);
	return loaded;
}

int main(int argc, char **argv)
{
	const bool answers = argc > 2 && !strcmp(argv[1], "--answers");
	const bool one = argc > 2 && !strcmp(argv[1], "--job");

	site = load_site();
	if (!site)
		return 1;
	seed(argc > 2 + answers ? argv[2 + answers] : NULL);
	if (one) {
		const genome g = genome_of(argv[2]);
		const double took = cost(&g);
		print_job(&g);
		printf("\n%.1f ms: ", took);
		print_answer();
	} else if (!answers)
		climb(argc > 1 ? atof(argv[1]) : 10);
	for (long i = 0; answers && i < atol(argv[2]); i++) {
		const genome g = random_genome();
		complete(&g);
		print_job(&g);
		print_answer();
	}
	p4d_site_free(site);
	return 0;
}
