/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how well the cuda device uses its GPU: kernels with the shapes of a Llama 8B layer, matmuls and
 * attention also with those of 1B and 3B. The efficiencies in gpus.json come from these measurements. Each
 * line of output has name, value, unit, and the share of the rate of a plain copy or, if known, of the
 * GPU's peak. Tabs separate these fields. A long time is no failure. The program fails if cuDNN does not
 * compute attention, because the output is then useless.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device_cuda.h"
#include "plan/cudnn_workspace.h"

enum {
	N = 8192,
	H = 4096,
	F = 14336,
	HEADS = 32,
	KV_HEADS = 8,
	D = 128,
	VOCAB = 128256,
	CHUNK = 1024, /* number of tokens whose logits exist at the same time */
	MOST_CHUNK = 8192,
	ROUNDS = 20
};
enum { Q = HEADS * D, KV = KV_HEADS * D, COLUMNS = Q + 2 * KV };

/* A matrix of weights. */
typedef struct product {
	const char *name;
	uint64_t n, out, in;
} product;

static const product gate_up_8b = {"", N, 2 * F, H};
static const product others[] = {
    {" 1B qkv", N, 3072, 2048},      {" 1B output", N, 2048, 2048}, {" 1B gate_up", N, 16384, 2048},
    {" 1B down", N, 2048, 8192},     {" 3B qkv", N, 5120, 3072},    {" 3B output", N, 3072, 3072},
    {" 3B gate_up", N, 16384, 3072}, {" 3B down", N, 3072, 8192},
};
static const product logits_of[] = {
    {" 8B, 1024 tokens", CHUNK, VOCAB, H},         {" 1B, 1024 tokens", CHUNK, VOCAB, 2048},
    {" 1B, 4096 tokens", 4096, VOCAB, 2048},       {" 1B, 8192 tokens", MOST_CHUNK, VOCAB, 2048},
    {" 3B, 1024 tokens", CHUNK, VOCAB, 3072},      {" 3B, 4096 tokens", 4096, VOCAB, 3072},
    {" 3B, 8192 tokens", MOST_CHUNK, VOCAB, 3072},
};

static p4d_device device;
static char *arena;
static uint64_t used, arena_bytes;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what, const p4d_error *err)
{
	fprintf(stderr, "gpu speed: %s: %s\n", what, err->text);
	exit(1);
}

static void finish(const char *what)
{
	p4d_error err;

	if (device.sync(&device, &err) < 0)
		die(what, &err);
}

static void *take(uint64_t bytes)
{
	void *at = arena + used;

	used += (bytes + P4D_ARENA_ALIGNMENT - 1) / P4D_ARENA_ALIGNMENT * P4D_ARENA_ALIGNMENT;
	if (used > arena_bytes) {
		fprintf(stderr, "gpu speed: the arena is too small\n");
		exit(1);
	}
	return at;
}

/* Numbers like those of a model. GPUs compute matmuls of zeros faster. */
static void *random_bf16(uint64_t count)
{
	enum { BLOCK = 1 << 20 };
	static float block[BLOCK];
	static uint64_t state = 1;
	uint16_t *to = take(count * 2);
	float *from = take(BLOCK * sizeof(*from));

	for (uint64_t at = 0; at < count; at += BLOCK) {
		const uint64_t some = count - at < BLOCK ? count - at : BLOCK;
		for (uint64_t i = 0; i < some; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			block[i] = (float)((double)(state >> 40) / (1 << 23) - 1);
		}
		device.upload(&device, from, block, some * sizeof(*block));
		device.cast(&device, P4D_DT_BF16, to + at, P4D_DT_FP32, from, some);
	}
	finish("numbers");
	return to;
}

/* Mean seconds of the operations that `queue` queues: ROUNDS times, after two times to warm up. */
static double seconds_of(const char *name, void (*queue)(void))
{
	for (int i = 0; i < 2; i++)
		queue();
	finish(name);
	const double start = now();
	for (int i = 0; i < ROUNDS; i++)
		queue();
	finish(name);
	return (now() - start) / ROUNDS;
}

/* best: the highest possible rate; the share of it is printed. 0: unknown. */
static double print_rate(const char *name, void (*queue)(void), double work, const char *unit, double best)
{
	const double rate = work / seconds_of(name, queue);

	printf("%s\t%.1f\t%s\t", name, rate, unit);
	if (best > 0)
		printf("%.3f", rate / best);
	putchar('\n');
	fflush(stdout);
	return rate;
}

/* Peak of dense bf16 of large Hopper GPUs, from their data sheets. */
static double peak(void)
{
	return strstr(device.text, "H100") || strstr(device.text, "H200") ? 989 : 0;
}

static void flop_rate(const char *name, void (*queue)(void), double flop)
{
	print_rate(name, queue, flop / 1e12, "TFLOP/s", peak());
}

static double copy_rate;

static void byte_rate(const char *name, void (*queue)(void), double bytes)
{
	print_rate(name, queue, bytes / 1e9, "GB/s", copy_rate);
}

/* Heads of 8B, 1B and 3B. The rows with 64 heads and 8 KV heads also have the times that NVIDIA published
 * for cuDNN 9.19 on an H200. */
static const struct {
	const char *name;
	uint64_t heads, width, length;
	double forward, backward; /* published seconds; 0: none were published */
} shapes[] = {
    {"8B", 32, 128, 2048, 484, 370}, {"8B", 32, 128, 4096, 591, 474}, {"8B", 32, 128, 8192, 644, 541},
    {"1B", 32, 64, 2048, 0, 0},      {"1B", 32, 64, 4096, 0, 0},      {"1B", 32, 64, 8192, 0, 0},
    {"3B", 24, 128, 4096, 0, 0},     {"3B", 24, 128, 8192, 0, 0},
};

static void *x, *w, *wide, *qkv, *dqkv, *attention_output, *table, *norm_weight;
static float *dw, *rstd, *lse, *row_sums, *statistics, *dweight, *rope, *master, *first, *second;
static void *logits;
static int32_t *tokens, *positions;
static double *scalar;
static const p4d_dtype T = P4D_DT_BF16;
static uint64_t length = N; /* tokens of a sequence; there are N tokens in all */
static uint64_t query_heads = HEADS, width = D;
static product now_timed;
static void *workspace;
static uint64_t workspace_bytes; /* bytes that the plan reserves on any GPU */

/* Packed documents of one length, in sequences of the maximum length of 8B. */
enum { PACKED = 8192, MOST_DOCUMENTS = 32, PLACES = MOST_DOCUMENTS + P4D_DOCUMENT_PADDING, HOPPER = 90 };
static const uint64_t packed_lengths[] = {8192, 2048, 512};
static int32_t *document_numbers, *document_places;
static p4d_attention_documents packed; /* its member `most` is 0 if sequences are not packed */

static p4d_attention_shape attention_shape(void)
{
	return (p4d_attention_shape){.batch = N / length,
				     .queries = length,
				     .keys = length,
				     .heads = query_heads,
				     .kv_heads = KV_HEADS,
				     .head_dim = width,
				     .query_position = positions,
				     .key_position = positions,
				     .query_stride = (query_heads + 2 * KV_HEADS) * width,
				     .key_stride = (query_heads + 2 * KV_HEADS) * width,
				     .scale = 0.0883883f,
				     .query_document = packed.most ? document_numbers : NULL,
				     .key_document = packed.most ? document_numbers : NULL,
				     .blocks = 1,
				     .block = {{0, length, length, true}},
				     .packed = packed,
				     .workspace_bytes = workspace_bytes,
				     .output = attention_output};
}

static void linear(void)
{
	device.linear(&device, T, wide, NULL, x, w, now_timed.n, now_timed.out, now_timed.in);
}
static void linear_input(void)
{
	device.linear_input(&device, T, x, wide, w, now_timed.n, now_timed.out, now_timed.in, false);
}
static void linear_weight(void)
{
	device.linear_weight(&device, T, dw, wide, x, now_timed.n, now_timed.out, now_timed.in, true);
}
static void linear_logits(void)
{
	device.linear(&device, T, logits, NULL, x, table, now_timed.n, now_timed.out, now_timed.in);
}
static void norm(void)
{
	device.norm(&device, T, qkv, rstd, x, norm_weight, N, H, 1e-5f);
}
static void norm_backward(void)
{
	device.norm_backward(&device, T, qkv, dweight, dqkv, x, norm_weight, rstd, N, H);
}
static void swiglu(void)
{
	device.swiglu(&device, T, attention_output, wide, N, F);
}
static void swiglu_backward(void)
{
	device.swiglu_backward(&device, T, wide, x, attention_output, N, F);
}
static void add(void)
{
	device.add(&device, T, x, x, qkv, (uint64_t)N * H);
}
static void embed(void)
{
	device.embed(&device, T, x, table, tokens, N, H, 0, VOCAB);
}
static void embed_backward(void)
{
	device.embed_backward(&device, T, dw, x, tokens, N, H, 0, 2 * F);
}
static void statistic(void)
{
	device.softmax_sums(&device, T, statistics, statistics + CHUNK, statistics + 2 * CHUNK, logits, VOCAB,
			    tokens, CHUNK, VOCAB, 0);
}
static void gradient(void)
{
	device.logits_gradient(&device, T, logits, VOCAB, statistics, statistics + CHUNK, tokens, CHUNK,
			       VOCAB, 0, 1, 0);
}
static void cross_entropy(void)
{
	device.cross_entropy(&device, T, statistics, statistics + CHUNK, statistics + 2 * CHUNK, logits,
			     VOCAB, tokens, CHUNK, VOCAB, 1, 0);
}
static void squares(void)
{
	device.sum_squares(&device, scalar, dw, (uint64_t)2 * F * H);
}
static void cast(void)
{
	device.cast(&device, T, w, P4D_DT_FP32, dw, (uint64_t)2 * F * H);
}
static void adam(void)
{
	const p4d_adam step = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 1, 1, 1};

	device.adam(&device, T, w, master, first, second, dw, (uint64_t)2 * F * H, &step);
}

static void copy(void)
{
	device.copy(&device, first, second, (uint64_t)2 * F * H * 4);
}

static void heads(void)
{
	const p4d_heads shape = {
	    .n = N, .length = N / 2, .heads = HEADS, .kv_heads = KV_HEADS, .head_dim = D, .rope = rope};

	device.heads(&device, T, qkv, NULL, &shape);
}

static void attention(void)
{
	const p4d_attention_shape shape = attention_shape();

	char *const k = (char *)qkv + query_heads * width * 2;

	device.attention(&device, T, attention_output, lse, qkv, k, k + KV_HEADS * width * 2, &shape,
			 workspace);
}

static void attention_gradient(void)
{
	const p4d_attention_shape shape = attention_shape();

	device.attention_gradient(&device, T, dqkv, NULL, attention_output, lse, row_sums, qkv, &shape,
				  workspace);
}

static void print_attention(void)
{
	char name[64];

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		length = shapes[i].length;
		query_heads = shapes[i].heads;
		width = shapes[i].width;
		const double pairs = 0.5 * (double)N * (double)length * (double)(query_heads * width) * 2;
		snprintf(name, sizeof(name), "attention %s, %d tokens", shapes[i].name, (int)length);
		flop_rate(name, attention, 2 * pairs);
		if (shapes[i].forward > 0)
			printf("%s, cuDNN on an H200\t%.1f\tTFLOP/s\n", name, shapes[i].forward);
		snprintf(name, sizeof(name), "attention_gradient %s, %d tokens", shapes[i].name, (int)length);
		flop_rate(name, attention_gradient, 5 * pairs);
		if (shapes[i].backward > 0)
			printf("%s, cuDNN on an H200\t%.1f\tTFLOP/s\n", name, shapes[i].backward);
	}
	printf("attention by %s\n", device.attention_text);
}

/* Puts all documents of the N tokens into one call. */
static void put_documents(uint64_t tokens_each)
{
	static const uint64_t none = 0;
	static int32_t numbers[N], places[P4D_DOCUMENT_ROWS][PLACES];
	const uint64_t kv = KV_HEADS * width, query = query_heads * width, count = N / tokens_each;
	const uint64_t unit[] = {query + 2 * kv, query, query_heads};

	for (uint64_t i = 0; i < N; i++)
		numbers[i] = (int32_t)(i / tokens_each);
	for (uint64_t i = 0; i < PLACES; i++) {
		places[0][i] = i < count ? (int32_t)tokens_each : 0;
		for (int u = 0; u < P4D_DOCUMENT_ROWS - 1; u++)
			places[u + 1][i] = (int32_t)((i < count ? i : count) * tokens_each * unit[u]);
	}
	device.upload(&device, document_numbers, numbers, sizeof(numbers));
	device.upload(&device, document_places, places, sizeof(places));
	packed = (p4d_attention_documents){
	    .most = MOST_DOCUMENTS, .groups = 1, .first = &none, .places = document_places};
}

static void print_documents(void)
{
	char name[64];

	length = PACKED;
	query_heads = HEADS;
	width = D;
	for (size_t i = 0; i < sizeof(packed_lengths) / sizeof(*packed_lengths); i++) {
		const uint64_t each = packed_lengths[i];
		const double pairs = 0.5 * (double)N * (double)each * (double)(query_heads * width) * 2;
		put_documents(each);
		snprintf(name, sizeof(name), "attention 8B, documents of %d tokens", (int)each);
		flop_rate(name, attention, 2 * pairs);
		snprintf(name, sizeof(name), "attention_gradient 8B, documents of %d tokens", (int)each);
		flop_rate(name, attention_gradient, 5 * pairs);
	}
	printf("documents by %s\n", device.attention_text);
	packed.most = 0;
}

static void print_product(const char *name, void (*queue)(void), product p)
{
	char text[64];

	now_timed = p;
	snprintf(text, sizeof(text), "%s%s", name, p.name);
	flop_rate(text, queue, 2.0 * (double)(p.n * p.out * p.in));
}

static void print_products(void)
{
	print_product("linear", linear, gate_up_8b);
	print_product("linear_input", linear_input, gate_up_8b);
	print_product("linear_weight", linear_weight, gate_up_8b);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		print_product("linear", linear, others[i]);
		print_product("linear_input", linear_input, others[i]);
		print_product("linear_weight", linear_weight, others[i]);
	}
	for (size_t i = 0; i < sizeof(logits_of) / sizeof(*logits_of); i++)
		print_product("linear_logits", linear_logits, logits_of[i]);
}

static void make_operands(void)
{
	const uint64_t weights = (uint64_t)2 * F * H;
	int32_t host[N];

	device.set_workspace(&device, take(32 << 20), 32 << 20, take(64 << 20), 64 << 20);
	x = random_bf16((uint64_t)N * H);
	w = random_bf16(weights);
	wide = random_bf16((uint64_t)N * 2 * F);
	qkv = random_bf16((uint64_t)N * COLUMNS);
	dqkv = random_bf16((uint64_t)N * COLUMNS);
	attention_output = random_bf16((uint64_t)N * F);
	table = random_bf16((uint64_t)VOCAB * H);
	norm_weight = random_bf16(H);
	logits = take((uint64_t)MOST_CHUNK * VOCAB * 2);
	dw = take(weights * 4);
	master = take(weights * 4);
	first = take(weights * 4);
	second = take(weights * 4);
	rstd = take(N * 4);
	dweight = take(H * 4);
	lse = take((uint64_t)N * HEADS * 4);
	row_sums = take((uint64_t)N * HEADS * 4);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		const p4d_attention_split split = {.batch = N / shapes[i].length,
						   .heads = shapes[i].heads,
						   .kv_heads = KV_HEADS,
						   .head_dim = shapes[i].width,
						   .seq_len = shapes[i].length,
						   .cp = 1,
						   .documents = MOST_DOCUMENTS};
		const uint64_t bytes = p4d_attention_workspace_most(0, &split, true),
			       documents = p4d_attention_workspace_most(HOPPER, &split, true);
		workspace_bytes = bytes > workspace_bytes ? bytes : workspace_bytes;
		workspace_bytes = documents > workspace_bytes ? documents : workspace_bytes;
	}
	workspace = take(workspace_bytes);
	statistics = take(3 * CHUNK * 4);
	rope = take((uint64_t)N * D * 4);
	tokens = take(sizeof(host));
	positions = take(sizeof(host));
	document_numbers = take(sizeof(host));
	document_places = take(sizeof(int32_t) * P4D_DOCUMENT_ROWS * PLACES);
	scalar = take(sizeof(*scalar));
	device.zero(&device, logits, (uint64_t)((char *)(scalar + 1) - (char *)logits));
	for (int i = 0; i < N; i++)
		host[i] = (int32_t)((unsigned)i * 2654435761u % VOCAB);
	device.upload(&device, tokens, host, sizeof(host));
	for (int i = 0; i < N; i++)
		host[i] = i;
	device.upload(&device, positions, host, sizeof(host));
	finish("operands");
}

int main(void)
{
	const double weights = 2.0 * F * H;
	p4d_error err;
	void *memory;

	if (p4d_device_cuda_load(&device, 0, &err) < 0)
		die("no device", &err);
	arena_bytes = (uint64_t)11 << 30;
	if (device.allocate(&device, arena_bytes, &memory, &err) < 0)
		die("no arena", &err);
	arena = memory;
	make_operands();
	copy_rate = print_rate("copy", copy, weights * 8 / 1e9, "GB/s", 0);
	print_products();
	print_attention();
	byte_rate("norm", norm, 2.0 * N * H * 2);
	byte_rate("norm_backward", norm_backward, 4.0 * N * H * 2);
	byte_rate("heads", heads, 2.0 * N * (Q + KV) * 2);
	byte_rate("swiglu", swiglu, 3.0 * N * F * 2);
	byte_rate("swiglu_backward", swiglu_backward, 6.0 * N * F * 2);
	byte_rate("add", add, 3.0 * N * H * 2);
	byte_rate("embed", embed, 2.0 * N * H * 2);
	byte_rate("embed_backward", embed_backward, (double)N * H * 10);
	byte_rate("statistics", statistic, (double)CHUNK * VOCAB * 2);
	byte_rate("logits_gradient", gradient, (double)CHUNK * VOCAB * 4);
	byte_rate("cross_entropy", cross_entropy, (double)CHUNK * VOCAB * 4);
	byte_rate("sum_squares", squares, weights * 4);
	byte_rate("cast", cast, weights * 6);
	byte_rate("adam", adam, weights * 30);
	const bool slow = device.attention_slow;
	print_documents(); /* p4d's own kernels, because cuDNN does not compute documents on some GPUs */
	device.release(&device, arena);
	device.close(&device);
	return slow;
}
