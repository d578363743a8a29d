/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries each option with each program and each workload. If options.def says that an option has an effect
 * in a program, the plan or the step time must depend on the option. All other programs must refuse the
 * option with a reason. So p4d accepts no option that has no effect.
 */
#include "support/support.h"

#include "cost/cost.h"
#include "model/model.h"
#include "serve/colocated.h"
#include "plan/plan.h"
#include "serve/serving.h"
#include "serve/serving_search.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "support/cost_gpus.h"
#include "timeline/timeline.h"

static p4d_gpu gpu;
static p4d_timeline_work work;

enum { NODES = 2, GPUS = 8, VALUES = 12 };

/* A program or workload: its bit in the column of options.def, and the options that select it. */
static const struct kind {
	unsigned heeds;
	const char *flags;
} kinds[] = {
    {P4D_HEEDS_P4DTRAIN, "framework=p4d"},
    {P4D_HEEDS_MEGATRON, "framework=megatron"},
    {P4D_HEEDS_TORCHTITAN, "framework=fsdp model-code=torchtitan"},
    {P4D_HEEDS_FSDP, "framework=fsdp model-code=transformers"},
    {P4D_HEEDS_DEEPSPEED, "framework=deepspeed"},
    {P4D_HEEDS_DDP, "framework=ddp"},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

#define DENSE "model=llama3-8b layers=8 global-batch=128 "
#define SPARSE "model=qwen3-30b-a3b layers=8 global-batch=128 "
/* Scenes: sets of other options that an option may need to have an effect. A program skips the scenes that
 * it refuses. */
static const char *const dense[] = {DENSE,
				    DENSE "layer-pattern=***K memory-keys=1024",
				    DENSE "tp=2 pp=2 cp=2",
				    DENSE "pp=4 schedule=interleaved vpp=2",
				    DENSE "recompute=full",
				    DENSE "precision=fp8",
				    DENSE "finetune=lora",
				    DENSE "finetune=qlora",
				    DENSE "fsdp-version=1",
				    DENSE "fsdp-version=1 finetune=lora",
				    DENSE "fsdp-version=1 finetune=qlora",
				    DENSE "optimizer-dtype=bf16",
				    DENSE "optimizer-sharding=parameters",
				    DENSE "zero-stage=2 micro-batch=2",
				    DENSE "offload=optimizer,params",
				    DENSE "micro-batch=4",
				    DENSE "pp=4 token-slices=2",
				    DENSE "tp=4 pp=4",
				    DENSE "tp=2 cp=4",
				    DENSE "param-dtype=bf16",
				    DENSE "micro-batch=2 chunked-loss=on",
				    "model=gpt2-xl layers=8 global-batch=128",
				    "model=gpt2-xl layers=8 global-batch=128 attention=unfused",
				    NULL};
static const char *const sparse[] = {SPARSE,
				     SPARSE "ep=4",
				     SPARSE "ep=4 tp=2",
				     SPARSE "ep=4 tp=2 pp=2",
				     SPARSE "ep=4 expert-capacity=1.5",
				     SPARSE "ep=16 token-dispatcher=deepep",
				     SPARSE "pp=4 schedule=interleaved vpp=2 ep=2",
				     SPARSE "recompute=full",
				     SPARSE "recompute=selective",
				     SPARSE "precision=fp8",
				     SPARSE "finetune=lora",
				     SPARSE "finetune=qlora",
				     SPARSE "fsdp-version=1",
				     SPARSE "fsdp-version=1 finetune=lora",
				     SPARSE "optimizer-dtype=bf16",
				     SPARSE "zero-stage=2 micro-batch=2",
				     SPARSE "offload=optimizer,params",
				     SPARSE "micro-batch=4",
				     SPARSE "tp=2 cp=4",
				     "model=qwen1.5-moe layers=8 global-batch=128 ep=4",
				     "model=deepseek-v2-lite layers=8 global-batch=128 recompute=selective",
				     NULL};

/* Stages cannot have equal numbers of layers here. Some options have an effect only then. */
#define UNEVEN "layers=15 pp=4"

/* Options that are accepted although they change neither the plan nor the time, with the programs. */
static const struct {
	p4d_option option;
	unsigned heeds;
} judged[] = {
    {P4D_PADDING, P4D_HEEDS_TRAIN}, /* only for losses of multimodal models; test_guard_script has some */
    {P4D_PARAM_DTYPE, P4D_HEEDS_DEEPSPEED},      /* only the precision's own value is accepted */
    {P4D_ATTENTION_DROPOUT, P4D_HEEDS_MEGATRON}, /* only for unfused attention, which test_stage_memory
						  * checks */
    /* only for the loss of multimodal models; test_guard_script has some */
    {P4D_TRANSFORMERS, P4D_HEEDS_FSDP | P4D_HEEDS_DEEPSPEED},
};

/* A valid value of the option, as text. */
static const char *text_of(p4d_option option)
{
	switch (option) {
	case P4D_TP_GRID:
		return "2,2,1";
	case P4D_SLICE_LENGTHS:
		return "5120,3072";
	case P4D_RECOMPUTE_MODULES:
		return "layernorm";
	case P4D_LORA_TARGETS:
		return "q_proj";
	case P4D_PIPELINE_SPLIT:
		return "1,3,3,1";
	default:
		return "x";
	}
}

static unsigned values_of(p4d_option option, int64_t values[VALUES])
{
	const p4d_option_info *info = p4d_request_option_info(option);
	const int64_t numbers[] = {2, 4, 3, info->min, 512};
	const double reals[] = {1.5, 0.5, 50};
	unsigned count = 0;

	if (info->kind == P4D_CHOICE_KIND) {
		for (const char *at = p4d_option_choices(info); at && count < VALUES;
		     at = (at = strchr(at, '|')) ? at + 1 : NULL)
			values[count] = count, count++;
	} else if (info->kind == P4D_INTEGER_KIND) {
		for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
			if (numbers[i] >= info->min && numbers[i] <= info->max)
				values[count++] = numbers[i];
	} else if (info->kind == P4D_DECIMAL_KIND) {
		for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++)
			if (reals[i] >= info->least && reals[i] <= info->most)
				values[count++] = p4d_option_bits(reals[i]);
	} else {
		values[count++] = 1;
	}
	return count;
}

static void add(uint64_t *hash, const void *data, size_t size)
{
	for (const unsigned char *at = data; at < (const unsigned char *)data + size; at++)
		*hash = (*hash ^ *at) * UINT64_C(1099511628211);
}

/* Adds all rows of a stage and its memory outside of the rows to the hash. */
static void add_stage(uint64_t *hash, const p4d_layout *l, uint32_t stage)
{
	static p4d_plan plan;
	p4d_stage s;

	assert_int_equal(p4d_plan_build(l, &gpu, stage, &plan, NULL), 0);
	assert_int_equal(p4d_memory_of_stage(l, P4D_METHOD_PLAN, &gpu, stage, &s, NULL), 0);
	for (unsigned i = 0; i < plan.count; i++) {
		const p4d_tensor *t = &plan.tensor[i];
		add(hash, t->name, strlen(t->name));
		add(hash, &t->live_range, sizeof(t->live_range));
		add(hash, &t->bytes, sizeof(t->bytes));
		add(hash, &t->layers, sizeof(t->layers));
		add(hash, &t->slots, sizeof(t->slots));
	}
	add(hash, s.part, sizeof(s.part));
	add(hash, s.phase_bytes, sizeof(s.phase_bytes));
	add(hash, &s.host_bytes, sizeof(s.host_bytes));
}

/* A hash of everything that p4d predicts for a layout. It changes if any prediction changes. */
static uint64_t prediction(const p4d_layout *l)
{
	const p4d_capacity capacity = {.gpu = &gpu};
	const char *unvalidated = p4d_framework_unvalidated(l);
	uint64_t hash = UINT64_C(14695981039346656037);
	p4d_estimate e;
	p4d_step step = {.seconds = 0};

	if (p4d_memory_estimate(l, P4D_METHOD_PLAN, &capacity, &e, NULL) < 0)
		return 0;
	add_stage(&hash, l, 0);
	if (l->pp > 1)
		add_stage(&hash, l, (uint32_t)l->pp - 1);
	add(&hash, &e.host_bytes, sizeof(e.host_bytes));
	if (p4d_cost_known(l, &gpu))
		p4d_cost_step(l, &gpu, &work, &step, NULL);
	add(&hash, &step.seconds, sizeof(step.seconds));
	if (unvalidated)
		add(&hash, unvalidated, strlen(unvalidated));
	return hash;
}

typedef struct outcome {
	uint64_t prediction; /* 0: p4d refused the request */
	bool says_nothing;   /* the plan has this value even without the option */
} outcome;

/* Predicts a scene with an option. P4D_OPTIONS: without any additional option. */
static outcome run(const char *scene, const char *kind, p4d_option option, int64_t value)
{
	static p4d_layout l;
	outcome o = {.prediction = 0};
	p4d_request r = {.model = ""}, without;

	set_all(&r, scene);
	set_all(&r, kind);
	without = r;
	if (option != P4D_OPTIONS && p4d_request_option_info(option)->kind == P4D_TEXT_KIND)
		p4d_request_set(&r, option, text_of(option), P4D_BY_USER, NULL);
	else if (option != P4D_OPTIONS)
		p4d_request_put(&r, option, value, P4D_BY_USER);
	if (p4d_model_resolve(&r, NULL, NULL, NULL) < 0)
		return o;
	p4d_request_complete(&r, 0, NODES * GPUS);
	if (p4d_layout_build(&r, NODES, GPUS, &l, NULL) == 0)
		o.prediction = prediction(&l);
	if (option == P4D_OPTIONS || !o.prediction)
		return o;
	const p4d_heeds_reason *reason = p4d_heeds_instead(&r, (int)r.value[P4D_FRAMEWORK], option);
	p4d_model_resolve(&without, NULL, NULL, NULL);
	p4d_request_complete(&without, 0, NODES * GPUS);
	o.says_nothing = p4d_heeds__says_nothing(&r, option) || (reason && reason->value == value) ||
			 (p4d_is_set(&without, option) && without.value[option] == value);
	return o;
}

/* base: predictions without the option, for each kind and scene */
enum { SCENES = 24 };
typedef struct family {
	const char *name, *uneven;
	const char *const *scene;
	uint64_t base[KINDS][SCENES];
} family;
static family families[] = {{"dense", DENSE UNEVEN, dense, {{0}}}, {"sparse", SPARSE UNEVEN, sparse, {{0}}}};
enum { FAMILIES = sizeof(families) / sizeof(*families) };

typedef struct heeded {
	bool changes, idle;
	bool chosen; /* p4d refuses one value of the option, and then chooses among the others */
	const char *idle_scene;
	char idle_value[64];
} heeded;

/* Tries scenes until the option changes a prediction. */
static heeded walk(const family *f, size_t kind, p4d_option option)
{
	int64_t values[VALUES];
	const unsigned count = values_of(option, values);
	heeded h = {.changes = false};

	for (size_t i = 0; f->scene[i] && !h.changes; i++)
		for (unsigned v = 0; v < count && !h.changes && f->base[kind][i]; v++) {
			const outcome o = run(f->scene[i], kinds[kind].flags, option, values[v]);
			h.chosen |= !o.prediction && p4d_request_option_info(option)->kind == P4D_CHOICE_KIND;
			h.changes = o.prediction && o.prediction != f->base[kind][i];
			if (o.prediction && !o.says_nothing && !h.changes) {
				h.idle = true;
				h.idle_scene = f->scene[i];
				p4d_option_text(p4d_request_option_info(option), values[v], h.idle_value,
						sizeof(h.idle_value));
			}
		}
	for (unsigned v = 0; v < count && !h.changes && kinds[kind].heeds & P4D_HEEDS_SPLIT; v++)
		h.changes = run(f->uneven, kinds[kind].flags, option, values[v]).prediction;
	return h;
}

static bool is_judged(p4d_option option, unsigned by)
{
	for (size_t i = 0; i < sizeof(judged) / sizeof(*judged); i++)
		if (judged[i].option == option && judged[i].heeds & by)
			return true;
	return false;
}

static bool is_walked(p4d_option option)
{
	const p4d_option_info *info = p4d_request_option_info(option);

	return !(info->heeds & P4D_HEEDS_JOB) && !(info->where & P4D_WHERE_MODEL) &&
	       info->heeds & P4D_HEEDS_TRAIN && option != P4D_MODEL;
}

static void everyone_heeds_or_refuses(void **state)
{
	unsigned faults = 0;

	(void)state;
	gpu = gpu_named("h100-80gb");
	for (size_t f = 0; f < FAMILIES; f++)
		for (size_t k = 0; k < KINDS; k++)
			for (size_t i = 0; families[f].scene[i]; i++)
				families[f].base[k][i] =
				    run(families[f].scene[i], kinds[k].flags, P4D_OPTIONS, 0).prediction;
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		for (size_t k = 0; k < KINDS && is_walked((p4d_option)i); k++) {
			if (is_judged((p4d_option)i, info->heeds & kinds[k].heeds))
				continue;
			bool changes = false;
			for (size_t f = 0; f < FAMILIES; f++) {
				const heeded h = walk(&families[f], k, (p4d_option)i);
				changes |= h.changes;
				if (h.changes || !h.idle || (h.chosen && info->heeds & kinds[k].heeds))
					continue;
				print_error("%s: --%s %s changes nothing with %s (%s), and is not refused\n",
					    families[f].name, info->name, h.idle_value, kinds[k].flags,
					    h.idle_scene);
				faults++;
			}
			if (changes != !!(info->heeds & kinds[k].heeds)) {
				print_error("--%s: options.def says that %s %s it\n", info->name,
					    kinds[k].flags, changes ? "does not heed" : "heeds");
				faults++;
			}
		}
	}
	p4d_timeline_work_free(&work);
	assert_int_equal(faults, 0);
}

/* ---- other workloads ---- */

#define RL "workload=rl framework=fsdp model-code=transformers "
static const char *const serving[] = {"workload=serve model=llama3-8b",
				      "workload=serve model=llama3-8b tp=2 pp=2",
				      "workload=serve model=qwen3-30b-a3b tp=2 data-parallel-size=2",
				      "workload=serve model=llama3-8b offload=weights",
				      "workload=serve model=llama3-8b max-loras=2",
				      "workload=serve model=gpt-oss-20b",
				      NULL};
static const char *const learning[] = {
    RL "model=llama3-8b",  RL "model=llama3-8b engine-tp=2 max-loras=2", RL "model=qwen3-30b-a3b engine-tp=2",
    RL "model=gemma3-12b", RL "model=llama3-8b swap=optimizer,params",   NULL};
static const char *const preferring[] = {"workload=preference framework=ddp model=llama3.2-1b", NULL};

static const struct {
	unsigned heeds; /* the options that have an effect on this workload */
	const char *const *scene;
} workloads[] = {{P4D_HEEDS_SERVE, serving}, {P4D_HEEDS_RL, learning}, {P4D_HEEDS_PREFERENCE, preferring}};

static void add_serving(uint64_t *hash, const p4d_serving *s)
{
	const uint64_t numbers[] = {
	    s->budget_bytes,  s->weights_bytes,      s->loading_bytes,  s->outside_bytes,   s->host_bytes,
	    s->adapter_bytes, s->available_bytes,    s->sequence_bytes, s->sequences,       s->max_model_len,
	    s->max_num_seqs,  s->max_batched_tokens, s->replicas,       s->resident_layers, s->graphs_bytes};

	add(hash, numbers, sizeof(numbers));
}

/* Adds the engine's speed, and the layout that `p4d plan` would choose, to the hash. */
static void add_speed(uint64_t *hash, const p4d_request *r, const p4d_serving *s)
{
	const p4d_serving_load load = p4d_serving_load_of(r);
	const p4d_serving_space space = p4d_serving_space_of(r, &gpu, NODES, GPUS);
	p4d_serving_speed speed = {0};
	p4d_serving_counts counts;
	p4d_serving_found best = {.gpus = 0};

	p4d_serving_speed_of(r, &gpu, GPUS, s, &load, &speed, NULL);
	if (p4d_is_set(r, P4D_FIRST_TOKEN) || p4d_is_set(r, P4D_BETWEEN_TOKENS))
		p4d_serving_search(r, &space, &best, 1, &counts, NULL);
	const double numbers[] = {speed.tokens_per_s, speed.between_tokens_s, speed.first_token_s,
				  best.speed.tokens_per_s};
	add(hash, numbers, sizeof(numbers));
}

static uint64_t served(p4d_request *r)
{
	uint64_t hash = 1;
	p4d_serving s;

	p4d_serving_complete(r, &gpu);
	if (p4d_serving_estimate(r, &gpu, NODES * GPUS, &s, NULL) < 0)
		return 0;
	add_serving(&hash, &s);
	add_speed(&hash, r, &s);
	return hash;
}

static uint64_t learnt(p4d_request *r)
{
	static p4d_layout l;
	uint64_t hash = 1;
	p4d_colocated c = {.capacity_bytes = 0};

	p4d_colocated_complete(r, NODES * GPUS);
	p4d_request_complete(r, 0, NODES * GPUS);
	if (p4d_layout_build(r, NODES, GPUS, &l, NULL) < 0 ||
	    p4d_colocated_estimate(r, &l, &gpu, &c, NULL) < 0)
		return 0;
	const uint64_t sums[] = {c.generating.sum, c.training.sum, c.host_bytes};
	add(&hash, sums, sizeof(sums));
	add_serving(&hash, &c.serving);
	return hash;
}

/* A hash of the prediction. *unused: whether p4d reported that the option has no effect. */
static uint64_t work_of(const char *scene, p4d_option option, int64_t value, bool *unused)
{
	p4d_request r = {.model = ""};

	set_all(&r, scene);
	if (option != P4D_OPTIONS && p4d_request_option_info(option)->kind == P4D_TEXT_KIND)
		p4d_request_set(&r, option, text_of(option), P4D_BY_USER, NULL);
	else if (option != P4D_OPTIONS)
		p4d_request_put(&r, option, value, P4D_BY_USER);
	*unused =
	    option != P4D_OPTIONS && (p4d_heeds_unused(&r) == option || p4d_heeds__says_nothing(&r, option));
	assert_int_equal(p4d_model_resolve(&r, NULL, NULL, NULL), 0);
	return r.value[P4D_WORKLOAD] == P4D_WORKLOAD_SERVE ? served(&r) : learnt(&r);
}

/* An option of another workload either has an effect on this workload, or p4d warns that it has none. */
static void every_workload_heeds_or_warns(void **state)
{
	unsigned faults = 0;

	(void)state;
	gpu = gpu_named("h100-80gb");
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		int64_t values[VALUES];
		const unsigned count = values_of((p4d_option)i, values);
		for (size_t w = 0; w < sizeof(workloads) / sizeof(*workloads); w++) {
			const bool serves = workloads[w].heeds == P4D_HEEDS_SERVE;
			const bool heeds = info->heeds & workloads[w].heeds;
			bool changes = false, idle = false, unused = false;
			/* options for training also have an effect on rl and preference */
			if (info->heeds & P4D_HEEDS_JOB || info->where & P4D_WHERE_MODEL || i == P4D_MODEL ||
			    (!serves && info->heeds & P4D_HEEDS_TRAIN))
				continue;
			for (size_t s = 0; workloads[w].scene[s]; s++)
				for (unsigned v = 0; v < count && !changes; v++) {
					const uint64_t base =
					    work_of(workloads[w].scene[s], P4D_OPTIONS, 0, &unused);
					const uint64_t with =
					    work_of(workloads[w].scene[s], (p4d_option)i, values[v], &unused);
					changes = with && with != base;
					idle |= with && !unused;
				}
			if (heeds ? changes : !changes && !idle)
				continue;
			print_error("--%s %s with %s\n", info->name,
				    changes ? "has an effect" : "changes nothing", workloads[w].scene[0]);
			faults++;
		}
	}
	assert_int_equal(faults, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(everyone_heeds_or_refuses),
					   cmocka_unit_test(every_workload_heeds_or_warns)};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
