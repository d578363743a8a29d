/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts on jobs without p4d options, which depend on their scripts, and scripts that complete options. */
#include "support/guarded_site.h"
#include "guard/submit.h"

#include "job/read_job.h"

#define SECTION "gpu = \"h100-80gb\"\n gpus_per_node = 8\n"
#define SCRIPTS_SITE \
	"mode = enforce\n" \
	"partition h100 { " SECTION " default = true }\n" \
	"partition judging { " SECTION " scripts = judge }\n" \
	"partition picky { " SECTION " scripts = judge\n unmodelled = reject }\n" \
	"partition strict { " SECTION " scripts = judge\n require_plan = true }\n" \
	"partition required { " SECTION " require_plan = true }\n" \
	"partition open { " SECTION " require_plan = true\n unmodelled = pass }\n" \
	"partition deaf { " SECTION " scripts = ignore }\n" \
	"partition watched { " SECTION " mode = observe }\n" \
	"partition nothing { mode = enforce }\n" \
	"gpu h100-80gb { safe = 0.8 }\n"

#define MODEL \
	"--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length " \
	"4096 " \
	"--max-position-embeddings 4096 --position-embedding-type rope --swiglu --normalization RMSNorm " \
	"--untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 32000 --bf16 " \
	"--hidden-dropout 0 "
#define BATCH "--micro-batch-size 1 --global-batch-size 64 "
#define RUN "torchrun --nproc_per_node 8 pretrain_gpt.py "

static int setup_scripts(void **state)
{
	*state = load(SCRIPTS_SITE);
	return 0;
}

/* Gives sbatch's verdict or, if `controller` is true, slurmctld's verdict on a job that came without
 * p4d.so. */
static trial *judged(const p4d_site *site, p4d_job job, const char *script, const char *flags,
		     bool controller)
{
	static char memory[1 << 20];
	static p4d_reading reading;
	static trial t;
	uint32_t batch;

	memset(&t, 0, sizeof(t));
	t.job = job;
	t.job.script = script;
	t.job.script_length = strlen(script);
	p4d_job_read(&(p4d_job_script){.job = &t.job, .name = "train.sh"},
		     &(p4d_shell_limits){memory, sizeof(memory), P4D_SHELL_WORK}, &reading);
	t.job.reading = &reading;
	set_all(&t.request, flags);
	if (controller)
		p4d_guard_verify_script(site, &t.job, NULL, NULL, NULL, &t.verdict);
	else
		p4d_guard_submit(site, &t.job, NULL, NULL, &t.request, &batch, &t.verdict);
	p4d_verdict_text(&t.verdict, t.text, sizeof(t.text));
	return &t;
}

static trial *by_script(const p4d_site *site, const char *partition, const char *script)
{
	return judged(site, ON(partition, 1), script, "", false);
}

static void says(const trial *t, const char *text)
{
	if (!strstr(t->text, text))
		fail_msg("no '%s' in: %s", text, t->text);
}

static void the_site_decides(void **state)
{
	static const char large[] = RUN MODEL BATCH "\n",
			  small[] = RUN MODEL BATCH "--tensor-model-parallel-size 8\n";

	trial *t = by_script(*state, "h100", large);
	expect(t, P4D_WARN, P4D_E_DOES_NOT_FIT);
	assert_true(t->verdict.read && t->verdict.would_reject);
	assert_string_equal(t->verdict.plan, "");
	says(t, "train.sh:1 (pretrain_gpt.py) needs");
	says(t, "the job is submitted as it is");
	t = by_script(*state, "judging", large);
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_true(t->verdict.read && t->verdict.plan[0]);
	t = by_script(*state, "watched", large);
	assert_int_equal(t->verdict.action, P4D_PASS);
	assert_true(t->verdict.would_reject);
	assert_string_equal(t->text, "");
	t = by_script(*state, "deaf", large);
	expect(t, P4D_PASS, P4D_OK);
	assert_false(t->verdict.read);
	/* a job that passes gets no message; it gets a plan only if the site treats scripts like options */
	t = by_script(*state, "h100", small);
	expect(t, P4D_PASS, P4D_OK);
	assert_string_equal(t->verdict.plan, "");
	t = by_script(*state, "judging", small);
	expect(t, P4D_PASS, P4D_OK);
	expect_verified(*state, t);
	/* if the site requires a message, it says what the job trains; the job gets no plan */
	for (int controller = 0; controller < 2; controller++) {
		expect(judged(*state, ON("strict", 1), small, "", controller), P4D_PASS, P4D_OK);
		t = judged(*state, ON("required", 1), small, "", controller);
		expect(t, P4D_PASS, P4D_OK);
		assert_true(t->verdict.judged && t->verdict.read);
		assert_string_equal(t->verdict.plan, "");
		expect(judged(*state, ON("required", 1), large, "", controller), P4D_WARN,
		       P4D_E_DOES_NOT_FIT);
		t = judged(*state, ON("required", 1), "python3 resnet.py\n", "", controller);
		expect(t, P4D_REJECT, P4D_E_PLAN_REQUIRED);
		says(t, "or --p4d-unmodelled=PROGRAM for other programs");
		t = judged(*state, ON("open", 1), "python3 resnet.py\n", "", controller);
		expect(t, P4D_REJECT, P4D_E_PLAN_REQUIRED);
		says(t, "or --p4d-unmodelled=PROGRAM for other programs");
	}
	/* only slurmctld judges the job */
	expect(judged(*state, ON("h100", 1), large, "", true), P4D_WARN, P4D_E_DOES_NOT_FIT);
	t = judged(*state, ON("judging", 1), large, "", true);
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_string_equal(t->verdict.message[0].fix, "p4d check JOB.sh");
	expect(judged(*state, ON("judging", 1), small, "", true), P4D_PASS, P4D_OK);
}

/* Programs accept these options for experts even if the model has none, and ignore them. Only several
 * ranks of experts get a warning. */
static void what_is_for_experts_is_ignored(void **state)
{
	static const char others[] =
	    RUN MODEL BATCH "--tensor-model-parallel-size 8 --expert-model-parallel-size "
			    "1 --expert-tensor-parallel-size 4 --moe-router-topk 2 "
			    "--moe-token-dispatcher-type alltoall --moe-layer-freq 2\n",
			  spread[] = RUN MODEL BATCH
			  "--tensor-model-parallel-size 8 --expert-model-parallel-size 2\n";
	static const char *const partitions[] = {"h100", "judging", "picky"};

	for (size_t i = 0; i < sizeof(partitions) / sizeof(partitions[0]); i++)
		for (int controller = 0; controller < 2; controller++)
			expect(judged(*state, ON(partitions[i], 1), others, "", controller), P4D_PASS,
			       P4D_OK);
	trial *t = by_script(*state, "h100", spread);
	expect(t, P4D_WARN, P4D_E_VALUE);
	says(t, "the model has no experts");
	assert_string_equal(t->verdict.message[0].fix, ""); /* no option of p4d fixes the script */
}

static void what_is_not_known_refuses_nobody(void **state)
{
	static const struct {
		const char *script, *says;
	} cases[] = {
	    {RUN MODEL BATCH "--tensor-model-parallel-size $(nproc)\n", "cannot tell tp (output of nproc)"},
	    {RUN MODEL BATCH "--moe-token-dispatcher-type alltoall_seq --num-experts 8 --moe-grouped-gemm\n",
	     "cannot tell moe-token-dispatcher-type (alltoall_seq is not modelled)"},
	    {RUN MODEL "\n", "cannot tell micro-batch (not given), global-batch (not given)"},
	    {"source /x/y.sh\n" RUN MODEL BATCH "$OTHERS\n",
	     "/x/y.sh cannot be read, so p4d does not know what it sets"},
	    {"if nvidia-smi; then " RUN MODEL BATCH "; fi\n", "cannot tell whether it runs"},
	    {RUN MODEL BATCH "\n" RUN MODEL BATCH "--fp16\n", "2 commands start a training"},
	    {"torchrun --nproc_per_node 4 pretrain_gpt.py " MODEL BATCH "\n",
	     "the script starts it with gpus-per-node=4, but the job has 8"},
	    {RUN "--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 "
		 "--seq-length 4096 "
		 "--vocab-size 32000 " BATCH "\n",
	     "cannot tell max-seq-len (not given)"},
	    {"srun python own.py " MODEL BATCH "--tensor-model-parallel-size 8\n",
	     "p4d does not know the program own.py; its memory was not checked"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int controller = 0; controller < 2; controller++) {
			const trial *t = judged(*state, ON("picky", 1), cases[i].script, "", controller);
			if (t->verdict.action != P4D_WARN || t->verdict.would_reject || t->verdict.plan[0])
				fail_msg("%s: action %d: %s", cases[i].script, t->verdict.action, t->text);
			says(t, cases[i].says);
		}
	/* nothing sets $OTHERS, so p4d cannot know its value; such a doubt refuses no job */
	const trial *doubted = judged(*state, ON("judging", 1), RUN MODEL BATCH "$OTHERS\n", "", false);
	assert_int_equal(doubted->verdict.action, P4D_WARN);
	says(doubted, "though $OTHERS is not set");
	/* options may give the values that the script lacks; the message suggests such an option if
	 * possible */
	const trial *t = by_script(*state, "judging", cases[0].script);
	assert_string_equal(t->verdict.message[0].fix, "--p4d-tp=N");
	t = judged(*state, ON("judging", 1), cases[0].script, "tp=8", false);
	expect(t, P4D_PASS, P4D_OK);
	assert_int_equal(t->request.origin[P4D_LAYERS], P4D_BY_SCRIPT);
	assert_int_equal(t->request.value[P4D_LAYERS], 40);
	assert_int_equal(t->request.value[P4D_PP], 1); /* the program's default is also 1 */
	expect_verified(*state, t);
	/* p4d ignores a job without GPUs, a job on unknown GPUs, and a script in another language */
	expect(judged(*state, (p4d_job){.partition = "h100"}, cases[0].script, "", false), P4D_PASS, P4D_OK);
	expect(by_script(*state, "nothing", RUN MODEL BATCH "\n"), P4D_PASS, P4D_OK);
	expect(by_script(*state, "judging", "#!/usr/bin/python3\n" RUN MODEL BATCH "\n"), P4D_PASS, P4D_OK);
}

/* p4d judges a job by the values in its script. But a file that p4d cannot read may change them, so p4d
 * does not refuse such a job. A file that only sets search paths changes nothing. */
static void unread_files_refuse_nobody(void **state)
{
	static const char *const doubtful[] = {". /nowhere/env.sh\n", "bash /nowhere/prepare.sh\n"},
				 *const clear[] = {"source /nowhere/venv/bin/activate\n",
						   ". /nowhere/conda/etc/profile.d/conda.sh\n",
						   "source /etc/profile.d/nowhere.sh\n"};
	char script[2048];

	for (int controller = 0; controller < 2; controller++) {
		for (int i = 0; i < 2; i++) {
			snprintf(script, sizeof(script), "%s%s", doubtful[i], RUN MODEL BATCH "\n");
			const trial *t = judged(*state, ON("judging", 1), script, "", controller);
			expect(t, P4D_WARN, P4D_E_DOES_NOT_FIT);
			assert_true(t->verdict.would_reject);
			says(t,
			     i ? "(pretrain_gpt.py), though /nowhere/prepare.sh cannot be read, so p4d does "
				 "not know what it starts"
			       : "(pretrain_gpt.py), though /nowhere/env.sh cannot be read, so p4d does not "
				 "know what it sets");
			says(t, "the job is submitted as it is");
		}
		for (int i = 0; i < 3; i++) {
			snprintf(script, sizeof(script), "%s%s", clear[i], RUN MODEL BATCH "\n");
			expect(judged(*state, ON("judging", 1), script, "", controller), P4D_REJECT,
			       P4D_E_DOES_NOT_FIT);
		}
	}
	/* a script with an unreadable file is no plan either */
	expect(by_script(*state, "strict",
			 ". /nowhere/env.sh\n" RUN MODEL BATCH "--tensor-model-parallel-size 8\n"),
	       P4D_REJECT, P4D_E_PLAN_REQUIRED);
}

#define SIZES \
	"--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length " \
	"4096 " \
	"--position-embedding-type rope --swiglu --normalization RMSNorm " \
	"--untie-embeddings-and-output-weights " \
	"--disable-bias-linear --bf16 --hidden-dropout 0 "

/* If only the tokenizer knows the vocabulary, p4d can judge some jobs, but not all. */
static void vocabularies_of_tokenizers(void **state)
{
	for (int controller = 0; controller < 2; controller++) {
		const trial *t = judged(*state, ON("judging", 1), RUN SIZES BATCH "\n", "", controller);
		expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
		says(t, "the job may need more: p4d does not know the size of its vocabulary; give it with "
			"--p4d-vocab=N");
		assert_string_equal(t->verdict.plan, "");
		t = judged(*state, ON("judging", 1), RUN SIZES BATCH "--tensor-model-parallel-size 8\n", "",
			   controller);
		expect(t, P4D_PASS, P4D_OK);
		assert_string_equal(t->verdict.plan, "");
		t = judged(*state, ON("judging", 1),
			   RUN SIZES BATCH "--tensor-model-parallel-size 4 --micro-batch-size 1\n", "",
			   controller);
		expect(t, P4D_WARN, P4D_E_NOT_READ);
		says(t, "vocab (it depends on the tokenizer");
	}
}

/* Pastes the first change of a fix, such as "train.sh:2: --tensor-model-parallel-size 8", into a script
 * that has one flag on each line. */
static void change(char *script, size_t size, const char *fix)
{
	char mended[4096];
	const char *what = strstr(fix, ": ");
	const unsigned long line = what ? strtoul(strchr(fix, ':') + 1, NULL, 10) : 0;
	const char *from = script;

	if (!line)
		fail_msg("fix %s", fix);
	for (unsigned long i = 1; i < line; i++)
		from = strchr(from, '\n') + 1;
	const char *to = strchr(from, '\n');
	const int length = (int)strcspn(what + 2, ";");
	if (!strncmp(what + 2, "add ", 4))
		snprintf(mended, sizeof(mended), "%.*s %.*s%s", (int)(to - script - 2), script, length - 4,
			 what + 6, to - 2);
	else if (!strncmp(what + 2, "without ", 8))
		snprintf(mended, sizeof(mended), "%.*s\\%s", (int)(from - script), script, to);
	else
		snprintf(mended, sizeof(mended), "%.*s%.*s \\%s", (int)(from - script), script, length,
			 what + 2, to);
	snprintf(script, size, "%s", mended);
}

static void a_fix_is_in_the_words_of_the_program(void **state)
{
	char script[4096];
	trial *t;

	/* each flag has a line of its own, so a change replaces the line */
	snprintf(script, sizeof(script), "%s",
		 RUN MODEL "--use-distributed-optimizer --sequence-parallel \\\n"
			   "--tensor-model-parallel-size 2 \\\n--pipeline-model-parallel-size 1 \\\n"
			   "--micro-batch-size 16 \\\n--global-batch-size 64\n");
	t = by_script(*state, "judging", script);
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_non_null(strstr(t->verdict.message[0].fix, "train.sh:"));
	assert_null(strstr(t->verdict.message[0].fix, "--p4d-"));
	for (int i = 0; i < 4 && t->verdict.action == P4D_REJECT; i++) {
		char fix[480];
		snprintf(fix, sizeof(fix), "%s", t->verdict.message[0].fix);
		for (const char *at = fix; at; at = strstr(at, "; ") ? strstr(at, "; ") + 2 : NULL)
			change(script, sizeof(script), at);
		t = by_script(*state, "judging", script);
	}
	if (t->verdict.action == P4D_REJECT)
		fail_msg("%s: %s", script, t->text);

	/* the fix has Slurm's options for more nodes; with torchrun it has none, because torchrun starts
	 * on one node only */
	snprintf(script, sizeof(script), "%s",
		 "srun python pretrain_gpt.py --num-layers 126 --hidden-size 16384 --ffn-hidden-size 53248 "
		 "--num-attention-heads 128 --seq-length 8192 --max-position-embeddings 8192 --swiglu "
		 "--vocab-size 128256 "
		 "--bf16 --tensor-model-parallel-size 8 " BATCH "\n");
	t = by_script(*state, "judging", script);
	expect(t, P4D_REJECT, P4D_E_NO_LAYOUT);
	if (strncmp(t->verdict.message[0].fix, "--nodes=", 8) != 0)
		fail_msg("%s", t->text);
	assert_non_null(strstr(t->verdict.message[0].fix, "; train.sh:1: add "));
	memcpy(script, "torchrun   ", strlen("srun python"));
	t = by_script(*state, "judging", script);
	expect(t, P4D_REJECT, P4D_E_NO_LAYOUT);
	assert_string_equal(t->verdict.message[0].fix, "");
}

static void contradictions_name_both_places(void **state)
{
	static const char script[] = "TP=4\n" RUN MODEL BATCH "--tensor-model-parallel-size $TP\n";
	trial *t = judged(*state, ON("h100", 1), script, "tp=8 micro-batch=2", false);

	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
	says(t, "--p4d-tp=8 does not reach the program: train.sh:1 has --tensor-model-parallel-size 4, which "
		"Megatron-LM uses");
	assert_string_equal(t->verdict.message[0].fix, "--p4d-tp=4 --p4d-micro-batch=1");
	/* the model may come from the options */
	t = judged(*state, ON("h100", 1), script, "model=llama3-8b tp=4", false);
	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
	says(t, "layers=32 does not reach the program: train.sh:2 has --num-layers 40");
	/* commands in a branch that is not taken do not count */
	t = judged(*state, ON("h100", 1),
		   "SIZE=13\nif [ $SIZE = 70 ]; then TP=4; " RUN
		   "--tensor-model-parallel-size 4; else\n" RUN MODEL BATCH
		   "--tensor-model-parallel-size 8\nfi\n",
		   "tp=8", false);
	expect(t, P4D_PASS, P4D_OK);
	/* the option only repeats the script's value, so the job counts as a job without options */
	assert_string_equal(t->verdict.plan, "");
	assert_true(t->verdict.read);
	/* the script starts another program than the user named */
	t = judged(*state, ON("h100", 1), script, MODEL_13B "tp=8 framework=p4d", false);
	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
	assert_string_equal(t->verdict.message[0].fix, "--p4d-framework=megatron");
}

/* p4d judges a fix by the job that would run with it. Slurm's variables follow the fix. Values that p4d's
 * flags cannot express become changes of the script. */
static void a_fix_is_one_for_what_then_runs(void **state)
{
	p4d_job job = {.partition = "judging", .min_nodes = 2, .max_nodes = 2, .gres = "gpu:1"};
	trial *t = judged(*state, job,
			  "torchrun --nnodes 2 --nproc_per_node 1 pretrain_gpt.py " MODEL BATCH
			  "--pipeline-model-parallel-size $SLURM_NNODES --context-parallel-size 2\n",
			  "", false);

	expect(t, P4D_REJECT, P4D_E_WORLD);
	if (strstr(t->text, "--nodes="))
		fail_msg("%s", t->text);
	t = judged(
	    *state, ON("judging", 3), RUN "--fp16 --recompute-granularity selective $MORE\n",
	    "model=custom layers=80 hidden=8192 ffn=28672 heads=64 vocab=32000 seq-len=4096 tp=2 pp=12 "
	    "micro-batch=1 pipeline-split=6,6,7,7,7,7,7,7,7,7,6,6",
	    false);
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	says(t, "--p4d-tp=2 --p4d-pp=12; train.sh:1: add --recompute-modules mlp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_site_decides),
	    cmocka_unit_test(what_is_for_experts_is_ignored),
	    cmocka_unit_test(what_is_not_known_refuses_nobody),
	    cmocka_unit_test(unread_files_refuse_nobody),
	    cmocka_unit_test(vocabularies_of_tokenizers),
	    cmocka_unit_test(a_fix_is_in_the_words_of_the_program),
	    cmocka_unit_test(contradictions_name_both_places),
	    cmocka_unit_test(a_fix_is_one_for_what_then_runs),
	};

	return cmocka_run_group_tests(tests, setup_scripts, teardown);
}
