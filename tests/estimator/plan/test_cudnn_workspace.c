/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <inttypes.h>

#include "plan/cudnn_workspace.h"

static const int known[] = {80, 86, 89, 90, 100, 103, 120, 121};
#define KNOWN (sizeof(known) / sizeof(*known))

/* One line of attention_workspace.csv. forward, backward: bytes of the workspace; -1: cuDNN refused the
 * graph. */
typedef struct answer {
	int sm;
	uint64_t batch, heads, kv_heads, queries, keys, head_dim;
	int64_t forward, backward;
	bool accepted;
} answer;

/* An empty field means that the graph was refused. strtok would skip empty fields. */
static int64_t next_number(char **rest)
{
	char *field = *rest, *end = field + strcspn(field, ",\n");
	bool empty = end == field;

	*rest = *end ? end + 1 : end;
	*end = '\0';
	if (empty)
		return -1;
	int64_t value = strtoll(field, &end, 10);
	if (*end)
		fail_msg("not a number: %s", field);
	return value;
}

static answer parse(char *line)
{
	answer a = {.sm = (int)next_number(&line)};

	line += strcspn(line, ",") + 1; /* cuDNN's version */
	a.batch = (uint64_t)next_number(&line);
	a.heads = (uint64_t)next_number(&line);
	a.kv_heads = (uint64_t)next_number(&line);
	a.queries = (uint64_t)next_number(&line);
	a.keys = (uint64_t)next_number(&line);
	a.head_dim = (uint64_t)next_number(&line);
	next_number(&line); /* causal */
	a.forward = next_number(&line);
	a.backward = next_number(&line);
	a.accepted = next_number(&line) == 1;
	assert_int_equal(*line, '\0');
	return a;
}

static p4d_attention_bytes workspace_of(int sm, const answer *a)
{
	return p4d_attention_workspace(sm, a->batch, a->heads, a->kv_heads, a->queries, a->keys, a->head_dim);
}

static void sizes_are_what_cudnn_asked_for(void **state)
{
	const char *dir = getenv("P4D_TEST_SRCDIR");
	char path[4096], line[256];
	unsigned accepted[KNOWN] = {0}, refused[KNOWN] = {0}, wrong = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/tests/data/attention_workspace.csv", dir ? dir : ".");
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line,
			    "sm,cudnn,batch,heads,kv_heads,queries,keys,head_dim,causal,forward,backward,"
			    "accepted\n");
	while (fgets(line, sizeof(line), f)) {
		answer a = parse(line);
		p4d_attention_bytes b = workspace_of(a.sm, &a);
		uint64_t forward = a.accepted ? (uint64_t)a.forward : 0;
		uint64_t backward = a.accepted ? (uint64_t)a.backward : 0;

		if (b.fused != a.accepted || b.forward_workspace != forward ||
		    b.backward_workspace != backward ||
		    b.row_sums != a.batch * a.heads * a.queries * sizeof(float) ||
		    b.query_gradient != a.batch * a.heads * a.queries * a.head_dim * sizeof(float)) {
			print_error("sm %d, %" PRIu64 " x %" PRIu64 "/%" PRIu64 " heads of %" PRIu64
				    ", %" PRIu64 " queries, %" PRIu64 " keys: %" PRIu64 " + %" PRIu64
				    ", cuDNN %" PRIu64 " + %" PRIu64 "\n",
				    a.sm, a.batch, a.heads, a.kv_heads, a.head_dim, a.queries, a.keys,
				    b.forward_workspace, b.backward_workspace, forward, backward);
			wrong++;
		}
		for (size_t i = 0; i < KNOWN; i++) {
			accepted[i] += known[i] == a.sm && a.accepted;
			refused[i] += known[i] == a.sm && !a.accepted;
		}
	}
	fclose(f);
	assert_int_equal(wrong, 0);
	for (size_t i = 0; i < KNOWN; i++) {
		if (accepted[i] < 3 || refused[i] < 1)
			fail_msg("sm %d: %u accepted, %u refused rows", known[i], accepted[i], refused[i]);
	}
}

static uint64_t below(uint64_t *seed, uint64_t limit)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % limit;
}

static void an_unknown_gpu_needs_the_most(void **state)
{
	const int unknown[] = {0, 70, 130, -1};
	uint64_t seed = 1;

	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		answer a = {.kv_heads = 1 + below(&seed, 8),
			    .batch = 1 + below(&seed, 4),
			    .queries = 2 + below(&seed, 400),
			    .keys = 2 + below(&seed, 400),
			    .head_dim = 4 * (1 + below(&seed, 72))};
		p4d_attention_bytes most = {.fused = true};

		a.heads = a.kv_heads * (1 + below(&seed, 3));
		for (size_t k = 0; k < KNOWN; k++) {
			p4d_attention_bytes b = workspace_of(known[k], &a);
			if (b.forward_workspace > most.forward_workspace)
				most.forward_workspace = b.forward_workspace;
			if (b.backward_workspace > most.backward_workspace)
				most.backward_workspace = b.backward_workspace;
			most.query_gradient = b.query_gradient;
			most.row_sums = b.row_sums;
			most.fused = most.fused && b.fused;
		}
		p4d_attention_bytes b = workspace_of(unknown[i % 4], &a);
		assert_int_equal(b.forward_workspace, most.forward_workspace);
		assert_int_equal(b.backward_workspace, most.backward_workspace);
		assert_int_equal(b.query_gradient, most.query_gradient);
		assert_int_equal(b.row_sums, most.row_sums);
		assert_int_equal(b.fused, most.fused);
	}
}

static void a_size_beyond_64_bits_does_not_wrap(void **state)
{
	const uint64_t tera = UINT64_C(1) << 40;

	(void)state;
	for (size_t i = 0; i < KNOWN; i++) {
		p4d_attention_bytes b = p4d_attention_workspace(known[i], tera, 8, 2, tera, tera, 128);
		assert_true(b.backward_workspace == UINT64_MAX);
		assert_true(b.query_gradient == UINT64_MAX);
		assert_true(b.row_sums == UINT64_MAX);
		/* rounding the queries up would overflow */
		b = p4d_attention_workspace(known[i], 1, 1, 1, UINT64_MAX, 64, 128);
		assert_true(b.backward_workspace == (known[i] == 90 ? 256 : UINT64_MAX));
	}
}

/* Workspaces of cuDNN 9.19.0 for documents, in plans that it proposed for H200 and B200. */
static void documents(void **state)
{
	static const struct {
		uint64_t documents, forward, backward;
	} answers[] = {{2, 17152, 2048},   {4, 17152, 2944},      {32, 17152, 15488},
		       {64, 17152, 29824}, {512, 131840, 230528}, {1024, 262912, 459904}};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		const uint64_t n = answers[i].documents;
		assert_int_equal(p4d_attention_documents_workspace(n, false), answers[i].forward);
		assert_int_equal(p4d_attention_documents_workspace(n, true), answers[i].backward);
	}
	assert_true(p4d_attention_documents_workspace(UINT64_MAX, true) == UINT64_MAX);
	assert_true(p4d_attention_documents_workspace(UINT64_MAX, false) == UINT64_MAX);
	for (size_t i = 0; i < KNOWN; i++) {
		const bool takes = known[i] == 90 || known[i] == 100 || known[i] == 103;
		assert_int_equal(p4d_attention_takes_documents(known[i], 8192, 128), takes);
		assert_int_equal(p4d_attention_takes_documents(known[i], 8192, 256), known[i] == 90);
		assert_false(p4d_attention_takes_documents(known[i], 128, 128));
		assert_false(p4d_attention_takes_documents(known[i], 8192, 100));
	}
	assert_false(p4d_attention_takes_documents(0, 8192, 128));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_are_what_cudnn_asked_for),
	    cmocka_unit_test(an_unknown_gpu_needs_the_most),
	    cmocka_unit_test(a_size_beyond_64_bits_does_not_wrap),
	    cmocka_unit_test(documents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
