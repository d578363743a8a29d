/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time that a verdict takes in slurmctld, and the stack that it needs, for jobs with any content.
 * tests/bench/worst_verdict looks for more expensive jobs. */
#include "support/support.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include "doubles/slurm/hosted.h"

/* A verdict takes less than a millisecond. The limit is twenty times as long, so that a busy machine fails
 * no test. */
#define LIMIT_MS 20

/* Slurm gives each thread of slurmctld a stack of this size. p4d may use a quarter of it. */
enum { STACK = 1 << 20, LIMIT_STACK = STACK / 4, PAINT = 0x5a };

/* Letters of a hybrid's layers, as many as a plan has room for. */
#define NINE(letters) letters letters letters letters letters letters letters letters letters
#define MANY(five) NINE(five five five)

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* The call that is repeated: a submission or, if change is not NULL, an update that changes where the job
 * may run. */
typedef struct repeated {
	job_desc_msg_t *desc, *change;
	double best; /* milliseconds of the shortest call */
} repeated;

static void *repeat(void *of)
{
	repeated *r = of;

	r->best = 1e9;
	for (int i = 0; i < 5 || (i < 50 && r->best >= LIMIT_MS); i++) {
		double start = cpu_ms();
		if (r->change)
			fakehost_modify(&hosted, r->change, r->desc, &hosted_said);
		else
			fakehost_submit(&hosted, r->desc, &hosted_said);
		double took = cpu_ms() - start;
		r->best = took < r->best ? took : r->best;
	}
	return NULL;
}

/* Repeats the call in a thread. Returns the number of stack bytes that were used, found from the lowest
 * overwritten byte. */
static size_t repeat_on_own_stack(repeated *r)
{
	unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	size_t unused = 0;

	assert_true(stack != MAP_FAILED);
	memset(stack, PAINT, STACK);
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstack(&attr, stack, STACK), 0);
	assert_int_equal(pthread_create(&thread, &attr, repeat, r), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attr);
	while (unused < STACK && stack[unused] == PAINT)
		unused++;
	munmap(stack, STACK);
	return STACK - unused;
}

/* Expects that the shortest of some calls takes less than LIMIT_MS, and needs less stack than LIMIT_STACK. */
static void expect_each_cheap(const char *what, job_desc_msg_t *desc, job_desc_msg_t *change)
{
	repeated r = {.desc = desc, .change = change};
	const size_t stack = repeat_on_own_stack(&r);

	print_message("%-40s %.3f ms, %zu KiB of stack%s: %.70s\n", what, r.best, stack >> 10,
		      change ? " to update" : "", hosted_said);
	assert_true(r.best < LIMIT_MS);
	assert_true(stack < LIMIT_STACK);
}

/* Expects that a submission is cheap; frees the job. */
static void expect_cheap(const char *what, job_desc_msg_t *desc)
{
	job_desc_msg_t *change = fakehost_desc();

	fakehost_set(&change->features, desc->features ? desc->features : "h100");
	fakehost_set(&change->req_nodes, desc->req_nodes);
	fakehost_set(&change->exc_nodes, desc->exc_nodes);
	expect_each_cheap(what, desc, NULL);
	expect_each_cheap(what, desc, change);
	fakehost_free(change);
	fakehost_free(desc);
}

static void fill(char **field, const char *piece, size_t length)
{
	char *text = malloc(length + 1);

	for (size_t i = 0; i < length; i++)
		text[i] = piece[i % strlen(piece)];
	text[length] = '\0';
	fakehost_set(field, text);
	free(text);
}

/* Writes a p4d.conf with many patterns, with each of which p4d must compare a name. */
static void write_patterns(void)
{
	static char text[16384];
	size_t used = (size_t)snprintf(text, sizeof(text),
				       "data = \"%s\"\nmode = enforce\n"
				       "partition h100 { gpu = \"h100-80gb\" gpus_per_node = 8 }\n",
				       test_datadir());

	for (int i = 0; i < 120; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "partition \"*a*a*b%d\" { mode = warn }\n", i);
	snprintf(text + used, sizeof(text) - used, "version = 1\n");
	fakehost_forget();
	site_write(text);
	assert_true(hosted_logged("reloaded"));
}

static void texts_of_any_length(void **state)
{
	static const struct {
		const char *what;
		size_t field;
		const char *piece;
	} cases[] = {
	    {"partitions", offsetof(job_desc_msg_t, partition), "zz,"},
	    {"a partition", offsetof(job_desc_msg_t, partition), "aab"},
	    {"features", offsetof(job_desc_msg_t, features), "x|"},
	    {"GPUs", offsetof(job_desc_msg_t, features), "h100&"},
	    {"nodes", offsetof(job_desc_msg_t, req_nodes), "n[0-9][0-9][0-9],"},
	    {"one list of nodes", offsetof(job_desc_msg_t, req_nodes), "n[0-9]"},
	    {"nodes left out", offsetof(job_desc_msg_t, exc_nodes), "h[0-99999],"},
	    {"GRES", offsetof(job_desc_msg_t, tres_per_node), "gpu:8,"},
	    {"account", offsetof(job_desc_msg_t, account), "a"},
	};
	static const size_t lengths[] = {500, 1024, 16384, 131071, 4 << 20};

	(void)state;
	write_patterns();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++) {
			job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
			fakehost_set(&desc->partition, "live,h100");
			fill((char **)((char *)desc + cases[i].field), cases[i].piece, lengths[j]);
			expect_cheap(cases[i].what, desc);
		}
	/* all three together: the largest number of partitions that p4d compares, each with each feature
	 * and with all nodes */
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	fill(&desc->partition, "live,h100,a1,a2,a3,", 470);
	fill(&desc->features, "x|", 16);
	fill(&desc->req_nodes, "n[1,2,3,4,5],", 16384);
	expect_cheap("partitions, features and nodes", desc);
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

static void a_thousand_stages(void **state)
{
	static const char *const plans[] = {
	    "vpp=1 schedule=1f1b vocab-parallel=vocab-2",
	    "vpp=2 schedule=v-half vocab-parallel=vocab-1",
	    "vpp=2 schedule=zbv",
	    "vpp=64 schedule=interleaved",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		char text[400];
		snprintf(
		    text, sizeof(text),
		    "model=llama13b layers=65536 hidden=64 ffn=64 heads=8 kv-heads=8 head-dim=8 tp=1 cp=1 "
		    "pp=1024 seq-len=128 global-batch=1024 micro-batch=1 recompute=none framework=p4d %s",
		    plans[i]);
		job_desc_msg_t *desc = job_planned_on("h100", 128, text);
		hosted_expect(desc, true, "");
		expect_cheap(plans[i], job_planned_on("h100", 128, text));
	}
}

/* Plans for other programs, as users could write them by hand, with sizes at the limits of what p4d
 * judges. */
static void plans_of_any_program(void **state)
{
	static const struct {
		const char *plan;
		uint32_t nodes;
	} cases[] = {
	    {"framework=megatron pp=128 vpp=256 schedule=interleaved layers=65536 experts=256 ep=8 "
	     "expert-every=2 dense-layers=60000 global-batch=65536",
	     1024},
	    {"framework=megatron pp=1024 vpp=4 schedule=interleaved layers=32768 experts=256 "
	     "experts-per-token=8 "
	     "expert-every=2 ep=8 global-batch=65536",
	     1024},
	    {"framework=megatron pp=1024 layers=65536 experts=65536 experts-per-token=65536 expert-every=3 "
	     "token-dispatcher=deepep ep=8 global-batch=65536",
	     1024},
	    {"framework=megatron pp=64 layers=256 architecture=nemotron-h state-size=128 state-heads=64 "
	     "experts=256 layer-pattern=M*M-MEM*MEM-M*E-MM*M-ME*E-MEM*M-MM-M*MME-M*M-MM*E-MEM*M-M",
	     64},
	    {"framework=megatron pp=64 layers=256 architecture=nemotron-h state-size=128 state-heads=64 "
	     "experts=65536 experts-per-token=4096 expert-every=2 ep=8 token-dispatcher=all-gather "
	     "expert-capacity=1.5 recompute=selective recompute-modules=core_attn,moe_act tied=on "
	     "eval-micro-batch=65536 global-batch=65536 "
	     "layer-pattern=" MANY("MEM*E"),
	     1024},
	    {"framework=fsdp layers=1024 experts=256 experts-per-token=8 expert-every=3 "
	     "model-code=transformers",
	     8},
	    {"framework=fsdp pp=64 tp=2 cp=8 cp-comm=all-gather schedule=gpipe global-batch=16777216 "
	     "layers=1024 experts=256 experts-per-token=8 expert-every=2 ep=8 sequence-parallel=on",
	     128},
	    {"framework=fsdp pp=64 cp=2 cp-comm=all-gather schedule=1f1b global-batch=1024 "
	     "recompute=selective "
	     "layers=1024 experts=256 experts-per-token=8 expert-every=3 dense-layers=3 ep=8 tied=off",
	     128},
	    {"framework=fsdp fsdp-version=1 layers=1024 experts=256 experts-per-token=8 "
	     "model-code=transformers",
	     8},
	    {"framework=deepspeed layers=1024 zero-stage=2 experts=256 experts-per-token=8 zero-bucket=1000",
	     8},
	    {"framework=deepspeed layers=1024 zero-stage=1 zero-bucket=1000", 1024},
	    {"framework=fsdp pp=1024 schedule=1f1b global-batch=65536 layers=1024 experts=256 "
	     "experts-per-token=8 expert-every=2",
	     128},
	    {"framework=fsdp pp=128 vpp=4 schedule=interleaved global-batch=65536 layers=1024 experts=256 "
	     "experts-per-token=8 expert-every=2",
	     128},
	    {"framework=fsdp pp=1024 schedule=gpipe global-batch=16777216 layers=1024", 128},
	    {"framework=p4d pp=1024 schedule=gpipe global-batch=16777216 layers=8192", 128},
	    {"framework=deepspeed layers=1024 zero-stage=2", 8},
	    {"framework=ddp layers=1024 finetune=lora", 8},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[800];
		snprintf(text, sizeof(text),
			 "model=llama13b hidden=64 ffn=64 heads=8 kv-heads=8 head-dim=8 seq-len=128 "
			 "micro-batch=1 %s",
			 cases[i].plan);
		expect_cheap(cases[i].plan, job_planned_on("h100", cases[i].nodes, text));
	}
}

/* An environment with variables that look like p4d's but are not. */
static job_desc_msg_t *job_with_lookalikes(int count, size_t bytes)
{
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	char name[32], *value = malloc(bytes + 1);

	memset(value, 'x', bytes);
	value[bytes] = '\0';
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s_%d", i % 3 ? "P4D_X" : "SLURM_SPANK_P4D", i);
		fakehost_env(desc, name, value);
	}
	free(value);
	return desc;
}

static void an_environment_of_a_megabyte(void **state)
{
	job_desc_msg_t *few = job_with_lookalikes(450, 2200), *two = job_planned("h100", HOSTED_GOOD);
	char *value = NULL;

	(void)state;
	fill(&value, "x", (1 << 20) - 1);
	fakehost_env(two, "P4D_ONE", value);
	fakehost_env(two, value, "");
	fakehost_set(&value, NULL);
	expect_cheap("450 variables", job_with_lookalikes(450, 2200));
	expect_cheap("60000 variables", job_with_lookalikes(60000, 1));
	expect_cheap("two variables", two);
	fakehost_env(few, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "4");
	hosted_expect(few, false, "[P4D041]");
}

/* Scripts that take long to read. The jobs have no p4d options, so slurmctld reads the scripts. */
static void scripts_of_any_kind(void **state)
{
	static const struct {
		const char *what, *head, *piece;
	} cases[] = {
	    {"one that trains", "", "torchrun pretrain_gpt.py --num-layers 4\n"},
	    {"nested quotes", "pretrain_gpt.py ", "\"$(echo \"${A:-'`"},
	    {"variables that double", "A=xxxxxxxxxxxxxxxx\npretrain_gpt.py\n", "A=$A$A;B=\"$A $A\"\n"},
	    {"loops", "pretrain_gpt.py\n",
	     "for i in {1..64}; do for j in 1 2 3 4 5 6 7 8; do A+=$i$j; done; done\n"},
	    {"braces", "pretrain_gpt.py ", "{a,b}{c,d}{e,f}{g,h}{i,j}"},
	    {"arithmetic", "pretrain_gpt.py $((", "1+(2*(3-(4"},
	    {"functions", "pretrain_gpt.py\n", "f() { f; f; }; f\n"},
	    {"substitutions", "A=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\npretrain_gpt.py ",
	     "${A//a/aa}${A%%*a*a*a*b}"},
	    {"a case of many patterns", "pretrain_gpt.py\n",
	     "case aaaaaaaaaaaaaaaaaaaa in *a*a*a*a*a*b) ;; esac\n"},
	    {"here-documents", "pretrain_gpt.py\n", "cat <<A\n$B\nA\n"},
	    {"unset variables", "pretrain_gpt.py\n", "$A$B$C$D"},
	    {"brackets", "pretrain_gpt.py ", "(((((((("},
	    {"tasks that differ",
	     "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 "
	     "--num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 "
	     "--bf16 --global-batch-size $((512 * (SLURM_ARRAY_TASK_ID + 1))) --micro-batch-size "
	     "$((SLURM_ARRAY_TASK_ID + 1))\nexit\n",
	     "#"},
	    {"tasks that take long", "B=$SLURM_ARRAY_TASK_ID\npretrain_gpt.py --tp $B\n",
	     "for i in {1..64}; do A=$A$i$B; done\n"},
	};
	static const size_t lengths[] = {4096, 65000, 1 << 20};

	(void)state;
	fakehost_forget();
	site_write(
	    "mode = enforce\nscripts = judge\npartition h100 { gpu = \"h100-80gb\" gpus_per_node = 8 }\n"
	    "version = 1\n");
	assert_true(hosted_logged("reloaded"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++) {
			job_desc_msg_t *desc = job_plain("h100");
			char *rest = NULL, *script;
			fakehost_set(&desc->tres_per_node, "gres:gpu:8");
			fill(&rest, cases[i].piece, lengths[j]);
			assert_true(asprintf(&script, "#!/bin/bash\n%s%s", cases[i].head, rest) > 0);
			fakehost_set(&desc->script, script);
			fakehost_set(&desc->array_inx, "0-63");
			free(script);
			fakehost_set(&rest, NULL);
			expect_cheap(cases[i].what, desc);
		}
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTED_TEST(texts_of_any_length),  HOSTED_TEST(a_thousand_stages),
	    HOSTED_TEST(plans_of_any_program), HOSTED_TEST(an_environment_of_a_megabyte),
	    HOSTED_TEST(scripts_of_any_kind),
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
