/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models with experts and hybrid models: all parameters, and those that a token uses, compared with what
 * the authors published. "hub" is the number that the Hugging Face hub shows for the repository's files:
 * the sum of the sizes in its safetensors index. If a model has multi-token prediction layers or vision
 * towers, this number includes them. Model cards and papers round their numbers, and a row says by how
 * much. A difference above the rounding plus half a percent is a defect.
 */
#include "support/support.h"

#include <inttypes.h>
#include <math.h>

#include "model/model.h"
#include "request/model_size.h"

static const struct published {
	const char *name, *source;
	double total, rounding;         /* billions of parameters, and how far the number is rounded */
	double active, active_rounding; /* billions of active parameters; 0: not published */
	unsigned tables;                /* number of vocabulary tables in the active parameters */
	uint64_t further;               /* number of multi-token prediction layers that the total includes */
	double others; /* billions of other parameters in the total: vision towers, tables of a multi-token
			* prediction layer */
} published[] = {
    {"mixtral-8x7b", "hub; arXiv 2401.04088: 47B, 12.9B", 46.702792704, 0, 12.9, 0.05, 2, 0, 0},
    {"mixtral-8x22b", "hub; card: 141B, 39B", 140.630071296, 0, 39, 0.5, 2, 0, 0},
    {"qwen1.5-moe", "hub; card: 14.3B, 2.7B", 14.315784192, 0, 2.7, 0.05, 2, 0, 0},
    {"qwen3-30b-a3b", "hub; arXiv 2505.09388: 30.5B, 3.3B", 30.532122624, 0, 3.3, 0.05, 2, 0, 0},
    {"qwen3-235b-a22b", "hub; arXiv 2505.09388: 235B, 22B", 235.093634560, 0, 22, 0.5, 2, 0, 0},
    {"qwen3-next-80b-a3b", "hub; card: 80B, 3B", 81.324862720, 0, 3, 0.5, 0, 1, 0},
    {"deepseek-v2-lite", "hub; arXiv 2405.04434: 15.7B, 2.4B", 15.706484224, 0, 2.4, 0.05, 1, 0, 0},
    {"deepseek-v2", "arXiv 2405.04434: 236B, 21B", 236, 0.5, 21, 0.5, 1, 0, 0},
    {"deepseek-v3", "arXiv 2412.19437: 671B, 37B", 671, 0.5, 37, 0.5, 1, 0, 0},
    {"deepseek-v3", "hub; with scales of blocks of FP8", 684.531386000, 0, 0, 0, 0, 1, 1.85335808},
    {"moonlight-16b-a3b", "hub; arXiv 2502.16982: 2.24B without tables", 15.960111936, 0, 2.24, 0.005, 0, 0,
     0},
    {"kimi-k2", "hub; card: 1T, 32B", 1026.408235864, 0, 32, 0.5, 1, 0, 0},
    {"glm-4.5", "hub; arXiv 2508.06471: 355B, 32B", 358.337791296, 0, 32, 0.5, 0, 1, 1.55189248},
    {"glm-4.5-air", "hub; arXiv 2508.06471: 106B, 12B", 110.468824832, 0, 12, 0.5, 0, 1, 1.241513984},
    {"gpt-oss-20b", "hub; arXiv 2508.10925: 20.91B, 3.61B", 20.914757184, 0, 3.61, 0.005, 1, 0, 0},
    {"gpt-oss-120b", "hub; arXiv 2508.10925: 116.83B, 5.13B", 116.829156672, 0, 5.13, 0.005, 1, 0, 0},
    {"llama4-scout", "hub; card: 109B, 17B", 108.641793536, 0, 17, 0.5, 2, 0, 0.871932416},
    {"llama4-maverick", "hub; card: 400B, 17B", 401.583781376, 0, 17, 0.5, 2, 0, 0.871932416},
    /* the source says "25 % of the weights active", which gives no number */
    {"grok-1", "github.com/xai-org/grok-1: 314B", 314, 0.5, 0, 0, 0, 0, 0},
    {"dbrx", "card: 132B, 36B", 132, 0.5, 36, 0.5, 2, 0, 0},
    {"jamba-1.5-mini", "arXiv 2408.12570: 52B, 12B", 52, 0.5, 12, 0.5, 2, 0, 0},
    {"jamba-1.5-large", "arXiv 2408.12570: 398B, 94B", 398, 0.5, 94, 0.5, 2, 0, 0},
    {"nemotron-h-8b", "arXiv 2504.03624: 8B", 8, 0.5, 8, 0.5, 2, 0, 0},
    {"nemotron-h-47b", "arXiv 2504.03624: 47B", 47, 0.5, 47, 0.5, 2, 0, 0},
    {"nemotron-h-56b", "arXiv 2504.03624: 56B", 56, 0.5, 56, 0.5, 2, 0, 0},
    {"nemotron-nano-9b-v2", "hub; arXiv 2508.14444: 8.89B", 8.888227328, 0, 8.89, 0.005, 2, 0, 0},
    {"nemotron-nano-12b-v2", "arXiv 2508.14444: 12.31B", 12.31, 0.005, 12.31, 0.005, 2, 0, 0},
    {"nemotron-3-nano-30b-a3b", "hub; card: 31.6B, 3.2B, or 3.6B with tables", 31.577940288, 0, 3.6, 0.05, 2,
     0, 0},
    {"olmoe-1b-7b", "hub; arXiv 2409.02060: 6.9B, 1.3B", 6.919161856, 0, 1.3, 0.05, 2, 0, 0},
    {"bamba-9b", "card: 9.78B", 9.78, 0.005, 9.78, 0.005, 2, 0, 0},
    {"granite-4.0-h-micro", "hub; card: 3B", 3.191396096, 0, 3, 0.5, 1, 0, 0},
    {"granite-4.0-h-tiny", "card: 7B, 1B", 7, 0.5, 1, 0.5, 1, 0, 0},
    {"granite-4.0-h-small", "hub; card: 32B, 9B", 32.207337984, 0, 9, 0.5, 1, 0, 0},
};

static double billions(p4d_wide parameters)
{
	return (double)(uint64_t)parameters / 1e9;
}

/* The difference may be half a percent more than the rounding of the published number. */
static void compare(const char *name, const char *what, double counted, double total, double rounding,
		    const char *source)
{
	if (fabs(counted - total) > rounding + 0.005 * total)
		fail_msg("%s: %.3f billion %s, published %g (%s)", name, counted, what, total, source);
}

static p4d_layout model_of(const char *name)
{
	p4d_request preset = {0};
	p4d_error err = {0};
	p4d_layout l;

	assert_int_equal(p4d_request_set(&preset, P4D_MODEL, name, P4D_BY_USER, &err), 0);
	if (p4d_model_resolve(&preset, NULL, NULL, &err) < 0)
		fail_msg("%s", err.text);
	p4d_layout_of_model(&preset, &l);
	return l;
}

static void totals(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		const struct published *p = &published[i];
		const p4d_layout l = model_of(p->name);
		const double further =
		    billions(p->further * (p4d_size_of_further(&l) + l.experts * p4d_size_of_expert(&l)));
		const double counted = billions(p4d_size_of_model(&l)) + further + p->others;
		printf("%-24s %12.6f billion, published %g\n", p->name, counted, p->total);
		compare(p->name, "in all", counted, p->total, p->rounding, p->source);
	}
}

static void active(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		const struct published *p = &published[i];
		const p4d_layout l = model_of(p->name);
		const unsigned all = l.tied ? 1 : 2;
		const p4d_wide tables = (p->tables < all ? all - p->tables : 0) * p4d_size_of_table(&l);
		const p4d_wide idle = l.experts
					  ? p4d_expert_layers_before(&l, l.layers) *
						(l.experts - l.experts_per_token) * p4d_size_of_expert(&l)
					  : 0;
		const double counted = billions(p4d_size_of_model(&l) - idle - tables);
		if (p->active <= 0)
			continue;
		printf("%-24s %10.4f billion active, published %g\n", p->name, counted, p->active);
		compare(p->name, "active", counted, p->active, p->active_rounding, p->source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(totals),
	    cmocka_unit_test(active),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
