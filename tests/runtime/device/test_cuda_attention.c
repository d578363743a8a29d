/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of the device under test, compared with the cpu device. p4d's own kernels are tested with
 * heads of all widths and with full and partial tiles. Fused attention is tested on a rank's blocks,
 * without and with context parallelism. If p4d does not use fused attention, it must give the reason.
 */
#include "support/support.h"

#include "plan/cudnn_workspace.h"
#include "support/kernel_cases.h"
#include "support/numbers.h"

#ifdef P4D_TEST_GPU
enum { SM = 0 }; /* any GPU */
#else
enum { SM = 90 };
#endif

/* Which keys a rank's queries see: all without context parallelism; in a ring its own, earlier or later
 * ones; or gathered keys. */
typedef enum sight { WHOLE, OWN, EARLIER, LATER, GATHERED } sight;
enum { CP = 4, CP_RANK = 1, BEYOND = 64 };

/* The position in its sequence at which chunk i (0 or 1) of a rank begins. */
static int32_t chunk_at(uint64_t rank, uint64_t i, uint64_t chunk)
{
	return (int32_t)((i ? 2 * CP - 1 - rank : rank) * chunk);
}

static int32_t *chunks_of(kernel_run *run, uint64_t rank, uint64_t chunk)
{
	int32_t at[MOST_TOKENS];

	assert_true(2 * chunk <= MOST_TOKENS);
	for (uint64_t i = 0; i < 2 * chunk; i++)
		at[i] = chunk_at(rank, i / chunk, chunk) + (int32_t)(i % chunk);
	return kernel_placed(run, at, 2 * chunk);
}

static p4d_attention_split split_of(sight what, const p4d_attention_shape *s)
{
	const uint64_t cp = what == WHOLE ? 1 : CP;

	return (p4d_attention_split){.batch = s->batch,
				     .heads = s->heads,
				     .kv_heads = s->kv_heads,
				     .head_dim = s->head_dim,
				     .seq_len = cp * s->queries,
				     .cp = cp,
				     .gathered = what == GATHERED};
}

/* The shape without positions. */
static p4d_attention_shape shape_of(sight what, uint64_t batch, uint64_t chunk, uint64_t kv, uint64_t group,
				    uint64_t d)
{
	const uint64_t length = 2 * chunk, row = (group + 2) * kv * d;
	p4d_attention_shape s = {.batch = batch,
				 .queries = length,
				 .keys = what == GATHERED ? CP * length : length,
				 .heads = kv * group,
				 .kv_heads = kv,
				 .head_dim = d,
				 .query_stride = row,
				 .key_stride = what == WHOLE ? row : 2 * kv * d,
				 .scale = 0.5f,
				 .blocks = what == GATHERED ? 2 : 1};
	const p4d_attention_split split = split_of(what, &s);

	s.block[0] = (p4d_attention_block){0, length, length, true};
	if (what == EARLIER)
		s.block[0] = (p4d_attention_block){0, length, chunk, false};
	if (what == LATER)
		s.block[0] = (p4d_attention_block){chunk, chunk, length, false};
	if (what == GATHERED) {
		s.block[0] = (p4d_attention_block){0, chunk, (CP_RANK + 1) * chunk, true};
		s.block[1] = (p4d_attention_block){chunk, chunk, (2 * CP - CP_RANK) * chunk, true};
	}
	s.workspace_bytes = p4d_attention_workspace_most(SM, &split, false);
	return s;
}

static void set_positions(kernel_run *run, sight what, p4d_attention_shape *s)
{
	const uint64_t chunk = s->queries / 2;

	s->query_position =
	    what == WHOLE ? kernel_places(run, s->queries, 0) : chunks_of(run, CP_RANK, chunk);
	if (what == WHOLE || what == GATHERED)
		s->key_position = kernel_places(run, s->keys, 0);
	else if (what == OWN)
		s->key_position = s->query_position;
	else
		s->key_position = chunks_of(run, what == EARLIER ? 0 : CP - 1, chunk);
}

/*
 * Gives the cuda device a workspace of exactly the planned size, followed by marked memory. Fills the
 * workspace with NaN, because no kernel may rely on zeros there, as cuDNN before 9.6 did for its sum of
 * query gradients.
 */
static unsigned char *workspace_of(kernel_run *run, const p4d_attention_shape *s)
{
	const uint64_t cpu = cpu_workspace_bytes(s->head_dim);
	const uint64_t bytes = (s->workspace_bytes > cpu ? s->workspace_bytes : cpu) + BEYOND;
	unsigned char *workspace = run_memory(run, bytes), *host = malloc(bytes);

	assert_non_null(host);
	memset(host, 0xff, bytes);
	memset(host + s->workspace_bytes, 0x5a, BEYOND);
	put(run->device, workspace, host, bytes);
	free(host);
	return workspace;
}

static void untouched_beyond(kernel_run *run, const p4d_attention_shape *s, const unsigned char *workspace)
{
	unsigned char beyond[BEYOND];

	fetch(run->device, beyond, workspace + s->workspace_bytes, BEYOND);
	for (int i = 0; i < BEYOND && !strcmp(run->device->name, "cuda"); i++)
		assert_int_equal(beyond[i], 0x5a);
}

/* window: 0, or less than 2 * chunk */
static void windowed(kernel_run *run, sight what, uint64_t batch, uint64_t chunk, uint64_t kv, uint64_t group,
		     uint64_t d, uint64_t window)
{
	p4d_device *const device = run->device;
	p4d_attention_shape s = shape_of(what, batch, chunk, kv, group, d);
	const p4d_attention_split split = split_of(what, &s);
	const uint64_t n = batch * s.queries, a = s.heads, own = n * s.query_stride;
	const uint64_t others = batch * s.keys * s.key_stride;
	char *qkv = run_elements(run, own), *apart = run_elements(run, others);
	char *k = what == WHOLE ? qkv + a * d * element_bytes(run->type) : apart,
	     *v = k + kv * d * element_bytes(run->type);
	void *o = run_elements(run, n * a * d), *d_o = run_elements(run, n * a * d),
	     *dqkv = run_elements(run, own);
	float *lse = run_reals(run, a * n), *sums = run_reals(run, a * n), *dq = run_reals(run, own),
	      *dkv = run_reals(run, others);
	unsigned char *workspace = workspace_of(run, &s);

	s.window = window;
	set_positions(run, what, &s);
	device->attention(device, run->type, o, lse, qkv, k, v, &s, workspace);
	untouched_beyond(run, &s, workspace);
	record_result(run, "attention", run->type, o, n * a * d);
	record_lse(run, lse, a * n);
	o = run_elements(run, n * a * d);
	s.output = o;
	s.workspace_bytes = p4d_attention_workspace_most(SM, &split, true);
	workspace = workspace_of(run, &s);
	device->attention_row_sums(device, run->type, sums, d_o, o, n, a, d);
	if (what == WHOLE) {
		device->attention_gradient(device, run->type, dqkv, run_memory(run, own * sizeof(float)), d_o,
					   lse, sums, qkv, &s, workspace);
		record_result(run, "attention_gradient", run->type, dqkv, own);
	} else {
		device->attention_backward(device, run->type, dq, dkv, dkv + kv * d, d_o, lse, sums, qkv, k,
					   v, &s, workspace);
		record_result(run, "attention_backward, q", P4D_DT_FP32, dq, own);
		record_result(run, "attention_backward, k v", P4D_DT_FP32, dkv, others);
	}
	untouched_beyond(run, &s, workspace);
}

/* Documents per call: few, so that a test has several calls. */
enum { DOCUMENTS = 4, DOCUMENT_SM = SM ? SM : 90 };

typedef struct packed {
	int32_t number[MOST_TOKENS]; /* for each token, the number of its document */
	int32_t places[MOST_TOKENS * P4D_DOCUMENT_ROWS * 2];
	uint64_t first[MOST_TOKENS];
	uint64_t documents;
} packed;

/* Adds a document to the call after the others. first: the document's first token. */
static void pack_document(packed *p, const p4d_attention_shape *s, uint64_t first, uint64_t length)
{
	enum { WIDTH = DOCUMENTS + P4D_DOCUMENT_PADDING };
	const uint64_t group = p->documents / DOCUMENTS, i = p->documents % DOCUMENTS;
	const uint64_t unit[] = {s->query_stride, s->heads * s->head_dim, s->heads};
	int32_t *row = p->places + group * P4D_DOCUMENT_ROWS * WIDTH;

	if (i == 0)
		p->first[group] = first;
	row[i] = (int32_t)length;
	for (uint64_t u = 0; u < P4D_DOCUMENT_ROWS - 1; u++) {
		const uint64_t end = (first + length - p->first[group]) * unit[u];
		row += WIDTH;
		row[i] = (int32_t)((first - p->first[group]) * unit[u]);
		for (uint64_t rest = i + 1; rest < WIDTH; rest++)
			row[rest] = (int32_t)end;
	}
	for (uint64_t token = first; token < first + length; token++)
		p->number[token] = (int32_t)p->documents;
	p->documents++;
}

/* p must be static, because the host's part must live during the calls. */
static void pack(kernel_run *run, packed *p, p4d_attention_shape *s)
{
	static const uint64_t lengths[] = {37, 1, 130, 64, 2, 129, 300, 5, 1111};
	const uint64_t n = s->batch * s->queries;

	*p = (packed){.documents = 0};
	assert_true(n <= MOST_TOKENS);
	for (uint64_t at = 0, next = 0; at < n;) {
		const uint64_t left = s->queries - at % s->queries,
			       wanted = lengths[next++ % (sizeof(lengths) / sizeof(*lengths))];
		const uint64_t length = wanted < left ? wanted : left;
		pack_document(p, s, at, length);
		at += length;
	}
	s->query_document = s->key_document = kernel_placed(run, p->number, n);
	s->packed = (p4d_attention_documents){
	    .most = DOCUMENTS,
	    .groups = (p->documents + DOCUMENTS - 1) / DOCUMENTS,
	    .first = p->first,
	    .places = kernel_placed(run, p->places, sizeof(p->places) / sizeof(int32_t))};
}

/* Packed documents. Only results are compared, because each device stores lse in its own order. */
static void documents(kernel_run *run, uint64_t batch, uint64_t length, uint64_t kv, uint64_t group,
		      uint64_t d)
{
	static packed p;
	p4d_device *const device = run->device;
	p4d_attention_shape s = shape_of(WHOLE, batch, length / 2, kv, group, d);
	p4d_attention_split split = split_of(WHOLE, &s);
	const uint64_t n = batch * s.queries, a = s.heads, own = n * s.query_stride;
	char *qkv = run_elements(run, own), *k = qkv + a * d * element_bytes(run->type),
	     *v = k + kv * d * element_bytes(run->type);
	void *o = run_elements(run, n * a * d), *d_o = run_elements(run, n * a * d),
	     *dqkv = run_elements(run, own);
	float *lse = run_reals(run, a * n), *sums = run_reals(run, a * n);

	set_positions(run, WHOLE, &s);
	pack(run, &p, &s);
	split.documents = DOCUMENTS;
	s.workspace_bytes = p4d_attention_workspace_most(DOCUMENT_SM, &split, false);
	unsigned char *workspace = workspace_of(run, &s);
	device->attention(device, run->type, o, lse, qkv, k, v, &s, workspace);
	untouched_beyond(run, &s, workspace);
	record_result(run, "documents", run->type, o, n * a * d);
	s.output = o;
	s.workspace_bytes = p4d_attention_workspace_most(DOCUMENT_SM, &split, true);
	workspace = workspace_of(run, &s);
	device->attention_row_sums(device, run->type, sums, d_o, o, n, a, d);
	device->attention_gradient(device, run->type, dqkv, run_memory(run, own * sizeof(float)), d_o, lse,
				   sums, qkv, &s, workspace);
	untouched_beyond(run, &s, workspace);
	record_result(run, "documents, gradient", run->type, dqkv, own);
}

static void document_cases(kernel_run *run)
{
	documents(run, 1, 130, 2, 1, 16);
	documents(run, 2, 150, 1, 3, 32);
	documents(run, 1, 400, 1, 2, 64);
	documents(run, 3, 256, 1, 1, 8);
}

static void fused(kernel_run *run, sight what, uint64_t batch, uint64_t chunk, uint64_t kv, uint64_t group,
		  uint64_t d)
{
	windowed(run, what, batch, chunk, kv, group, d, 0);
}

static void fused_cases(kernel_run *run)
{
	windowed(run, WHOLE, 2, 16, 2, 2, 32, 7);
	windowed(run, WHOLE, 1, 20, 1, 3, 16, 1);
	windowed(run, GATHERED, 2, 12, 2, 1, 16, 20);
	for (int what = WHOLE; what <= GATHERED; what++) {
		fused(run, (sight)what, 1, 16, 2, 2, 32);
		fused(run, (sight)what, 2, 12, 2, 1, 16);
		fused(run, (sight)what, 3, 8, 1, 3, 64);
	}
}

/* Heads of Llamas with 1B and 3B parameters. On a GPU, sequences are as long as in training. */
static const struct {
	uint64_t length, kv, group, d;
} trained[] = {
#ifdef P4D_TEST_GPU
    {1024, 8, 4, 64},
    {4096, 8, 4, 64},
    {1024, 8, 3, 128},
    {4096, 8, 3, 128},
#else
    {136, 2, 4, 64},
    {150, 1, 3, 128},
#endif
};
enum { TRAINED = sizeof(trained) / sizeof(*trained) };

static void trained_cases(kernel_run *run)
{
	for (size_t i = 0; i < TRAINED; i++)
		fused(run, WHOLE, 2, trained[i].length / 2, trained[i].kv, trained[i].group, trained[i].d);
}

static void trained_documents(kernel_run *run)
{
	for (size_t i = 0; i < TRAINED; i++)
		documents(run, 1, trained[i].length, trained[i].kv, trained[i].group, trained[i].d);
}

static void attention_kernels(void **state)
{
	(void)state;
	check_kernels(kernel_attention, 1e-5);
}

/* The message on GPUs for whose documents cuDNN has no code. */
#define UNFUSED (SM ? NULL : "not fused on this GPU")

/* Compares fused attention with the cpu device. bf16 rounds often, and cuDNN also rounds probabilities.
 * allowed: the reason that the device may give for not using fused attention; NULL: none. */
static void fused_with(void (*cases)(kernel_run *run), const char *allowed)
{
#ifdef P4D_TEST_GPU
	const double limit = 1e-2;
#else
	const double limit = 4e-3;
#endif
	p4d_device cpu, cuda;

	assert_int_equal(p4d_device_cpu_open(&cpu, NULL), 0);
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	print_message("attention: %s\n", cuda.attention_text);
	if (strstr(cuda.attention_text, "own kernels")) {
		cpu.close(&cpu);
		cuda.close(&cuda);
		skip();
	}
	kernel_run *expected = run_cases(cases, &cpu, P4D_DT_BF16, 0);
	kernel_run *got = run_cases(cases, &cuda, P4D_DT_BF16, 0);
	compare_runs(got, expected, limit);
	if (strstr(cuda.attention_text, "own kernels") && !(allowed && strstr(cuda.attention_text, allowed)))
		fail_msg("%s", cuda.attention_text);
	run_end(expected);
	run_end(got);
	cpu.close(&cpu);
	cuda.close(&cuda);
}

static void fused_attention(void **state)
{
	(void)state;
	fused_with(fused_cases, NULL);
}

/* Packed documents give the same results as separate sequences. On some GPUs cuDNN does not support
 * documents. */
static void fused_documents(void **state)
{
	(void)state;
	fused_with(document_cases, UNFUSED);
}

/* Compares fused attention with p4d's own kernels on the same device, because the cpu would take too long
 * for these sizes. */
static void against_own(void (*cases)(kernel_run *run), const char *allowed)
{
	kernel_run *by[2];
	p4d_device device[2];

	for (int own = 0; own < 2; own++) {
		if (own)
			setenv("P4D_CUDNN", "0", 1);
		assert_int_equal(open_device_under_test(&device[own], NULL), 0);
		by[own] = device[own].attention_slow ? NULL : run_cases(cases, &device[own], P4D_DT_BF16, 0);
		print_message("attention: %s\n", device[own].attention_text);
	}
	unsetenv("P4D_CUDNN");
	const bool fused = by[0] && !device[0].attention_slow;
	const bool allows = allowed && strstr(device[0].attention_text, allowed);
	if (fused)
		compare_runs(by[0], by[1], 1e-2);
	for (int own = 0; own < 2; own++) {
		if (by[own])
			run_end(by[own]);
		device[own].close(&device[own]);
	}
	if (!fused && !allows)
		fail_msg("attention is not fused");
}

static void fused_against_own(void **state)
{
	(void)state;
	against_own(trained_cases, NULL);
}

static void documents_against_own(void **state)
{
	(void)state;
	against_own(trained_documents, UNFUSED);
}

/* Expects that p4d uses its own kernels for a shape, and that the message names the one property that
 * prevents fused attention. */
static void expect_own_kernels(p4d_dtype type, p4d_attention_shape s, uint64_t off, const char *why)
{
	const uint64_t n = s.batch * s.queries, a = s.heads, d = s.head_dim;
	p4d_device cuda;

	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	kernel_run *run = run_begin(&cuda, type, off);
	set_positions(run, WHOLE, &s);
	if (s.query_document)
		s.query_document = s.key_document = kernel_documents(run, s.batch, s.queries, s.queries);
	if (!strstr(cuda.attention_text, "own kernels")) {
		char *qkv = run_elements(run, n * s.query_stride), *k = qkv + a * d * element_bytes(type);
		void *o = run_elements(run, n * a * d), *workspace = run_memory(run, s.workspace_bytes);
		cuda.attention(&cuda, type, o, run_reals(run, a * n), qkv, k,
			       k + s.kv_heads * d * element_bytes(type), &s, workspace);
		finish(&cuda);
		if (!strstr(cuda.attention_text, why))
			fail_msg("\"%s\", not \"%s\"", cuda.attention_text, why);
		assert_true(cuda.attention_slow);
	}
	run_end(run);
	cuda.close(&cuda);
}

#ifdef P4D_TEST_CUDA
/* cuDNN has no code for documents on sm 80, so a planned mean length of documents changes nothing. */
static void no_documents_on_ampere(void **state)
{
	static const int32_t one;
	p4d_attention_shape s = shape_of(WHOLE, 1, 80, 2, 2, 16);

	(void)state;
	s.query_document = s.key_document = &one;
	p4d_shim_gpu.sm = 80;
	expect_own_kernels(P4D_DT_BF16, s, 0,
			   "own kernels (documents are masked: not fused on this GPU with");
	p4d_shim_gpu.sm = SM;
}

/* If cuDNN needs more workspace than the plan has, p4d gives it the workspace of matmuls. */
static void workspace_is_borrowed(void **state)
{
	p4d_shim_gpu.attention = WORKSPACE_BYTES;
	fused_attention(state);
	p4d_shim_gpu.attention = WORKSPACE_BYTES + 1;
	expect_own_kernels(P4D_DT_BF16, shape_of(WHOLE, 2, 8, 2, 2, 16), 0,
			   "own kernels (it needs more workspace)");
	p4d_shim_gpu.attention = 0;
}
#endif

static void what_is_not_fused(void **state)
{
	static const int32_t one; /* all tokens are in one document */
	const p4d_attention_shape usual = shape_of(WHOLE, 2, 8, 2, 2, 16);
	p4d_attention_shape s = usual;

	(void)state;
	expect_own_kernels(P4D_DT_FP32, usual, 0, "own kernels (fused attention supports only bf16)");
	expect_own_kernels(P4D_DT_BF16, usual, 1, "own kernels (operands are not aligned)");
	s.blocks = 0;
	expect_own_kernels(P4D_DT_BF16, s, 0, "own kernels (the visible keys are unknown)");
	s = shape_of(EARLIER, 2, 8, 2, 2, 16);
	s.window = 5;
	expect_own_kernels(P4D_DT_BF16, s, 0,
			   "own kernels (a sliding window is masked in parts of sequences)");
	s = usual;
	s.cap = 50;
	expect_own_kernels(P4D_DT_BF16, s, 0, "own kernels (scores have a soft cap)");
	s = usual;
	s.window = 5;
	s.query_document = s.key_document = &one;
	expect_own_kernels(P4D_DT_BF16, s, 0, "own kernels (documents and a sliding window are masked)");
	s = usual;
	s.query_document = s.key_document = &one;
	expect_own_kernels(P4D_DT_BF16, s, 0,
			   "own kernels (documents are masked: not fused on this GPU with");
	s = shape_of(WHOLE, 1, 80, 2, 2, 16);
	s.query_document = s.key_document = &one;
	expect_own_kernels(P4D_DT_BF16, s, 0,
			   SM ? "own kernels (documents are masked, and their mean length" : "own kernels (");
	s = usual;
	s.workspace_bytes -= SM ? 1 : s.workspace_bytes;
	expect_own_kernels(P4D_DT_BF16, s, 0, "its workspace is too small)");
	s = usual;
	s.block[0].queries = 1;
	expect_own_kernels(P4D_DT_BF16, s, 0, "own kernels (a block has only one token)");
	s = shape_of(WHOLE, 2, 8, 2, 2, 12);
	s.query_stride += 8 - s.query_stride % 8;
	s.key_stride = s.query_stride;
	expect_own_kernels(P4D_DT_BF16, s, 0, "(no fused attention for this head size)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(attention_kernels),      cmocka_unit_test(fused_attention),
	    cmocka_unit_test(fused_documents),        cmocka_unit_test(fused_against_own),
	    cmocka_unit_test(documents_against_own),  cmocka_unit_test(what_is_not_fused),
#ifdef P4D_TEST_CUDA
	    cmocka_unit_test(no_documents_on_ampere), cmocka_unit_test(workspace_is_borrowed),
#endif
	};

	select_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
