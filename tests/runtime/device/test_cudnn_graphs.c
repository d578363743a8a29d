/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN must accept each attention graph of the models in etc/models, and must need the workspace that
 * estimator/attention.h predicts. The test describes GPUs to cuDNN, so it needs no GPU and computes
 * nothing; tests/gpu/run checks results. With P4D_TEST_CUDNN=1 it tries more layouts, and cuDNN generates
 * code for all of them.
 */
#include "support/support.h"

#include <dlfcn.h>
#include <inttypes.h>

#include "device/cuda/sdpa_engine.h"
#include "model/model.h"
#include "plan/cudnn_workspace.h"

/* The properties of a GPU, as cuDNN needs them. */
static const struct gpu {
	int sm, multiprocessors, shared_memory, l2;
	const char *name;
} gpus[] = {
    {90, 132, 232448, 62914560, "NVIDIA H200"},
    {80, 108, 166912, 41943040, "NVIDIA A100-SXM4-80GB"},
    {100, 148, 232448, 62914560, "NVIDIA B200"},
    {120, 188, 101376, 62914560, "NVIDIA RTX PRO 6000 Blackwell Server Edition"},
};
enum { GPUS = sizeof(gpus) / sizeof(gpus[0]) };

static p4d_cudnn cudnn;
static cudnnBackendDescriptor_t devices[GPUS];
static unsigned asked, refused, compiled;
static bool all; /* compile the code of all graphs */

/* The address sanitizer would report memory that cuDNN's compiler does not free. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

static cudnnBackendDescriptor_t describe(const struct gpu *gpu)
{
	cudnnBackendDescriptor_t device;
	char text[1024];
	const int length = snprintf(
	    text, sizeof(text),
	    "{\"deviceVer\":%d,\"driverVer\":13000,\"deviceName\":\"%s\",\"cudaDeviceId\":0,"
	    "\"multiProcessorCount\":%d,\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],"
	    "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"maxSharedMemoryPerBlock\":49152,"
	    "\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":1024,"
	    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
	    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
	    "\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
	    "\"l2CacheSize\":%d}",
	    10 * gpu->sm, gpu->name, gpu->multiprocessors, gpu->shared_memory, gpu->l2);

	assert_int_equal(cudnn.BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device), 0);
	assert_int_equal(cudnn.BackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
						   CUDNN_TYPE_CHAR, length, text),
			 0);
	assert_int_equal(cudnn.BackendFinalize(device), 0);
	return device;
}

/* cuDNN opens and closes its compiler for each graph, which takes as long as its answer. This keeps the
 * compiler open. */
static void keep_compiler(void)
{
	char name[32];

	snprintf(name, sizeof(name), "libnvrtc.so.%d", CUDART_VERSION / 1000);
	if (!dlopen(name, RTLD_LAZY | RTLD_LOCAL))
		print_message("graphs take longer: %s\n", dlerror());
}

/* cuDNN loads libcuda by name. Without a driver, the test uses the stub of the CUDA toolkit, which refuses
 * all calls. */
static int open_cudnn(void **state)
{
	p4d_error err;

	(void)state;
	all = getenv("P4D_TEST_CUDNN") != NULL;
	keep_compiler();
	if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) && !dlopen(P4D_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL))
		print_message("no driver, and no libcuda to link with: %s\n", dlerror());
	else if (p4d_cudnn_open(&cudnn, &err) < 0)
		print_message("nothing to see without cuDNN: %s\n", err.text);
	else
		for (int i = 0; i < GPUS; i++)
			devices[i] = describe(&gpus[i]);
	return 0;
}

static int close_cudnn(void **state)
{
	(void)state;
	for (int i = 0; i < GPUS && devices[i]; i++)
		cudnn.BackendDestroyDescriptor(devices[i]);
	return 0;
}

/* Makes cuDNN generate code for a graph. Only loading this code would need a driver. */
static void compile(p4d_sdpa_graph *graph, cudnnBackendDescriptor_t device, cudnnBackendDescriptor_t choice)
{
	p4d_error err;

	if (!p4d_engine_build(graph, device, NULL, choice, &err) && !strstr(err.text, "cuLibraryLoadData"))
		fail_msg("%s", err.text);
	compiled++;
}

/* The estimator's prediction for a graph: whether cuDNN accepts it, and its workspace. */
static bool takes(int sm, const p4d_sdpa_shape *s, uint64_t *workspace)
{
	const p4d_attention_bytes need =
	    p4d_attention_workspace(sm, s->batch, s->heads, s->kv_heads, s->queries, s->keys, s->head_dim);

	*workspace = s->documents  ? p4d_attention_documents_workspace(s->batch, s->backward)
		     : s->backward ? need.backward_workspace
				   : need.forward_workspace;
	return s->documents ? p4d_attention_takes_documents(sm, s->queries, s->head_dim) : need.fused;
}

static void ask(int number, const p4d_sdpa_shape *s, bool build)
{
	static p4d_sdpa_graph graph;
	uint64_t bytes = 0, expected;
	const bool fused = takes(gpus[number].sm, s, &expected);
	p4d_error err;

	if (p4d_sdpa_graph_open(&graph, &cudnn, NULL, s, &err) < 0)
		fail_msg("%s", err.text);
	const cudnnBackendDescriptor_t choice =
	    p4d_engine_choose(&graph, devices[number], UINT64_MAX, &bytes, &err);
	asked++;
	refused += !choice;
	/* for a shape that the estimator does not fuse, cuDNN must refuse the backward pass; it may accept
	 * the forward pass */
	if (fused ? !choice || bytes != expected : s->backward && choice && !s->documents)
		fail_msg("sm %d, %s, %s%" PRIu64 " x %" PRIu64 "/%" PRIu64 " heads of %" PRIu64 ", %" PRIu64
			 " queries, %" PRIu64 " keys, %s: %s, %" PRIu64 " bytes, not %" PRIu64,
			 gpus[number].sm, s->backward ? "backward" : "forward",
			 s->documents ? "documents, " : "", s->batch, s->heads, s->kv_heads, s->head_dim,
			 s->queries, s->keys, s->causal ? "causal" : "all", choice ? "taken" : "refused",
			 bytes, expected);
	if (choice && build)
		compile(&graph, devices[number], choice);
	p4d_sdpa_graph_close(&graph);
}

/* The attention of a rank, with `length` tokens of each sequence. */
typedef struct rank {
	uint64_t batch, heads, kv_heads, head_dim, length;
} rank;

/* One call of attention: the rank's queries in this block, the keys that they see, and the rows of keys in
 * memory. */
typedef struct block {
	uint64_t queries, keys, rows;
	bool causal;
	bool own; /* without context parallelism, keys are columns of the rank's qkv, and gradients are
		   * overwritten */
} block;

static p4d_sdpa_stride strides(uint64_t width, uint64_t tokens)
{
	return (p4d_sdpa_stride){width, width * tokens};
}

static p4d_sdpa_shape shape_of(const rank *r, const block *b, bool back)
{
	const uint64_t q = r->heads * r->head_dim, kv = r->kv_heads * r->head_dim;
	p4d_sdpa_shape s = {.batch = r->batch,
			    .queries = b->queries,
			    .keys = b->keys,
			    .heads = r->heads,
			    .kv_heads = r->kv_heads,
			    .head_dim = r->head_dim,
			    .causal = b->causal,
			    .backward = back,
			    .q = strides(q + 2 * kv, r->length),
			    .kv = strides(b->own ? q + 2 * kv : 2 * kv, b->rows),
			    .o = strides(q, r->length),
			    .lse_head = r->batch * r->length,
			    .lse_sequence = r->length,
			    .lse_token = 1};

	if (back) {
		s.dq = b->own ? s.q : strides(q, b->queries);
		s.dkv = b->own ? s.kv : strides(kv, b->keys);
	}
	return s;
}

/* Asks for the blocks without context parallelism, with a ring, and with keys gathered from 4 ranks (for
 * the first rank, a middle one and the last). */
static void ask_blocks(int number, const rank *r, bool build)
{
	const uint64_t n = r->length, half = n / 2, sequence = 4 * n;
	const block blocks[] = {
	    {n, n, n, true, true},
	    {n, n, n, true, false},
	    {n, half, n, false, false},
	    {half, n, n, false, false},
	    {half, half, sequence, true, false},
	    {half, 5 * half, sequence, true, false},
	    {half, sequence, sequence, true, false},
	};

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		for (int back = 0; back < 2; back++) {
			const p4d_sdpa_shape s = shape_of(r, &blocks[i], back);
			ask(number, &s, build && (all || i == 0 || i == 5));
		}
}

/* Whether the test has not yet tried a rank with the same attention. */
static bool is_new(const rank *r)
{
	static rank known[512];
	static int count;

	for (int i = 0; i < count; i++)
		if (!memcmp(&known[i], r, sizeof(*r)))
			return false;
	assert_true(count < 512);
	known[count++] = *r;
	return true;
}

static void ask_rank(rank r)
{
	if (!is_new(&r))
		return;
	for (size_t i = 0; i < GPUS; i += test_stride(1, GPUS)) {
		/* Llama 3 8B's shape, which other models also have */
		const bool build = r.length == 4096 && r.heads == 32 && r.kv_heads == 8 && r.head_dim == 128;
		ask_blocks((int)i, &r, build && (all || gpus[i].sm == 90));
	}
}

static void ask_model(const p4d_preset *preset, const p4d_request *request, void *context)
{
	/* half-sequences of 256 and 264 tokens are on both sides of Blackwell's limit of 128 */
	static const uint64_t lengths[] = {4096, 256, 264, 1000};
	const uint64_t heads = (uint64_t)request->value[P4D_HEADS];
	const uint64_t kv_heads = (uint64_t)request->value[P4D_KV_HEADS];
	const uint64_t head_dim = (uint64_t)request->value[P4D_HEAD_DIM];

	(void)preset, (void)context;
	for (uint64_t tp = 1; tp <= 8 && kv_heads % tp == 0 && heads % tp == 0; tp *= all ? 2 : 8)
		for (int i = 0; i < (all ? 4 : 1); i++)
			ask_rank((rank){tp > 1 ? 1 : 2, heads / tp, kv_heads / tp, head_dim, lengths[i]});
}

static void graphs_of_the_models(void **state)
{
	const char *data = getenv("P4D_TEST_DATADIR");
	p4d_error err;

	(void)state;
	if (!devices[0])
		skip();
	if (p4d_model_each(data ? data : "etc", ask_model, NULL, &err) < 0)
		fail_msg("%s", err.text);
	print_message("%s: %u graphs, %u of them refused; %u compiled\n", cudnn.text, asked, refused,
		      compiled);
	assert_true(asked > 500 && refused < asked / 4 && compiled >= 4);
}

/* Sliding windows need no more workspace than whole attention, and slices have more keys than queries. */
static void graphs_of_windows(void **state)
{
	static const struct {
		rank rank;
		uint64_t queries, window;
	} cases[] = {
	    {{1, 32, 8, 128, 8192}, 8192, 4096}, {{2, 8, 4, 256, 4096}, 4096, 512},
	    {{1, 32, 32, 96, 4096}, 4096, 2047}, {{1, 4, 1, 256, 2048}, 2048, 1},
	    {{1, 16, 8, 64, 4096}, 1024, 700},   {{1, 14, 2, 64, 1000}, 1000, 999},
	};

	(void)state;
	if (!devices[0])
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int number = 0; number < GPUS; number++)
			for (int back = 0; back < 2; back++) {
				const uint64_t length = cases[i].rank.length;
				const block b = {cases[i].queries, length, length, true,
						 cases[i].queries == length};
				p4d_sdpa_shape s = shape_of(&cases[i].rank, &b, back);
				s.window = cases[i].window;
				ask(number, &s, i < 3 && (gpus[number].sm == 90 || gpus[number].sm == 100));
			}
}

/* If the estimator predicts that cuDNN supports documents, cuDNN accepts them with the predicted
 * workspace. */
static void ask_documents(const rank *r, uint64_t documents, bool build)
{
	const block b = {r->length, r->length, r->length, true, true};

	for (int number = 0; number < GPUS; number++)
		for (int back = 0; back < 2; back++) {
			p4d_sdpa_shape s = shape_of(r, &b, back);
			s.documents = 1;
			s.batch = documents;
			s.lse_head = 1;
			s.lse_token = r->heads;
			s.lse_sequence = r->heads * r->length;
			ask(number, &s, build && (gpus[number].sm == 90 || gpus[number].sm == 100));
		}
}

static void graphs_of_documents(void **state)
{
	static const struct {
		rank rank;
		uint64_t documents;
	} cases[] = {
	    {{1, 32, 8, 128, 8192}, 32},  {{1, 32, 8, 64, 4096}, 64},    {{1, 16, 16, 128, 8192}, 16},
	    {{1, 24, 8, 128, 1000}, 8},   {{1, 16, 8, 256, 4096}, 32},   {{1, 40, 40, 128, 8192}, 4},
	    {{1, 14, 2, 64, 2048}, 1024}, {{1, 1, 1, 128, 136}, 4},      {{1, 8, 1, 96, 32768}, 512},
	    {{1, 8, 1, 80, 129}, 4},      {{1, 32, 8, 128, 131072}, 64}, {{1, 5, 1, 8, 512}, 8},
	};

	(void)state;
	if (!devices[0])
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ask_documents(&cases[i].rank, cases[i].documents, i < 3);
}

/* If the workspace is too small, p4d reports this and does not use the graph. */
static void a_small_workspace(void **state)
{
	const rank r = {1, 8, 2, 64, 512};
	const block b = {512, 512, 512, true, true};
	const p4d_sdpa_shape s = shape_of(&r, &b, true);
	static p4d_sdpa_graph graph;
	uint64_t bytes = 0;
	p4d_error err;

	(void)state;
	if (!devices[0])
		skip();
	assert_int_equal(p4d_sdpa_graph_open(&graph, &cudnn, NULL, &s, &err), 0);
	assert_null(p4d_engine_choose(&graph, devices[1], 1000, &bytes, &err));
	assert_non_null(strstr(err.text, "bytes of workspace, the plan has 1000"));
	p4d_sdpa_graph_close(&graph);
}

/* cuDNN refuses heads that no engine supports, and descriptors that are not a graph. */
static void what_is_refused(void **state)
{
	rank r = {1, 8, 2, 12, 512};
	const block b = {512, 512, 512, true, true};
	static p4d_sdpa_graph graph;
	uint64_t bytes = 0;
	p4d_error err;

	(void)state;
	if (!devices[0])
		skip();
	p4d_sdpa_shape s = shape_of(&r, &b, true);
	assert_int_equal(p4d_sdpa_graph_open(&graph, &cudnn, NULL, &s, &err), 0);
	assert_null(p4d_engine_choose(&graph, devices[1], UINT64_MAX, &bytes, &err));
	assert_non_null(strstr(err.text, "rejects it"));
	p4d_sdpa_graph_close(&graph);
	s.batch = UINT64_MAX;
	assert_int_equal(p4d_sdpa_graph_open(&graph, &cudnn, NULL, &s, &err), -1);
	assert_non_null(strstr(err.text, "CUDNN_STATUS_"));
	p4d_sdpa_graph_close(&graph);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(graphs_of_the_models), cmocka_unit_test(graphs_of_windows),
	    cmocka_unit_test(graphs_of_documents),  cmocka_unit_test(a_small_workspace),
	    cmocka_unit_test(what_is_refused),
	};

	return cmocka_run_group_tests_name("attention through cuDNN", tests, open_cudnn, close_cudnn);
}
