/* SPDX-License-Identifier: Apache-2.0 */
/* Published systems that offload to the host: Deep Optimizer States, KARMA and Superpipeline, as in
 * p4d-systems(7). */
#include "support/systems.h"

#include "plan/offload.h"
#include "plan/plan.h"

#define OF_LLAMA \
	"model=custom norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off framework=p4d "

static p4d_estimate memory_of(const p4d_layout *l, const p4d_gpu *gpu)
{
	const p4d_capacity capacity = {gpu, 0, 0};
	p4d_estimate e;
	p4d_error err;

	if (p4d_memory_estimate(l, P4D_METHOD_PLAN, &capacity, &e, &err) < 0)
		fail_msg("memory: %s", err.text);
	return e;
}

/* ---- Deep Optimizer States ---- */

/*
 * Deep Optimizer States (arXiv 2410.21316): "2.5 times faster iterations" than DeepSpeed's ZeRO-3 with its
 * optimizer on the host (abstract). The authors' logs are of their model 20B (15.3 billion parameters) on
 * a node with 4 H100 and 2 Xeon: a sequence of 2,048 tokens per GPU, and all states on the host. Seconds
 * of the third step (forward, backward, update): DeepSpeed 0.21, 4.51, 2.27; the same with gradients
 * copied to the host during the backward pass: backward 0.97; Deep Optimizer States, with every second
 * subgroup on the GPU: 0.23, 0.84, 1.29.
 *
 * p4d-train splits the update so that GPU and host finish together: 41 of 64 subgroups are on the GPU, if
 * the host updates 2e9 parameters a second, as p4d assumes. With half of them on the GPU, p4d predicts
 * 0.96 s. p4d does not model DeepSpeed's slow backward pass, so it predicts only the gain in the update of
 * p4d-train.
 */
static void deep_optimizer_states(void **state)
{
	const p4d_gpu gpu = gpu_named("h100-80gb");
	const p4d_layout l =
	    layout_of(OF_LLAMA "layers=40 hidden=5120 ffn=20480 heads=64 kv-heads=4 head-dim=80 vocab=50304 "
			       "max-seq-len=2048 seq-len=2048 micro-batch=1 global-batch=4 recompute=full "
			       "optimizer-sharding=parameters offload=optimizer",
		      1, 4);
	const double shard = 15326663680. / 4, on_host = shard / P4D_HOST_UPDATES_PER_S;
	const p4d_offload_split split = p4d_offload_split_of(&l, &gpu);
	const double seconds = step_of(&l, &gpu).seconds, in_turns = split.seconds * shard;

	(void)state;
	const double gain = (seconds - in_turns + on_host) / seconds;
	row("deep optimizer states: update on the host, s", 2.27, on_host, 0.2);
	row("deep optimizer states: every second on the GPU", 1.29, on_host / 2, 0.3);
	row("deep optimizer states: p4d's split, s", 1.29, in_turns, 0.5);
	row("deep optimizer states: gain, abstract", 2.5, gain, 0.25);
	row("deep optimizer states: gain, of the update", (0.21 + 0.97 + 2.35) / (0.23 + 0.84 + 1.29), gain,
	    0.4);
	assert_int_equal(split.share, 41);
}

/* ---- KARMA ---- */

/* A GPT with Megatron-LM's sizes on one V100 of 16 GB. Its states are on the host. */
typedef struct karma_case {
	unsigned layers, hidden, heads, micro_batch;
} karma_case;

static p4d_layout of_karma(const karma_case *c, const char *more)
{
	char options[512];

	snprintf(options, sizeof(options),
		 OF_LLAMA "layers=%u hidden=%u ffn=%u heads=%u kv-heads=%u head-dim=96 vocab=51200 "
			  "max-seq-len=1024 seq-len=1024 micro-batch=%u global-batch=%u %s",
		 c->layers, c->hidden, c->hidden * 8 / 3 / 16 * 16, c->heads, c->heads, c->micro_batch,
		 64 * c->micro_batch, more);
	return in_fp16(layout_of(options, 1, 1));
}

/* Seconds of a step in which all layers swap their activations. This is the time of a step that keeps all
 * activations, plus the time of copies that passes do not hide. */
static double swapped_alone(const karma_case *c, const p4d_gpu *gpu)
{
	const p4d_layout kept = of_karma(c, "recompute=none offload=optimizer,params"),
			 swaps = of_karma(c, "recompute=none offload=optimizer,params,activations");
	p4d_cost_terms t, first;
	p4d_plan plan;

	p4d_cost__whole_terms(&kept, gpu, NULL, &t, &first);
	assert_int_equal(p4d_plan_build(&swaps, gpu, 0, &plan, NULL), 0);
	const double bytes = (double)p4d_plan_find(&plan, B_HOST_ACTIVATIONS)->bytes;
	const double moved = bytes / gpu->host_link_bytes_per_s / P4D_HOST_LINK_EFFICIENCY;
	const double forward = fmax(moved - t.layer.forward, 0),
		     backward = fmax(moved - t.layer.input - t.layer.weight, 0);
	return step_of(&kept, gpu).seconds + 64 * c->layers * (forward + backward);
}

/*
 * KARMA (arXiv 2008.11421): 1.52 times as fast as other out-of-core methods, as the mean of six models
 * (abstract; the tables were not available). Its artifact names five convolutional networks, which p4d
 * does not model, and Megatron-LM, all on V100 of 16 GB. The test compares three variants: swapping and
 * recomputing together, swapping alone, and recomputing alone. It uses the two Megatron-LM models whose
 * gradients fit such a GPU.
 */
static void karma(void **state)
{
	static const karma_case cases[] = {{40, 1536, 16, 16}, {54, 1920, 20, 8}};
	const p4d_gpu gpu = gpu_named("v100-16gb");

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const p4d_layout again = of_karma(&cases[i], "recompute=full offload=optimizer,params"),
				 both = of_karma(&cases[i],
						 "recompute=none offload=optimizer,params,activations"),
				 kept = of_karma(&cases[i], "recompute=none offload=optimizer,params");
		const double seconds = step_of(&both, &gpu).seconds;
		row("karma: over swapping alone", 1.52, swapped_alone(&cases[i], &gpu) / seconds, 0.2);
		row("karma: over computing again alone", 1.52, step_of(&again, &gpu).seconds / seconds, 0.35);
		assert_true(memory_of(&both, &gpu).fraction < 1 && memory_of(&kept, &gpu).fraction > 1);
	}
}

/* ---- Superpipeline ---- */

#define LLAMA_8B \
	OF_LLAMA "layers=32 hidden=4096 ffn=14336 heads=32 kv-heads=8 head-dim=128 vocab=128256 " \
		 "max-seq-len=8192 seq-len=8192 micro-batch=1 global-batch=64 "
#define LLAMA_70B \
	OF_LLAMA \
	"layers=80 hidden=8192 ffn=28672 heads=64 kv-heads=8 head-dim=128 vocab=128256 " \
	"max-seq-len=8192 seq-len=8192 micro-batch=1 global-batch=64 optimizer-sharding=parameters "

/* Compares the value in the manual page with what p4d predicts now. */
static void as_written(const char *name, double written, double now)
{
	printf("%-46s written %8.1f   p4d %8.1f\n", name, written, now);
	if (fabs(now / written - 1) > 0.01)
		fail_msg("%s: %g written, %g said", name, written, now);
}

/*
 * Parameters of layers are copied to the GPU one layer after the other, as in Superpipeline (arXiv
 * 2410.08791; its abstract says up to 60 % less GPU memory). Optimizer states and activations are on the
 * host. Llama 3 8B on one H100 of 80 GB and 70B on eight do not fit otherwise. A step has 64 sequences of
 * 8,192 tokens. No paper has these cases. The figures are p4d's own: GiB per GPU, GiB of a node's host,
 * and seconds of a step.
 */
static void streaming(void **state)
{
	static const struct {
		const char *options;
		uint64_t count;
		double gpu, host, seconds; /* 0: it does not fit */
	} rows[] = {
	    {LLAMA_8B, 1, 159.4, 0, 0},
	    {LLAMA_8B "recompute=full", 1, 138.5, 0, 0},
	    {LLAMA_8B "offload=optimizer", 1, 69.7, 184.5, 48.6},
	    {LLAMA_8B "offload=optimizer,params", 1, 56.5, 198.6, 52.2},
	    {LLAMA_8B "offload=optimizer,params resident-layers=8", 1, 58.9, 198.6, 50.0},
	    {LLAMA_8B "offload=optimizer,params,activations", 1, 37.4, 207.1, 60.6},
	    {LLAMA_70B "recompute=full", 8, 177.1, 0, 0},
	    {LLAMA_70B "recompute=full offload=optimizer", 8, 78.6, 1599, 65.0},
	    {LLAMA_70B "recompute=full offload=optimizer,params", 8, 62.1, 1730, 65.2},
	    {LLAMA_70B "offload=optimizer,params,activations", 8, 64.8, 2377, 53.2},
	};
	const p4d_gpu gpu = gpu_named("h100-80gb");

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const p4d_layout l = layout_of(rows[i].options, 1, rows[i].count);
		const p4d_estimate e = memory_of(&l, &gpu);
		as_written("streaming: GiB per GPU", rows[i].gpu, p4d_to_gib(e.peak.device_bytes));
		assert_true((e.fraction < 1) == (rows[i].seconds > 0));
		if (e.fraction > 1)
			continue;
		as_written("streaming: GiB of a node's host", rows[i].host, p4d_to_gib(e.host_bytes));
		as_written("streaming: seconds of a step", rows[i].seconds, step_of(&l, &gpu).seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(deep_optimizer_states),
	    cmocka_unit_test(karma),
	    cmocka_unit_test(streaming),
	};
	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
