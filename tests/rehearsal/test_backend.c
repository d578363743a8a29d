/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs p4d-train --device cuda from its start to its checkpoint on the stand-ins of the rehearsal: the
 * real program and the backend's real objects, without GPUs. Nothing is computed, so losses have no
 * meaning. But the test checks real memory that is allocated and freed, real operations that a step
 * queues, and the real order of calls of CUDA, cuBLASLt, cuDNN and NCCL.
 *
 * Each layout runs on three GPUs: on one of them with cuDNN, which takes a second to compile, and on the
 * others with p4d's own attention. With P4D_TEST_ALL, it runs on all three with cuDNN. P4D_TEST_RUN=NAME
 * runs only layouts whose names begin with NAME.
 */
#include "support/support.h"

#include <dlfcn.h>
#include <limits.h>

#include "gpu/gpu.h"
#include "plan/stage_memory.h"
#include "rehearsal/watched.h"
#include "support/launched.h"
#include "support/token_files.h"

#if !defined(P4D_TEST_STANDINS) || defined(__SANITIZE_ADDRESS__)
/* automake's exit status for a test that did not run */
enum { SKIPPED = 77 };

int main(void)
{
#ifdef P4D_TEST_STANDINS
	puts("skipped: libraries cannot be preloaded to a program with the address sanitizer");
#else
	puts("skipped: p4d-train was built without CUDA (configure finds none, or --without-cuda)");
#endif
	return SKIPPED;
}
#else

enum { STEPS = 4, MOST_RANKS = 4, PATIENCE_SECONDS = 300, GRANULE = 2 << 20, OUT = 1 << 16 };

#define SMALL \
	"--model custom --layers 4 --hidden 256 --ffn 512 --heads 4 --kv-heads 2 --head-dim 64 --vocab 257 " \
	"--norm rmsnorm --glu on --positions rope --bias none --qk-norm off --lr 1e-3 "
#define TOKENS "--seq-len 256 --max-seq-len 256 --global-batch 8 --micro-batch 1 "
#define SHORT SMALL "--tied off " TOKENS
/* sizes that are multiples of 16, but not of 128 */
#define ODD \
	"--model custom --layers 3 --hidden 144 --ffn 208 --heads 2 --kv-heads 2 --head-dim 72 --vocab 257 " \
	"--norm rmsnorm --glu on --positions rope --bias none --qk-norm off --tied off --lr 1e-3 " TOKENS
/* models of other families, with windows of 100 tokens */
#define FAMILY \
	"--model custom --layers 7 --hidden 256 --ffn 512 --heads 4 --kv-heads 4 --head-dim 64 --vocab 257 " \
	"--tied on --lr 1e-3 "
#define GEMMA \
	"--norm rmsnorm --glu on --positions rope --bias none --activation geglu --sliding-window " \
	"100 " TOKENS
#define GPT2 \
	"--architecture gpt2 --norm layernorm --glu off --positions learned --bias all --qk-norm off " \
	"--activation gelu " TOKENS
#define GRID SMALL "--tied off --seq-len 256 --max-seq-len 256 --global-batch 8 --micro-batch 2 "
/* Long sequences: attention takes long enough to copy a layer's activations to the host during it. */
#define LONG SMALL "--tied off --seq-len 32768 --max-seq-len 32768 --global-batch 4 --micro-batch 1 "
#define FROM_BASE "--init-from base --seq-len 256 --global-batch 8 --micro-batch 1 --lr 1e-3 "
#define TUNED FROM_BASE "--lora-rank 8 "
#define PAIRS FROM_BASE "--workload preference "

static const struct gpu {
	const char *name;
	int sm;
} gpus[] = {{"h100-80gb", 90}, {"a100-80gb", 80}, {"b200", 100}};
enum { GPUS = sizeof(gpus) / sizeof(*gpus) };

/* Number of calls of NCCL in a step of rank 0. */
typedef struct calls {
	unsigned reduce, scatter, gather, rooted, send, receive;
} calls;

typedef struct run {
	const char *name;
	uint32_t ranks;
	const char *words;
	unsigned communicators; /* number of rank 0's communicators */
	calls step;
	unsigned left; /* the most multiprocessors that matmuls leave to communication */
	unsigned with;
} run;
enum {
	OWN_ATTENTION = 1, /* cuDNN does not support this attention on any GPU */
	OFFLOADS = 2,      /* offloads, on GPUs that are slow enough */
	ON_90 = 4,         /* runs only on a GPU of sm 90 */
	ON_100 = 8,
	OWN_ON_80 = 16 /* p4d's own attention on sm 80; cuDNN supports it on other GPUs */
};

/*
 * Numbers of calls with 8 micro-batches, 4 layers and 9 norms:
 * dp: a reduce-scatter and an all-gather per segment.
 * tp: per micro-batch, a layer has 4 reductions of rows and 6 gathers, because the backward pass gathers
 * inputs again. Embedding and head add 2 of each, and the softmax adds 3 small sums. A step has one sum
 * for each norm.
 * pp: per micro-batch, rank 0 sends one message and receives one; with two chunks, it sends and receives
 * 3.
 * cp: per micro-batch and layer, a message of keys in the forward pass, and in the backward pass a message
 * of keys and two of their gradients.
 * Muon: gathers the directions of each layer. With tp it sums a norm and five Gram matrices for each of a
 * layer's seven matrices.
 * Matmuls leave 8 multiprocessors to dp's sums, 16 to tp's sums, and 4 to each waiting receive, of which
 * the first stage has one.
 */
static const run runs[] = {
    {"one rank", 1, SHORT, 0, {0}, 0, 0},
    {"LoRA", 1, TUNED "--finetune lora", 0, {0}, 0, 0},
    {"LoRA, dropout", 1, TUNED "--finetune lora --lora-dropout 0.1", 0, {0}, 0, 0},
    {"QLoRA", 1, TUNED "--finetune qlora", 0, {0}, 0, 0},
    {"QLoRA, tp 2", 2, TUNED "--finetune qlora --tp 2", 1, {52, 144, 200, 0, 0, 0}, 0, 0},
    /* the reference is computed before the first step */
    {"DPO", 1, PAIRS, 0, {0}, 0, OWN_ON_80},
    {"DPO, LoRA, tp 2",
     2,
     PAIRS "--finetune lora --lora-rank 8 --tp 2",
     1,
     {52, 144, 200, 0, 0, 0},
     0,
     OWN_ON_80},
    {"DPO, pp 2", 2, PAIRS "--pp 2", 2, {0, 0, 0, 0, 8, 8}, 4, OWN_ON_80},
    {"FP8 by blocks", 1, SHORT "--precision fp8", 0, {0}, 0, ON_90},
    {"FP8 by blocks, kept", 1, SHORT "--precision fp8 --recompute keep", 0, {0}, 0, ON_90},
    {"MXFP8", 1, SHORT "--precision fp8 --fp8-recipe mxfp8", 0, {0}, 0, ON_100},
    {"packed documents", 1, SHORT "--document-mask on", 0, {0}, 0, OWN_ON_80},
    /* 8 documents in a sequence, in two calls of 4 */
    {"packed documents, many", 1, SHORT "--sequences packed --document-len 128", 0, {0}, 0, OWN_ON_80},
    {"packed documents, tp 2",
     2,
     SHORT "--document-mask on --tp 2",
     1,
     {33, 144, 208, 0, 0, 0},
     0,
     OWN_ON_80},
    {"packed documents, cp 2",
     2,
     SHORT "--document-mask on --cp 2",
     5,
     {0, 4, 4, 0, 128, 128},
     8,
     OWN_ATTENTION},
    {"fp32", 1, SHORT "--precision fp32", 0, {0}, 0, OWN_ATTENTION},
    {"activations on the host", 1, LONG "--offload activations", 0, {0}, 0, OFFLOADS},
    {"parameters on the host", 1, SHORT "--offload optimizer,params", 0, {0}, 0, OFFLOADS},
    {"Gemma 2", 1, FAMILY GEMMA "--architecture gemma2 --qk-norm off", 0, {0}, 0, OWN_ATTENTION},
    {"Gemma 3", 1, FAMILY GEMMA "--architecture gemma3 --qk-norm on", 0, {0}, 0, 0},
    {"GPT-2", 1, FAMILY GPT2, 0, {0}, 0, 0},
    {"GPT-2, fp32", 1, FAMILY GPT2 "--precision fp32", 0, {0}, 0, OWN_ATTENTION},
    {"Phi-3, windows", 1, SHORT "--architecture phi3 --sliding-window 100", 0, {0}, 0, 0},
    {"odd sizes", 1, ODD, 0, {0}, 0, 0},
    {"dp 2", 2, SHORT, 1, {0, 4, 4, 0, 0, 0}, 8, 0},
    {"dp 2, sharded parameters", 2, SHORT "--optimizer-sharding parameters", 1, {0, 24, 26, 0, 0, 0}, 8, 0},
    {"dp 2, not sharded", 2, SHORT "--optimizer-sharding off", 1, {4, 0, 0, 0, 0, 0}, 8, 0},
    {"tp 2", 2, SHORT "--tp 2 --sequence-parallel on", 1, {33, 144, 208, 0, 0, 0}, 0, 0},
    {"tp 2, overlapped", 2, SHORT "--tp 2 --tp-comm-overlap on", 1, {33, 288, 416, 0, 0, 0}, 16, 0},
    {"tp 2, whole rows", 2, SHORT "--tp 2 --sequence-parallel off", 1, {168, 0, 0, 0, 0, 0}, 0, 0},
    {"pp 2, interleaved", 2, SHORT "--pp 2 --vpp 2 --schedule interleaved", 4, {0, 0, 0, 0, 24, 24}, 8, 0},
    {"pp 2, zero bubble", 2, SHORT "--pp 2 --schedule zb1p", 2, {0, 0, 0, 0, 8, 8}, 4, 0},
    {"pp 2, vocabulary", 2, SHORT "--pp 2 --vocab-parallel vocab-1", 4, {24, 0, 0, 32, 8, 8}, 4, 0},
    {"pp 2, vocabulary, fused", 2, SHORT "--pp 2 --vocab-parallel vocab-2", 4, {24, 0, 0, 32, 8, 8}, 4, 0},
    {"pp 2, tied embedding", 2, SMALL TOKENS "--tied on --pp 2", 3, {1, 0, 0, 0, 8, 8}, 4, 0},
    {"cp 2", 2, SHORT "--cp 2", 5, {0, 4, 4, 0, 128, 128}, 8, 0},
    {"cp 2, all-gather", 2, SHORT "--cp 2 --cp-comm all-gather", 3, {0, 68, 132, 0, 0, 0}, 8, 0},
    {"slices", 2, SHORT "--pp 2 --token-slices 2", 2, {0, 0, 0, 0, 16, 16}, 4, 0},
    /* cuDNN compiles 4 graphs for each slice: two passes, with and without a window */
    {"slices, many, windows",
     2,
     FAMILY GEMMA "--architecture gemma3 --qk-norm on --pp 2 --pipeline-split 1,6 --token-slices 17",
     3,
     {1, 0, 0, 0, 136, 136},
     4,
     0},
    {"8-bit AdamW", 1, SHORT "--optimizer adamw-8bit", 0, {0}, 0, 0},
    {"8-bit AdamW, dp 2", 2, SHORT "--optimizer adamw-8bit", 1, {1, 4, 4, 0, 0, 0}, 8, 0},
    {"bf16 moments", 1, SHORT "--optimizer-dtype bf16", 0, {0}, 0, 0},
    {"Muon", 1, SHORT "--optimizer muon", 0, {0}, 0, 0},
    {"Muon, fp32", 1, SHORT "--optimizer muon --precision fp32", 0, {0}, 0, OWN_ATTENTION},
    {"Muon, odd sizes", 1, ODD "--optimizer muon", 0, {0}, 0, 0},
    {"Muon, dp 2", 2, SHORT "--optimizer muon", 1, {0, 4, 8, 0, 0, 0}, 8, 0},
    {"Muon, sharded parameters",
     2,
     SHORT "--optimizer muon --optimizer-sharding parameters",
     1,
     {0, 24, 30, 0, 0, 0},
     8,
     0},
    {"Muon, tp 2", 2, SHORT "--optimizer muon --tp 2", 1, {201, 144, 208, 0, 0, 0}, 0, 0},
    {"tp 2, pp 2", 4, SHORT "--tp 2 --pp 2", 3, {4, 72, 104, 0, 8, 8}, 4, 0},
    {"tp-grid", 4, GRID "--tp 4 --tp-grid 1,2,2", 2, {183, 64, 72, 0, 0, 0}, 8, 0},
};
enum { RUNS = sizeof(runs) / sizeof(*runs) };

/* Whether cuDNN is compiled in and found at run time. */
static bool has_cudnn(void)
{
#ifdef P4D_TEST_FUSED
	return dlopen("libcudnn.so.9", RTLD_LAZY);
#else
	return false;
#endif
}

static const char *build(void)
{
	const char *directory = getenv("P4D_TEST_BUILDDIR");

	return directory ? directory : ".";
}

/* The text of a file in the test's directory. */
static const char *content(const char *name)
{
	static char text[OUT];
	FILE *file = fopen(in_directory(name), "re");

	text[file ? fread(text, 1, sizeof(text) - 1, file) : 0] = '\0';
	if (file)
		fclose(file);
	return text;
}

static void shell(const char *format, ...)
{
	char command[4096], line[4200];
	va_list list;

	va_start(list, format);
	vsnprintf(command, sizeof(command), format, list);
	va_end(list);
	snprintf(line, sizeof(line), "cd %s && %s", test_directory, command);
	if (system(line) != 0)
		fail_msg("%s", line);
}

/* Makes the libraries under the names by which p4d-train opens them. */
static void make_libraries(void)
{
	static const char *const names[] = {"libcuda.so.1", "libnvidia-ml.so.1", "libp4d-rehearsal.so"};

	shell("mkdir lib");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		shell("ln -s '%s/.libs/libp4d-rehearsal.so' lib/%s", build(), names[i]);
	shell("ln -s '%s/tests/doubles/standins/.libs/libnccl.so' lib/libnccl.so.2", build());
}

static void put_environment(const struct gpu *on, const p4d_gpu *gpu, bool fused)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {{"P4D_REHEARSAL_BYTES", gpu->usable_bytes},
		       {"P4D_REHEARSAL_CONTEXT_BYTES", p4d_memory_context_bytes()},
		       {"P4D_REHEARSAL_GPUS", MOST_RANKS},
		       {"P4D_REHEARSAL_SM", (uint64_t)on->sm},
		       {"P4D_REHEARSAL_SMS", (uint64_t)gpu->multiprocessors},
		       {"P4D_CUDNN", fused}};
	char text[32];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		snprintf(text, sizeof(text), "%" PRIu64, numbers[i].value);
		setenv(numbers[i].name, text, 1);
	}
	setenv("P4D_REHEARSAL_NAME", gpu->label, 1);
	setenv("P4D_REHEARSAL_REPORT", in_directory("report"), 1);
	setenv("P4D_WATCH", in_directory("watch"), 1);
}

static const char *data_of(const run *r)
{
	if (strstr(r->words, "--workload preference"))
		return "pairs";
	return strstr(r->words, "--sequences packed") ? "lines" : "text";
}

/* Runs p4d-train in the test's directory with the stand-ins preloaded, as `p4d rehearse` does. */
static void train(const run *r, const char *gpu)
{
	char line[4096], *argv[] = {"/bin/sh", "-c", line, NULL};
	launched l;

	shell("rm -rf log report watch-* kept");
	snprintf(line, sizeof(line),
		 "cd %s && LD_LIBRARY_PATH=%s/lib LD_PRELOAD=libp4d-rehearsal.so "
		 "P4D_LIBDIR='%s/tests/doubles/standins/.libs' exec '%s/p4d-train' --device cuda --gpu %s "
		 "--local-ranks %u --steps %d --checkpoint kept --save-every %d --data %s --log log %s",
		 test_directory, test_directory, build(), build(), gpu, r->ranks, STEPS, STEPS, data_of(r),
		 r->words);
	launched_start(&l, argv, in_directory("output"), in_directory("errors"));
	if (!launched_gone(&l, PATIENCE_SECONDS))
		fail_msg("%s: it does not end", r->name);
	if (launched_status(&l) != 0)
		fail_msg("%s on %s: it ends with %d: %s", r->name, gpu, launched_status(&l),
			 content("errors"));
}

/* A number in the log's line about memory. */
static uint64_t member(const char *name)
{
	char key[64];
	const char *line = strstr(content("log"), "\"event\":\"memory\"");

	snprintf(key, sizeof(key), "\"%s\":", name);
	const char *at = line ? strstr(line, key) : NULL;
	if (!at)
		fail_msg("the log has no %s", name);
	return strtoull(at + strlen(key), NULL, 10);
}

/* Checks that only the arena is allocated, and that p4d-train reports the rank with the largest arena. */
static void check_memory(const run *r, const watched_rank *ranks)
{
	const uint64_t planned = member("planned_bytes"), reserve = member("reserve_planned_bytes");
	const uint64_t context = p4d_memory_context_bytes(), named = member("rank");
	const uint64_t rounded = (planned + GRANULE - 1) / GRANULE * GRANULE;

	for (uint32_t i = 0; i < r->ranks; i++) {
		const uint64_t used = ranks[i].moment[1].bytes;
		if (ranks[i].moment[0].bytes != context ||
		    (i == named ? used != context + rounded : used > context + rounded))
			fail_msg("%s, rank %u: %" PRIu64 " bytes before the arena and %" PRIu64
				 " after it; planned are %" PRIu64 " and a reserve of %" PRIu64,
				 r->name, i, ranks[i].moment[0].bytes, used, planned, reserve);
		for (unsigned j = 2; j < ranks[i].moments - 1; j++)
			if (ranks[i].moment[j].bytes != used)
				fail_msg("%s, rank %u: %" PRIu64 " bytes in step 1, %" PRIu64 " in step %u",
					 r->name, i, used, ranks[i].moment[j].bytes, j);
	}
	assert_int_equal(member("device_bytes"), context + rounded);
	assert_int_equal(member("allocated_bytes"), planned);
	/* communicators of the stand-in take no memory */
	if (r->ranks == 1 ? reserve != context : reserve <= context)
		fail_msg("%s: a reserve of %" PRIu64 " bytes, of which %" PRIu64 " are the context", r->name,
			 reserve, context);
}

static void check_rank(const run *r, const watched_rank *w, uint32_t number, int sm, bool fused)
{
	char why[WATCHED_TEXT];
	const uint64_t graphs = watched_grown(w, 2, P4D_REPORT_GRAPHS);
	const bool pairs = strstr(r->words, "--workload preference");
	const unsigned first = pairs ? 2 : 1; /* step 1 also has the reference's passes */

	if (!w->ended || w->moments != STEPS + 4)
		fail_msg("%s, rank %u: %u moments were seen", r->name, number, w->moments);
	if (w->moment[w->moments - 1].count[P4D_REPORT_MISSING])
		fail_msg("%s, rank %u: it calls what no stand-in plays: %s", r->name, number,
			 content("report"));
	if (!watched_still(w, STEPS, why) || !watched_alike(w, first, STEPS, why) || !watched_freed(w, why) ||
	    !watched_known(w, STEPS, why))
		fail_msg("%s, rank %u: %s", r->name, number, why);
	if (pairs && watched_grown(w, 1, P4D_REPORT_PRODUCTS) <
			 watched_grown(w, 2, P4D_REPORT_PRODUCTS) + STEPS * r->ranks)
		fail_msg("%s, rank %u: the reference was not computed", r->name, number);
	if (w->moment[w->moments - 1].bytes != p4d_memory_context_bytes() ||
	    w->moment[1].count[P4D_REPORT_ALLOCATIONS] != 1)
		fail_msg("%s, rank %u: more than the arena was allocated, or it was not given back", r->name,
			 number);
	const bool own = r->with & OWN_ATTENTION || (r->with & OWN_ON_80 && sm == 80);
	if ((graphs > 0) != (fused && !own))
		fail_msg("%s, rank %u: cuDNN computes %" PRIu64 " times a step: %s", r->name, number, graphs,
			 content("errors"));
}

static calls calls_of(const watched_rank *w)
{
	calls c = {.reduce = 0};

	for (size_t i = w->moment[2].calls; i < w->moment[3].calls; i++) {
		const char *operation = w->call[i].operation;
		c.reduce += !strncmp(operation, "all-reduce", 10);
		c.scatter += !strcmp(operation, "reduce-scatter");
		c.gather += !strcmp(operation, "all-gather");
		c.rooted += !strcmp(operation, "broadcast") || !strcmp(operation, "reduce");
		c.send += !strcmp(operation, "send");
		c.receive += !strcmp(operation, "receive");
	}
	return c;
}

static void check_calls(const run *r, const watched_rank *w, int multiprocessors)
{
	const calls c = calls_of(w), *want = &r->step;

	if (w->comms != r->communicators || memcmp(&c, want, sizeof(c)) != 0)
		fail_msg("%s: %u communicators, a step has {%u, %u, %u, %u, %u, %u} calls of NCCL", r->name,
			 w->comms, c.reduce, c.scatter, c.gather, c.rooted, c.send, c.receive);
	const unsigned left = w->narrowest ? (unsigned)multiprocessors - w->narrowest : 0;
	if (left != r->left)
		fail_msg("%s: products leave %u multiprocessors", r->name, left);
}

static void check(const run *r, const struct gpu *on, const p4d_gpu *gpu, bool fused)
{
	static watched_rank ranks[MOST_RANKS];
	char path[PATH_MAX], why[WATCHED_TEXT];

	for (uint32_t i = 0; i < r->ranks; i++) {
		snprintf(path, sizeof(path), "%s-%u", in_directory("watch"), i);
		if (!watched_read(&ranks[i], path))
			fail_msg("%s: what rank %u did was not seen", r->name, i);
		check_rank(r, &ranks[i], i, on->sm, fused);
	}
	check_calls(r, &ranks[0], gpu->multiprocessors);
	if (!watched_agree(ranks, r->ranks, why))
		fail_msg("%s: %s", r->name, why);
	check_memory(r, ranks);
	if (r->with & OFFLOADS && on->sm < 100 && !member("host_offloaded_bytes"))
		fail_msg("%s: nothing is on the host", r->name);
	if (!strstr(content("log"), "\"event\":\"saved\"") || !strstr(content("log"), "\"event\":\"end\""))
		fail_msg("%s: no checkpoint, or no end: %s", r->name, content("log"));
	if (fused && !(r->with & (OWN_ATTENTION | OWN_ON_80)) && strstr(content("errors"), "own kernels"))
		fail_msg("%s: cuDNN does not compute all attention: %s", r->name, content("errors"));
	/* p4d-train suggests LD_LIBRARY_PATH only if it did not find cuDNN, not if a soft cap makes
	 * attention slow */
	if (fused && strstr(content("errors"), "LD_LIBRARY_PATH"))
		fail_msg("%s: cuDNN is there: %s", r->name, content("errors"));
	print_message("%-40s %-10s %4" PRIu64 " launches, %4" PRIu64 " products, %3" PRIu64
		      " copies, %3" PRIu64 " graphs a step\n",
		      r->name, on->name, watched_grown(&ranks[0], 2, P4D_REPORT_LAUNCHES),
		      watched_grown(&ranks[0], 2, P4D_REPORT_PRODUCTS),
		      watched_grown(&ranks[0], 2, P4D_REPORT_COPIES),
		      watched_grown(&ranks[0], 2, P4D_REPORT_GRAPHS));
	for (uint32_t i = 0; i < r->ranks; i++)
		watched_free(&ranks[i]);
}

static bool is_wanted(const run *r, const struct gpu *on)
{
	const char *name = getenv("P4D_TEST_RUN");

	if (name && r != runs && strncmp(r->name, name, strlen(name)) != 0)
		return false;
	return (on->sm == 90 || !(r->with & ON_90)) && (on->sm == 100 || !(r->with & ON_100));
}

static void all_runs(void **state)
{
	const bool everywhere = getenv("P4D_TEST_ALL"), cudnn = has_cudnn();
	p4d_gpus table;
	p4d_error err;

	(void)state;
	if (!cudnn)
		print_message("without cuDNN: attention by p4d's own kernels alone\n");
	assert_int_equal(p4d_gpus_load(&table, NULL, &err), 0);
	for (unsigned i = 0; i < RUNS; i++)
		for (unsigned j = 0; j < GPUS; j++) {
			const p4d_gpu *gpu = p4d_gpu_find(&table, gpus[j].name, NULL);
			const bool fused = cudnn && (everywhere || i % GPUS == j ||
						     runs[i].with & (ON_90 | ON_100 | OWN_ON_80));
			assert_non_null(gpu);
			assert_int_equal(gpu->sm, gpus[j].sm);
			if (!is_wanted(&runs[i], &gpus[j]))
				continue;
			put_environment(&gpus[j], gpu, fused);
			train(&runs[i], gpus[j].name);
			check(&runs[i], &gpus[j], gpu, fused);
			if (i == 0 && j == 0)
				shell("'%s/p4d' export kept base >/dev/null 2>&1", build());
		}
	p4d_gpus_free(&table);
}

static int prepare(void **state)
{
	if (make_quick_directory(state) < 0)
		return -1;
	setenv("P4D_DATADIR", test_datadir(), 1);
	unsetenv("P4D_PLAN");
	for (int file = 0; file < 3; file++) {
		char name[8];
		snprintf(name, sizeof(name), "%d", file);
		FILE *text = fopen(in_directory(name), "w");
		for (int i = 0; text && i < 1000; i++)
			fprintf(text, "line %d of %d: every line says which one it is\n", i, file);
		if (!text || fclose(text) != 0)
			return -1;
	}
	shell("'%s/p4d' data -o text 0 1 2 >output", build());
	shell("yes 'thirty-one letters make a line.' | head -n 1000 >lines.txt");
	shell("'%s/p4d' data --split-lines -o lines lines.txt >output", build());
	shell("yes '{\"prompt\": \"two words\", \"chosen\": \"a good answer\", \"rejected\": \"no\"}' | "
	      "head -n 100 >answers.jsonl");
	shell("'%s/p4d' data --pairs --tokenizer bytes -o pairs answers.jsonl >output", build());
	make_libraries();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_runs),
	};

	return cmocka_run_group_tests(tests, prepare, remove_directory);
}
#endif
