/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "job/export.h"
#include "job/script.h"
#include "request/framework.h"
#include "support/built_layout.h"

static const char *megatron_args(const p4d_request *r, const p4d_layout *l, char *args, size_t size)
{
	p4d_framework_of(P4D_FRAMEWORK_MEGATRON)->arguments->write(r, l, args, size);
	return args;
}

/* The predicted step time assumes cuDNN's attention, so a script must not turn it off. */
static void the_attention_that_is_counted(void **state)
{
	static const char *const cases[][2] = {
	    {"framework=megatron", "--attention-backend fused"},
	    {"framework=megatron head-dim=256", "--attention-backend auto"},
	    {"framework=megatron attention=flash2", "--attention-backend flash"},
	    {"framework=megatron attention=unfused", "--attention-backend unfused"}};
	p4d_request r;
	p4d_layout l;
	char args[3072], flags[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(flags, sizeof(flags), MODEL_70B "tp=8 pp=2 %s", cases[i][0]);
		build(flags, &r, &l);
		assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)), cases[i][1]));
	}
}

static void megatron_arguments(void **state)
{
	p4d_request r;
	p4d_layout l;
	char args[3072];

	(void)state;
	build(MODEL_70B "tp=8 pp=2 framework=megatron recompute=full", &r, &l);
	assert_string_equal(megatron_args(&r, &l, args, sizeof(args)),
			    "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 "
			    "--context-parallel-size 1 --sequence-parallel "
			    "--use-distributed-optimizer --micro-batch-size 1 --global-batch-size 1024 "
			    "--num-layers 80 --hidden-size 8192 "
			    "--ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention "
			    "--num-query-groups 8 --kv-channels 128 "
			    "--seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope "
			    "--normalization RMSNorm --swiglu "
			    "--untie-embeddings-and-output-weights --disable-bias-linear "
			    "--recompute-granularity full --recompute-method "
			    "uniform --recompute-num-layers 1 --attention-backend fused --hidden-dropout 0.0 "
			    "--attention-dropout 0.0 --bf16");
	build(MODEL_70B "tp=8 pp=2 framework=megatron attention-dropout=on", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)), "--hidden-dropout 0.0"));
	assert_null(strstr(args, "--attention-dropout"));
	build(MODEL_70B "tp=8 pp=2 framework=megatron dropout=on attention-dropout=off", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)), "--attention-dropout 0.0"));
	assert_null(strstr(args, "--hidden-dropout"));
	build(MODEL_70B "tp=4 pp=4 pipeline-split=19,21,21,19 framework=megatron", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--pipeline-model-parallel-layout Et*19|t*21|t*21|t*19L"));
	assert_null(strstr(args, "--cp-comm-type"));
	build(MODEL_70B "tp=4 pp=2 cp=2 cp-comm=all-gather framework=megatron", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--context-parallel-size 2 --cp-comm-type all_gather"));
	build(MODEL_70B "tp=4 pp=2 cp=2 cp-comm=a2a recompute=full recompute-method=block recompute-layers=4 "
			"cross-entropy=fused framework=megatron",
	      &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)), "--cp-comm-type a2a"));
	assert_non_null(strstr(args, "--recompute-method block --recompute-num-layers 4"));
	assert_non_null(strstr(args, "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te"));
	build(MODEL_70B "tp=4 pp=1 cp=4 cp-heads=2 framework=megatron", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2"));
	/* with this evaluation micro-batch, the global batch must be a multiple of 48 x dp */
	build(MODEL_70B "tp=8 pp=2 framework=megatron global-batch=64 eval-micro-batch=16", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--global-batch-size 64 --eval-micro-batch-size 16 --num-layers"));
	build(MODEL_70B "tp=8 pp=2 framework=megatron global-batch=64 eval-micro-batch=48", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--eval-micro-batch-size 48 --eval-global-batch-size 96 --num-layers"));
	build(MODEL_70B "tp=4 pp=4 vpp=7 layers=82 account-for-embedding=on account-for-loss=on "
			"framework=megatron",
	      &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--num-virtual-stages-per-pipeline-rank 7 "
			       "--account-for-embedding-in-pipeline-split "
			       "--account-for-loss-in-pipeline-split --sequence-parallel"));
	build(MODEL_70B "tp=4 pp=2 vpp=2 layers=7 pipeline-split=1,2,2,2 framework=megatron", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--pipeline-model-parallel-layout Et*1|t*2|t*2|t*2L"));
	build(MODEL_70B "tp=4 glu=off activation=relu2 grad-dtype=bf16 optimizer-dtype=bf16 "
			"master-dtype=fp16 framework=megatron",
	      &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)), "--squared-relu"));
	assert_non_null(strstr(args, "--bf16 --grad-reduce-in-bf16 --use-precision-aware-optimizer "
				     "--main-grads-dtype bf16 --main-params-dtype fp16 "
				     "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"));
	build(MODEL_70B "tp=4 precision=fp16 grad-dtype=fp32 framework=megatron", &r, &l);
	assert_non_null(
	    strstr(megatron_args(&r, &l, args, sizeof(args)), "--fp16 --accumulate-allreduce-grads-in-fp32"));
	build(MODEL_70B "tp=4 pp=4 vpp=5 tp-comm-overlap=on overlap-p2p=off framework=megatron", &r, &l);
	assert_non_null(strstr(megatron_args(&r, &l, args, sizeof(args)),
			       "--tp-comm-overlap --no-overlap-p2p-communication --overlap-grad-reduce "
			       "--overlap-param-gather"));
	build(MODEL_70B "tp=4 pp=4 vpp=5 framework=megatron", &r, &l);
	assert_null(strstr(megatron_args(&r, &l, args, sizeof(args)), "overlap"));
	assert_non_null(
	    strstr(megatron_args(&r, &l, args, sizeof(args)), "--num-layers-per-virtual-pipeline-stage 4"));
}

/* p4d's own reader of scripts must find no argument that contradicts the layout. */
static void arguments_agree_with_the_layout(void **state)
{
	p4d_request r;
	p4d_layout l;
	char args[3072];

	(void)state;
	build(MODEL_70B "tp=2 pp=4 cp=2 vpp=2 micro-batch=2 framework=megatron", &r, &l);
	megatron_args(&r, &l, args, sizeof(args));
	assert_string_equal(p4d_script_scan(args, strlen(args), &l).contradiction, "");
	l.cp = 1;
	p4d_script script = p4d_script_scan(args, strlen(args), &l);
	assert_string_equal(script.contradiction, "--context-parallel-size 2");
	assert_int_equal(script.planned, 1);
}

typedef struct seen {
	int count;
	char tp[16], dp[16], plan[64];
} seen;

static void remember(const char *name, const char *value, void *context)
{
	seen *s = context;
	bool known = false;

	for (size_t i = 0; p4d_export_name(i); i++)
		known = known || !strcmp(p4d_export_name(i), name);
	assert_true(known);
	s->count++;
	if (!strcmp(name, "P4D_TP"))
		snprintf(s->tp, sizeof(s->tp), "%s", value);
	if (!strcmp(name, "P4D_DP"))
		snprintf(s->dp, sizeof(s->dp), "%s", value);
	if (!strcmp(name, "P4D_PLAN"))
		snprintf(s->plan, sizeof(s->plan), "%s", value);
}

static void every_output_is_exported(void **state)
{
	p4d_request r;
	p4d_layout l;
	seen s = {0};
	size_t names = 0, of_frameworks = 0;

	(void)state;
	build(MODEL_70B "tp=8", &r, &l);
	p4d_export(&r, &l, "the plan", remember, &s);
	for (; p4d_export_name(names); names++)
		of_frameworks += strstr(p4d_export_name(names), "_ARGS") != NULL;
	assert_int_equal(s.count, names - of_frameworks + 1); /* a job gets the variables of one framework
							       * only */
	assert_string_equal(p4d_export_name(0), P4D_EXPORT_PLAN);
	assert_string_equal(s.tp, "8");
	assert_string_equal(s.dp, "2");
	assert_string_equal(s.plan, "the plan");
	/* a model that p4d does not know has a plan line but no layout */
	set_all(&r, "model=x");
	p4d_request_put(&r, P4D_UNMODELLED, 1, P4D_BY_MODEL);
	s.count = 0;
	p4d_export(&r, &l, "the plan", remember, &s);
	assert_int_equal(s.count, 1);
}

static void of_megatron(const char *name, const char *value, void *context)
{
	if (!strcmp(name, "P4D_MEGATRON_ARGS"))
		snprintf(context, 64, "%s", value);
}

/* Megatron-LM can run most layouts of p4d-train. For the others, p4d writes no arguments. */
static void layouts_that_megatron_has_not(void **state)
{
	static const struct {
		const char *options, *lacks;
	} cases[] = {
	    {"tp=8", NULL},
	    {"tp=8 tp-grid=8,1,1", NULL},
	    {"tp=4 pp=2 schedule=gpipe optimizer-sharding=off", NULL},
	    {"tp=4 tp-grid=2,2,1", "tp-grid"},
	    {"tp=4 tp-grid=2,1,2 micro-batch=2", "tp-grid"},
	    {"tp=8 pp=2 token-slices=2", "token-slices"},
	    {"tp=8 pp=2 schedule=zb1p", "schedules except"},
	    {"tp=8 pp=2 vpp=2 schedule=v-half", "schedules except"},
	    {"tp=8 pp=2 vpp=2 schedule=dualpipe-v", "DualPipeV"},
	    {"tp=8 pp=2 schedule=1f1b vocab-parallel=vocab-1", "vocab-parallel"},
	    {"tp=8 optimizer-sharding=gradients", "sharding of gradients"},
	    {"tp=8 optimizer-sharding=parameters", "sharding of gradients"},
	    {"tp=4 shard-degree=2", "shard-degree"},
	    {"tp=8 pp=2 schedule=1f1b local-loss=stage", "local losses"},
	    {"tp=8 offload=optimizer", "offload"},
	    {"tp=8 finetune=lora", "adapters"},
	    {"tp=8 device=cpu architecture=gemma2 activation=geglu", "model"},
	};
	char options[512], args[64];
	p4d_request r;
	p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *lacks;
		snprintf(options, sizeof(options), MODEL_70B "framework=p4d %s", cases[i].options);
		build(options, &r, &l);
		args[0] = '\0';
		p4d_export(&r, &l, "the plan", of_megatron, args);
		assert_int_equal(p4d_export_arguments(&r, &l, &lacks) == NULL, cases[i].lacks != NULL);
		if (cases[i].lacks && (args[0] || !lacks || !strstr(lacks, cases[i].lacks)))
			fail_msg("%s: lacks %s, has %s", cases[i].options, lacks ? lacks : "nothing", args);
		if (!cases[i].lacks && (lacks || strncmp(args, "--tensor-model-parallel-size ", 29)))
			fail_msg("%s: lacks %s, has %s", cases[i].options, lacks ? lacks : "nothing", args);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_attention_that_is_counted),   cmocka_unit_test(megatron_arguments),
	    cmocka_unit_test(arguments_agree_with_the_layout), cmocka_unit_test(every_output_is_exported),
	    cmocka_unit_test(layouts_that_megatron_has_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
