/* SPDX-License-Identifier: Apache-2.0 */
/* The search chooses token slices only if they are faster, or if nothing else fits. */
#include "support/search_space.h"

#include "cost/cost.h"
#include "request/defaults.h"

enum { ROOM = 4096 };
static p4d_candidate found[ROOM];

static size_t search(const char *options, uint64_t nodes, uint64_t published_batch)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(nodes, 8, "h100-80gb");

	space.published_batch = (uint32_t)published_batch;
	set_all(&r, options);
	const size_t count = p4d_search_run(&r, &space, found, ROOM, NULL);
	assert_true(count < ROOM);
	return count;
}

static uint64_t slices_of(const p4d_candidate *c)
{
	return p4d_is_set(&c->request, P4D_TOKEN_SLICES) ? (uint64_t)c->request.value[P4D_TOKEN_SLICES] : 1;
}

/* A candidate with slices must fit, and must have lengths for its slices. */
static void holds(const p4d_candidate *c, uint64_t nodes)
{
	const p4d_layout l = layout_that_holds(c, nodes, 8);

	assert_int_equal(l.slices, slices_of(c));
	assert_true(l.slices == 1 || p4d_is_set(&c->request, P4D_SLICE_LENGTHS));
}

/* Eight sequences cannot fill the pipeline, so slices make the step faster. */
static void few_sequences(void **state)
{
	const size_t count =
	    search(MODEL_70B "framework=p4d seq-len=65536 global-batch=8 cp=1 pp=8 schedule=1f1b", 8, 0);
	double whole = 0, sliced = 0;

	(void)state;
	assert_true(count > 1);
	for (size_t i = 0; i < count; i++) {
		holds(&found[i], 8);
		double *fastest = slices_of(&found[i]) > 1 ? &sliced : &whole;
		if (*fastest == 0 || found[i].step.seconds < *fastest)
			*fastest = found[i].step.seconds;
	}
	assert_true(sliced > 0 && slices_of(&found[0]) > 1);
	assert_true(whole == 0 || sliced < 0.9 * whole);
}

/* With the requested pipeline and recompute=mlp, whole sequences do not fit, but slices do. */
static void nothing_else_fits(void **state)
{
	static const char options[] =
	    MODEL_70B "framework=p4d seq-len=131072 global-batch=8 tp=8 cp=1 pp=8 schedule=1f1b recompute=";
	char text[1024];

	(void)state;
	snprintf(text, sizeof(text), "%smlp token-slices=1", options);
	assert_int_equal(search(text, 8, 0), 0);
	snprintf(text, sizeof(text), "%smlp", options);
	const size_t count = search(text, 8, 0);
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++) {
		assert_true(slices_of(&found[i]) > 1);
		holds(&found[i], 8);
	}
}

/* The search does not choose slices for shorter sequences, for other frameworks, or against the user's
 * options. */
static void others_are_untouched(void **state)
{
	static const char *const untouched[] = {
	    MODEL_70B "framework=p4d seq-len=16384 global-batch=8 cp=1 pp=8",
	    MODEL_70B "framework=megatron seq-len=65536 global-batch=8 cp=1 pp=8",
	    MODEL_70B "framework=p4d seq-len=65536 global-batch=8 cp=1 pp=8 token-slices=1",
	};

	(void)state;
	for (size_t k = 0; k < sizeof(untouched) / sizeof(*untouched); k++) {
		const size_t count = search(untouched[k], 8, 0);
		assert_true(count > 0 || k == 1);
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(slices_of(&found[i]), 1);
			assert_false(p4d_is_set(&found[i].request, P4D_SLICE_LENGTHS));
		}
	}
	const size_t count = search(
	    MODEL_70B "framework=p4d seq-len=65536 global-batch=8 token-slices=2 slice-lengths=40000,25536",
	    8, 0);
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(found[i].request.slice_lengths, "40000,25536");
		holds(&found[i], 8);
	}
}

/* With many sequences, slices are not faster, so the first layout has none. */
static void many_sequences(void **state)
{
	(void)state;
	assert_true(search(MODEL_70B "framework=p4d seq-len=32768 global-batch=128", 8, 0) > 0);
	assert_int_equal(slices_of(&found[0]), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(few_sequences),
	    cmocka_unit_test(nothing_else_fits),
	    cmocka_unit_test(others_are_untouched),
	    cmocka_unit_test(many_sequences),
	};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
