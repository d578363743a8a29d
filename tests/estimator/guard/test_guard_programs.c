/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that p4d models and programs that it does not model, and how the script must use the plan. */
#include "support/guarded_site.h"

static void unmodelled_architectures(void **state)
{
	static const struct {
		const char *partition;
		p4d_action action;
	} at[] = {{"h100", P4D_WARN}, {"picky", P4D_REJECT}, {"strict", P4D_REJECT}, {"relaxed", P4D_PASS}};
	static p4d_verdict again;
	static trial t;
	char plan[P4D_PLAN_MAX] = "";

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		memset(&t, 0, sizeof(t));
		t.job = ON(at[i].partition, 1);
		set_all(&t.request, "model=mixtral.json tp=8");
		snprintf(t.request.unmodelled, sizeof(t.request.unmodelled),
			 "mixture of experts (num_local_experts=8)");
		p4d_guard__complete(*state, &t.job, NULL, NULL, 0, true, &t.request, &t.verdict);
		expect(&t, at[i].action, P4D_E_UNMODELLED);
		if (!plan[0])
			memcpy(plan, t.verdict.plan, sizeof(plan));
		assert_non_null(strstr(plan, "unmodelled=mixture"));
		/* slurmctld's verdict is the same, and its message also says that p4d did not check the
		 * memory */
		p4d_guard_verify(*state, &t.job, NULL, NULL, plan, NULL, &again);
		assert_int_equal(again.action, at[i].action);
		assert_int_equal(again.message[0].code, P4D_E_UNMODELLED);
	}
}

static void tasks_of_p4d_train(void **state)
{
	p4d_job job = ON("h100", 2);

	job.script = "#!/bin/bash\nsrun p4d-train\n";
	trial *t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_REJECT, P4D_E_TASKS);
	assert_string_equal(t->verdict.message[0].fix, "--nodes=2 --ntasks-per-node=8");
	job.tasks_per_node = 8;
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_PASS, P4D_E_CHOSE);
	job.tasks_per_node = 0;
	/* the fix has more tasks, but not more GPUs */
	p4d_job by_task = {.partition = "h100", .tasks = 4, .gpus_per_task = "h100:2", .script = job.script};
	t = submit(*state, by_task, MODEL_13B "tp=8");
	expect(t, P4D_REJECT, P4D_E_TASKS);
	assert_string_equal(t->verdict.message[0].fix,
			    "--nodes=1 --ntasks=8 --ntasks-per-node=8 --gpus-per-task=h100:1");
	job.script = "#!/bin/bash\nsrun --ntasks-per-node=8 p4d-train\n";
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_PASS, P4D_E_CHOSE);
}

static void megatron_scripts(void **state)
{
	p4d_job job = ON("h100", 1);

	job.script = "#!/bin/bash\nsrun python pretrain_gpt.py $P4D_MEGATRON_ARGS\n";
	trial *t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_int_equal(t->request.value[P4D_FRAMEWORK], P4D_FRAMEWORK_MEGATRON);
	expect_verified(*state, t);
	job.script = "#!/bin/bash\nsrun python pretrain_gpt.py --tensor-model-parallel-size 8\n";
	t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_REJECT, P4D_E_NO_EFFECT);
	job.script = "#!/bin/bash\nsrun ./start_megatron.sh\n"; /* a script that p4d does not know may pass
								 * the arguments on */
	expect(submit(*state, job, MODEL_13B "tp=8 framework=megatron"), P4D_PASS, P4D_E_CHOSE);
	job.script =
	    "#!/bin/bash\nsrun python pretrain_gpt.py --tensor-model-parallel-size 4 --micro-batch-size 1\n";
	t = submit(*state, job, MODEL_13B "tp=8 micro-batch=1 pp=1 recompute=none");
	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
	assert_non_null(strstr(t->text, "the script has --tensor-model-parallel-size 4, but the plan has 8"));
	job.script =
	    "#!/bin/bash\nsrun python pretrain_gpt.py --tensor-model-parallel-size 8 --micro-batch-size 1\n";
	expect(submit(*state, job, MODEL_13B "tp=8 cp=1 vpp=1 micro-batch=1 pp=1 recompute=none"), P4D_PASS,
	       P4D_OK);
	job.script = "#!/bin/bash\nsrun python pretrain_gpt.py --eval-micro-batch-size 64\n";
	t = submit(*state, job, MODEL_13B "tp=8 cp=1 vpp=1 micro-batch=1 pp=1 recompute=none");
	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
}

/* p4d exports no arguments for a layout that Megatron-LM does not have. p4d therefore refuses a script
 * that passes them. */
static void megatron_has_no_such_layout(void **state)
{
	static const char grid[] =
	    MODEL_13B "framework=p4d tp=4 tp-grid=2,1,2 cp=1 pp=1 vpp=1 micro-batch=2 recompute=full";
	static const char line[] =
	    MODEL_13B "framework=p4d tp=4 cp=1 pp=1 vpp=1 micro-batch=2 recompute=full";
	static const char passes[] = "#!/bin/bash\nsrun python pretrain_gpt.py $P4D_MEGATRON_ARGS\n";
	static p4d_verdict again;
	p4d_job job = ON("h100", 1);

	job.script = passes;
	trial *t = submit(*state, job, grid);
	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
	assert_non_null(strstr(
	    t->text, "the script uses $P4D_MEGATRON_ARGS, but p4d did not set this variable: the layout "
		     "is for p4d-train, and Megatron-LM has no tp-grid"));
	assert_string_equal(t->verdict.message[0].fix,
			    "in the script, start p4d-train, which reads the plan");
	/* the script starts p4d-train, as the fix says */
	job.script = "#!/bin/bash\necho $P4D_MEGATRON_ARGS\nsrun -n 8 p4d-train\n";
	expect(submit(*state, job, grid), P4D_PASS, P4D_OK);
	job.script = passes;
	expect(submit(*state, job, line), P4D_PASS, P4D_OK);
	/* slurmctld gives the same verdict if only it sees the script */
	job.script = NULL;
	t = submit(*state, job, grid);
	expect(t, P4D_PASS, P4D_OK);
	t->job.script = passes;
	t->job.script_length = strlen(passes);
	p4d_guard_verify(*state, &t->job, NULL, NULL, t->verdict.plan, NULL, &again);
	assert_int_equal(again.action, P4D_REJECT);
	assert_int_equal(again.message[0].code, P4D_E_CONTRADICTION);
}

/* p4d never judges another program by the memory that p4d-train needs. */
static void programs_without_a_formula(void **state)
{
	static p4d_verdict again;
	p4d_job job = ON("h100", 1);

	job.script = "#!/bin/bash\nsrun deepspeed pretrain.py --tp $P4D_TP\n";
	trial *t = submit(*state, job, MODEL_13B "tp=1 micro-batch=64");
	expect(t, P4D_WARN, P4D_E_UNMODELLED);
	assert_false(t->verdict.judged);
	assert_non_null(
	    strstr(t->text, "p4d does not model the job's program, so the job was not checked: DeepSpeed"));
	assert_non_null(strstr(
	    t->text, "(to name another program, use --p4d-framework=p4d|megatron|fsdp|deepspeed|ddp)"));
	p4d_guard_verify(*state, &t->job, NULL, NULL, t->verdict.plan, NULL, &again);
	assert_int_equal(again.action, P4D_WARN);
	job.partition = "picky";
	t = submit(*state, job, MODEL_13B);
	expect(t, P4D_REJECT, P4D_E_UNMODELLED);
	assert_string_equal(t->verdict.message[0].fix,
			    "--p4d-framework=NAME (p4d|megatron|fsdp|deepspeed|ddp)");
	t = submit(*state, job, MODEL_13B "unmodelled=peft");
	expect(t, P4D_REJECT, P4D_E_UNMODELLED);
	assert_string_equal(
	    t->verdict.message[0].fix,
	    "--p4d-framework=NAME (p4d|megatron|fsdp|deepspeed|ddp) instead of --p4d-unmodelled");
	expect(submit(*state, job, MODEL_13B "framework=p4d"), P4D_PASS, P4D_E_CHOSE);

	job = ON("h100", 1);
	job.script = "#!/bin/bash\nsrun python train.py\n";
	expect(submit(*state, job, MODEL_13B "tp=1 micro-batch=64"), P4D_WARN, P4D_E_UNMODELLED);
	expect(submit(*state, job, MODEL_13B "tp=1 micro-batch=64 framework=megatron"), P4D_REJECT,
	       P4D_E_DOES_NOT_FIT);
	job.script = "#!/bin/bash\nsrun p4d-train -n 8\npython evaluate.py\n";
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_PASS, P4D_E_CHOSE);
	job.script = "#!/bin/bash\nsrun ./start.sh\n";
	t = submit(*state, job, MODEL_13B "tp=8 micro-batch=1 pp=1 unmodelled=peft");
	expect(t, P4D_WARN, P4D_E_UNMODELLED);
	assert_non_null(strstr(t->text, "not checked: peft"));
}

/* For serving, p4d reports what the engine would log at its start. It refuses a job only if the site
 * refuses unmodelled jobs. */
static void serving(void **state)
{
	p4d_job job = ON("h100", 1);
	job.script = "#!/bin/bash\nvllm serve meta-llama/Meta-Llama-3-70B --tensor-parallel-size 8\n";

	trial *t = submit(*state, job, MODEL_70B "workload=serve tp=8");
	expect(t, P4D_PASS, P4D_OK);
	expect_verified(*state, t);
	t = submit(*state, job, MODEL_70B "workload=serve tp=1");
	expect(t, P4D_WARN, P4D_E_UNVALIDATED);
	assert_non_null(strstr(t->text, "nothing is left for the KV cache"));
	assert_string_equal(t->verdict.message[0].fix, "--p4d-tp=2");
	expect_verified(*state, t);
	job.partition = "picky";
	expect(submit(*state, job, MODEL_70B "workload=serve tp=1"), P4D_REJECT, P4D_E_DOES_NOT_FIT);
	expect(submit(*state, job, MODEL_70B "workload=serve tp=4"), P4D_PASS, P4D_OK);
	/* if weights are on the host, the fix sets --mem in the form of the job's own option, unless no
	 * node has that much memory */
	job.partition = "h100";
	job.mem_per_gpu_bytes = (uint64_t)1 << 30;
	t = submit(*state, job, MODEL_70B "workload=serve tp=8 offload=weights");
	expect(t, P4D_WARN, P4D_E_UNVALIDATED);
	assert_memory_equal(t->verdict.message[0].fix, "--mem-per-gpu=", strlen("--mem-per-gpu="));
	p4d_site *little =
	    load("mode = enforce\npartition h100 { gpu = \"h100-80gb\"\n mem_per_node_gib = 16 }\n");
	for (int said = 0; said < 2; said++) {
		job = ON("h100", 1);
		job.mem_per_node_bytes = said ? (uint64_t)1 << 30 : 0;
		t = submit(little, job, MODEL_70B "workload=serve tp=8 offload=weights");
		expect(t, P4D_WARN, P4D_E_UNVALIDATED);
		assert_non_null(strstr(t->text, "weights on the host take"));
		assert_string_equal(t->verdict.message[0].fix, "");
		assert_false(t->verdict.starts);
	}
	p4d_site_free(little);
	assert_true(submit(*state, ON("h100", 1), MODEL_70B "workload=serve tp=8")->verdict.starts);
	/* p4d warns about an option of engines in a training */
	t = submit(*state, ON("h100", 4), MODEL_70B "framework=megatron gpu-memory-utilization=0.9");
	assert_int_equal(t->verdict.action, P4D_WARN);
	assert_non_null(strstr(t->text, "--p4d-gpu-memory-utilization has no effect on training"));
}

/* Several models of reinforcement learning on the same GPUs. p4d only warns, on all partitions. */
static void reinforcement(void **state)
{
	p4d_job job = ON("h100", 1);
	job.script = "#!/bin/bash\npython -m verl.trainer.main_ppo\n";

#define ACTOR MODEL_70B "workload=rl framework=fsdp model-code=transformers recompute=full "
	trial *t = submit(*state, job, ACTOR "swap=optimizer,params engine-tp=8");
	expect(t, P4D_WARN, P4D_E_UNVALIDATED);
	assert_non_null(strstr(t->text, "while it trains: actor"));
	assert_false(t->verdict.would_reject);
	expect_verified(*state, t);
	job.partition = "picky";
	expect(submit(*state, job, ACTOR "engine-tp=8"), P4D_WARN, P4D_E_UNVALIDATED);
	/* adapters on a model that the engine shards */
	t = submit(*state, ON("h100", 1), ACTOR "finetune=lora engine-tp=8 gpu-memory-utilization=0.5");
	expect(t, P4D_PASS, P4D_OK);
	/* no layout is possible */
	t = submit(*state, job, ACTOR "tp=3");
	expect(t, P4D_WARN, P4D_E_UNVALIDATED);
	t = submit(*state, ON("h100", 4), MODEL_70B "framework=megatron critic=on");
	assert_non_null(
	    strstr(t->text, "--p4d-critic has no effect on training, only with --p4d-workload=rl"));
}

/* p4d warns about families that it compared with nothing. It refuses them only if the site refuses
 * unmodelled jobs. */
static void unvalidated_families(void **state)
{
	const char *flags = "model=t5 architecture=t5 layers=24 hidden=1024 ffn=65536 heads=128 kv-heads=128 "
			    "head-dim=128 vocab=32128 norm=rmsnorm activation=relu glu=off tied=on "
			    "positions=relative bias=none qk-norm=off micro-batch=512";
	p4d_job job = ON("h100", 1);

	trial *t = submit(*state, job, flags);
	expect(t, P4D_WARN, P4D_E_UNMODELLED);
	assert_non_null(strstr(t->text, "formulas for t5 are unvalidated"));
	expect_verified(*state, t);
	job.partition = "picky";
	expect(submit(*state, job, flags), P4D_REJECT, P4D_E_UNMODELLED);
}

/* The site and p4d do not know this GPU. p4d refuses the job only if the site refuses unmodelled jobs. */
static void unknown_gpus(void **state)
{
	p4d_site *lax = load("mode = enforce\n"), *site = load("mode = enforce\nunmodelled = reject\n");
	p4d_request options = {.model = ""};
	p4d_job job = ON("new", 1);
	p4d_verdict v;

	(void)state;
	job.gres = "gpu:mystery:8";
	expect(submit(lax, job, MODEL_13B), P4D_WARN, P4D_E_UNKNOWN_GPU);
	trial *t = submit(site, job, MODEL_13B);
	expect(t, P4D_REJECT, P4D_E_UNKNOWN_GPU);
	assert_false(t->verdict.fault_of_site);
	/* slurmctld judges a job with options but without a plan */
	set_all(&options, MODEL_13B);
	p4d_guard_verify(site, &job, NULL, NULL, NULL, &options, &v);
	assert_int_equal(v.action, P4D_REJECT);
	p4d_guard_verify(lax, &job, NULL, NULL, NULL, &options, &v);
	assert_int_equal(v.action, P4D_WARN);
	p4d_site_free(lax);
	p4d_site_free(site);
}

/*
 * A framework section applies in sbatch and in slurmctld, if it matches the job. Its margins are never below
 * p4d's own.
 */
static void what_the_site_measured(void **state)
{
	static const struct {
		const char *section;
		p4d_action action;
	} of[] = {
	    {"", P4D_PASS},
	    {"framework megatron { reserve_gib = 60 }", P4D_REJECT},
	    {"framework \"megatron/*/bf16/h100-80gb\" { reserve_gib = 60 }", P4D_REJECT},
	    {"framework megatron { fragmentation = 1.0 }", P4D_REJECT},
	    {"framework megatron { fragmentation = 0.001 reserve_gib = 0.01 }", P4D_PASS},
	    {"framework \"megatron/*/*/a100-80gb\" { reserve_gib = 60 }", P4D_PASS},
	    {"framework \"megatron/*/fp8\" { reserve_gib = 60 }", P4D_PASS},
	    {"framework fsdp { reserve_gib = 60 }", P4D_PASS},
	    /* of two matching sections, the more specific one applies */
	    {"framework megatron { reserve_gib = 60 } framework \"megatron/*/bf16\" { reserve_gib = 1 }",
	     P4D_PASS}};
	static const char layout[] =
	    MODEL_13B "framework=megatron tp=8 cp=1 vpp=1 micro-batch=1 pp=1 recompute=none";
	static char plan[P4D_PLAN_MAX], text[512];
	static p4d_verdict again;
	double usual = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		snprintf(text, sizeof(text),
			 "mode = enforce\nrewrite = off\nsafe = 0.5\nlimit = 0.5\npartition h100 { gpu = "
			 "\"h100-80gb\" gpus_per_node "
			 "= 8 }\n%s\n",
			 of[i].section);
		p4d_site *site = load(text);
		trial *t = submit(site, ON("h100", 1), layout);
		assert_int_equal(t->verdict.action, of[i].action);
		if (!i) {
			memcpy(plan, t->verdict.plan, sizeof(plan));
			usual = t->verdict.estimate.fraction;
		}
		p4d_guard_verify(site, &t->job, NULL, NULL, plan, NULL, &again);
		assert_int_equal(again.action, of[i].action);
		if (i == 4 || i == 5)
			assert_true(again.estimate.fraction == usual);
		p4d_site_free(site);
	}
}

/* A gpu section's policy for unmodelled programs applies to all jobs on this GPU. */
static void sections_of_gpus_are_for_what_is_not_modelled(void **state)
{
	static p4d_verdict again;
	p4d_site *lax = load("mode = enforce\npartition h100 { gpu = \"h100-80gb\" }\n");
	p4d_site *site = load("mode = enforce\npartition h100 { gpu = \"h100-80gb\" }\n"
			      "gpu \"h100-80gb\" { unmodelled = reject }\n");
	p4d_job job = ON("h100", 1), scripted = job;
	const char *flags = MODEL_13B "unmodelled=peft";

	(void)state;
	scripted.script = "#!/bin/bash\nsrun deepspeed train.py\n";
	expect(submit(site, scripted, MODEL_13B), P4D_REJECT, P4D_E_UNMODELLED);
	expect(submit(site, job, flags), P4D_REJECT, P4D_E_UNMODELLED);
	trial *t = submit(lax, job, flags);
	expect(t, P4D_WARN, P4D_E_UNMODELLED);
	p4d_guard_verify(site, &job, NULL, NULL, t->verdict.plan, NULL, &again);
	assert_int_equal(again.action, P4D_REJECT);
	assert_int_equal(again.message[0].code, P4D_E_UNMODELLED);
	/* the section also applies if the job leaves the number of nodes open */
	job.max_nodes = 4;
	expect(submit(site, job, flags), P4D_REJECT, P4D_E_UNMODELLED);
	expect(submit(lax, job, flags), P4D_WARN, P4D_E_UNMODELLED);
	job.max_nodes = 1;
	/* without GPUs, the job gets only the warning */
	job.gres = NULL;
	expect(submit(site, job, flags), P4D_WARN, P4D_E_UNMODELLED);
	p4d_site_free(lax);
	p4d_site_free(site);
}

/* If nobody names the framework, the message says which one p4d assumes, whether or not the job passes. */
static void framework_is_assumed(void **state)
{
	p4d_job job = ON("h100", 1);

	job.script = "#!/bin/bash\nsrun python train.py --tp $P4D_TP\n";
	trial *t = submit(*state, job, MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_non_null(strstr(t->text, "chose framework=p4d "));
	t = submit(*state, job, MODEL_13B "tp=1 pp=1 micro-batch=64 recompute=none");
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_int_equal(t->verdict.message[1].code, P4D_E_ASSUMED);
	assert_non_null(strstr(t->text, "assumed p4d-train"));
	t = submit(*state, job, MODEL_13B "tp=1 pp=1 micro-batch=64 recompute=none framework=p4d");
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_int_equal(t->verdict.messages, 1);
}

/* slurmctld may have another script than sbatch read. */
static void slurmctld_reads_the_script(void **state)
{
	static const struct {
		const char *script, *flags;
		p4d_action action;
		p4d_code code;
	} cases[] = {
	    {"srun python pretrain_gpt.py $P4D_MEGATRON_ARGS", "", P4D_REJECT, P4D_E_CONTRADICTION},
	    {"srun python pretrain_gpt.py $P4D_MEGATRON_ARGS", "framework=megatron", P4D_PASS, P4D_OK},
	    {"srun p4d-train -n 8", "", P4D_PASS, P4D_OK},
	    {"srun p4d-train -n 8", "framework=megatron", P4D_PASS,
	     P4D_OK}, /* the user names the framework */
	    {"srun deepspeed train.py", "", P4D_WARN, P4D_E_UNMODELLED},
	    {"srun ./start.sh", "", P4D_PASS, P4D_OK},
	};
	static p4d_verdict again;
	char flags[300];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(flags, sizeof(flags),
			 MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none %s", cases[i].flags);
		trial *t = submit(*state, ON("h100", 1), flags);
		assert_int_equal(t->verdict.action, P4D_PASS);
		t->job.script = cases[i].script;
		t->job.script_length = strlen(cases[i].script);
		p4d_guard_verify(*state, &t->job, NULL, NULL, t->verdict.plan, NULL, &again);
		assert_int_equal(again.action, cases[i].action);
		assert_int_equal(again.messages ? again.message[0].code : P4D_OK, cases[i].code);
		if (cases[i].code == P4D_E_CONTRADICTION)
			assert_string_equal(again.message[0].fix, "--p4d-framework=megatron");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unmodelled_architectures),
	    cmocka_unit_test(unknown_gpus),
	    cmocka_unit_test(serving),
	    cmocka_unit_test(reinforcement),
	    cmocka_unit_test(unvalidated_families),
	    cmocka_unit_test(tasks_of_p4d_train),
	    cmocka_unit_test(megatron_scripts),
	    cmocka_unit_test(megatron_has_no_such_layout),
	    cmocka_unit_test(programs_without_a_formula),
	    cmocka_unit_test(what_the_site_measured),
	    cmocka_unit_test(sections_of_gpus_are_for_what_is_not_modelled),
	    cmocka_unit_test(framework_is_assumed),
	    cmocka_unit_test(slurmctld_reads_the_script),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
