/* SPDX-License-Identifier: Apache-2.0 */
/* Measures an estimate, an exact plan and a search on one core. It only prints: a long time is no failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cost/cost.h"
#include "plan/plan.h"
#include "request/defaults.h"
#include "search/search.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void set(p4d_request *r, const char *text)
{
	char words[1024], *save = NULL;
	p4d_error err;

	snprintf(words, sizeof(words), "%s", text);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');
		*value++ = '\0';
		if (p4d_request_set(r, (p4d_option)p4d_request_option_find(word), value, P4D_BY_USER, &err) <
		    0) {
			fprintf(stderr, "%s\n", err.text);
			exit(1);
		}
	}
}

#define LLAMA \
	"norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off head-dim=128 kv-heads=8 " \
	"vocab=128256 "
#define LLAMA_70B "model=llama3-70b layers=80 hidden=8192 ffn=28672 heads=64 seq-len=8192 " LLAMA
#define LLAMA_405B "model=llama3.1-405b layers=126 hidden=16384 ffn=53248 heads=128 seq-len=8192 " LLAMA

#define DEEPSEEK_V3 \
	"model=deepseek-v3 layers=61 hidden=7168 ffn=18432 heads=128 kv-heads=128 head-dim=128 " \
	"vocab=129280 " \
	"norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off experts=256 experts-per-token=8 " \
	"expert-ffn=2048 shared-ffn=2048 dense-layers=3 kv-lora-rank=512 q-lora-rank=1536 rope-head-dim=64 " \
	"v-head-dim=128 seq-len=4096 framework=megatron "

static p4d_layout layout_of(const char *text, uint64_t nodes, int repeat, double *seconds)
{
	p4d_request r = {.model = ""};
	p4d_layout l;
	p4d_error err;

	set(&r, text);
	p4d_request_complete(&r, 0, nodes * 8);
	double from = now();
	for (int i = 0; i < repeat; i++)
		if (p4d_layout_build(&r, nodes, 8, &l, &err) < 0) {
			fprintf(stderr, "%s\n", err.text);
			exit(1);
		}
	*seconds = (now() - from) / repeat;
	return l;
}

/* Prints the best of several rounds, because other programs only ever add time. */
static void estimates(const p4d_gpu *gpu, const char *what, const char *text, uint64_t nodes)
{
	const p4d_capacity capacity = {gpu, 0, 0};
	double building, best = 1, timing = 1;
	p4d_layout l = layout_of(text, nodes, 1000, &building);
	p4d_timeline_work work = {0};
	p4d_estimate e;
	p4d_step step;

	for (int round = 0; round < 20; round++) {
		double from = now();
		for (int i = 0; i < 1000; i++)
			p4d_memory_estimate(&l, P4D_METHOD_PLAN, &capacity, &e, NULL);
		best = now() - from < 1000 * best ? (now() - from) / 1000 : best;
		from = now();
		for (int i = 0; i < 100; i++)
			p4d_cost_step(&l, gpu, &work, &step, NULL);
		timing = now() - from < 100 * timing ? (now() - from) / 100 : timing;
	}
	p4d_timeline_work_free(&work);
	printf("estimate, %-40s layout %.1f us, memory %.1f us, step time %.1f us\n", what, 1e6 * building,
	       1e6 * best, 1e6 * timing);
}

static void exact_plans(const p4d_gpu *gpu, const char *schedule)
{
	char text[512];
	double building, best = 1;
	static p4d_plan plan;

	snprintf(text, sizeof(text),
		 LLAMA_70B "layers=128 framework=p4d tp=1 pp=64 global-batch=512 schedule=%s", schedule);
	p4d_layout l = layout_of(text, 8, 1, &building);
	for (int round = 0; round < 100; round++) {
		double from = now();
		for (uint32_t stage = 0; stage < l.pp; stage++)
			p4d_plan_build(&l, gpu, stage, &plan, NULL);
		best = now() - from < best ? now() - from : best;
	}
	printf("exact plans of 64 stages x 512 micro-batches, %s: %.3f ms\n", schedule, 1e3 * best);
}

static void searches(const p4d_gpu *gpu, const char *what, const char *text, uint64_t nodes, uint32_t batch)
{
	const p4d_search_space space = {.nodes = nodes,
					.gpus_per_node = 8,
					.published_batch = batch,
					.capacity = {gpu, 0, 0},
					.safe = 0.80,
					.limit = 0.97};
	p4d_request r = {.model = ""};
	p4d_candidate found[5];
	p4d_search_counts counts;
	double best = 1e9;
	struct rusage usage;

	set(&r, text);
	for (int round = 0; round < 5; round++) {
		double from = now();
		p4d_search_run(&r, &space, found, 5, &counts);
		best = now() - from < best ? now() - from : best;
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("search, %s on %d GPUs: %.1f ms, %d layouts; process so far %.1f MiB\n", what, (int)nodes * 8,
	       1e3 * best, (int)counts.considered, (double)usage.ru_maxrss / 1024);
}

int main(void)
{
	p4d_gpus gpus;

	if (p4d_gpus_load(&gpus, NULL, NULL) < 0)
		return 1;
	const p4d_gpu *gpu = p4d_gpu_find(&gpus, "h100-80gb", NULL);
	estimates(gpu, "70B tp=4 pp=8, megatron", LLAMA_70B "framework=megatron tp=4 pp=8 global-batch=128",
		  8);
	estimates(gpu, "70B tp=4 pp=8, p4d", LLAMA_70B "framework=p4d tp=4 pp=8 global-batch=128", 8);
	estimates(gpu, "70B tp=4 pp=8 v-half vocab-2, p4d",
		  LLAMA_70B
		  "framework=p4d tp=4 pp=8 vpp=2 schedule=v-half vocab-parallel=vocab-2 global-batch=128",
		  8);
	estimates(gpu, "DeepSeek V3 ep=64 pp=16, megatron",
		  DEEPSEEK_V3 "ep=64 pp=16 pipeline-split=4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,1 global-batch=15360",
		  256);
	estimates(gpu, "the same, further tokens by DeepEP",
		  DEEPSEEK_V3 "ep=64 pp=16 pipeline-split=4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,1 global-batch=15360 "
			      "token-dispatcher=deepep mtp-layers=1",
		  256);
	static const char *const schedules[] = {"1f1b", "gpipe", "zb1p"};
	for (int i = 0; i < 3; i++)
		exact_plans(gpu, schedules[i]);
	searches(gpu, "70B", LLAMA_70B "framework=p4d", 8, 128);
	searches(gpu, "70B, megatron", LLAMA_70B "framework=megatron", 8, 128);
	searches(gpu, "DeepSeek V3", DEEPSEEK_V3, 256, 15360);
	searches(gpu, "405B", LLAMA_405B "framework=p4d", 2048, 2048);
	p4d_gpus_free(&gpus);
	return 0;
}
