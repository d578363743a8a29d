/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of cuDNN engines that compile code: which plans are finalized, and which values a program can read
 * without that. */
#include <stdint.h>

#include "dnn.h"
#include "support/support.h"

/* A stand-in for cuDNN, whose configuration number c has engine c / 100 and a workspace of c bytes. Engine
 * 9 needs no compiler. Plans of engine 8 need a larger workspace than their configuration says. */
enum { PLANS = 8, NO_COMPILER = 9, SAYS_LESS = 8, OTHER_ATTRIBUTE = DNN_PLAN_JSON };
static int configurations[PLANS], finalized[PLANS];
static char plans[PLANS][16], engine;

static int number_of(const void *plan)
{
	return (int)(((const char *)plan - plans[0]) / 16);
}

static int create(int type, void **descriptor)
{
	assert_int_equal(type, DNN_ENGINE);
	*descriptor = &engine;
	return DNN_OK;
}

static int get(const void *descriptor, int attribute, int type, int64_t room, int64_t *count, void *values)
{
	static int asked; /* the configuration whose engine the program read last */

	(void)type, (void)room;
	*count = 1;
	switch (attribute) {
	case DNN_CONFIGURATION_ENGINE:
		asked = *(const int *)descriptor;
		return DNN_OK;
	case DNN_ENGINE_INDEX:
		*(int64_t *)values = asked / 100;
		return DNN_OK;
	case DNN_ENGINE_NOTES:
		*count = asked / 100 != NO_COMPILER;
		*(int *)values = DNN_NOTE_COMPILES;
		return DNN_OK;
	case DNN_CONFIGURATION_WORKSPACE:
		*(int64_t *)values = *(const int *)descriptor;
		return DNN_OK;
	default:
		assert_int_equal(attribute, DNN_PLAN_WORKSPACE);
		const int configuration = configurations[number_of(descriptor)];
		*(int64_t *)values = configuration + (configuration / 100 == SAYS_LESS);
		return DNN_OK;
	}
}

static int finalize(void *plan)
{
	finalized[number_of(plan)]++;
	return DNN_OK;
}

static int destroy(void *descriptor)
{
	(void)descriptor;
	return DNN_OK;
}

static const p4d_dnn_library library = {
    .create = create, .get = get, .finalize = finalize, .destroy = destroy};

/* Makes a plan. Returns how often cuDNN has finalized it. */
static int plan(int number, int configuration)
{
	configurations[number] = configuration;
	finalized[number] = 0;
	p4d_dnn_plan_configure(&library, plans[number], &configurations[number]);
	assert_int_equal(p4d_dnn_plan_finalize(&library, plans[number]), DNN_OK);
	return finalized[number];
}

static void an_engine_compiles_once(void **state)
{
	int64_t bytes = 0;

	(void)state;
	assert_int_equal(plan(0, 100), 1);
	assert_false(p4d_dnn_plan_workspace(plans[0], &bytes));
	assert_int_equal(plan(1, 128), 0);
	assert_true(p4d_dnn_plan_workspace(plans[1], &bytes));
	assert_int_equal(bytes, 128);
	assert_int_equal(plan(2, 200), 1); /* another engine */
	/* if the program reads anything but the workspace, cuDNN must finalize the plan */
	assert_int_equal(p4d_dnn_plan_complete(&library, plans[1]), DNN_OK);
	assert_int_equal(finalized[1], 1);
	assert_false(p4d_dnn_plan_workspace(plans[1], &bytes));
	assert_int_equal(p4d_dnn_plan_complete(&library, plans[1]), DNN_OK);
	assert_int_equal(finalized[1], 1);
	for (int i = 0; i < 3; i++)
		p4d_dnn_plan_forget(plans[i]);
	assert_int_equal(plan(3, 0), 1);
	p4d_dnn_plan_forget(plans[3]);
}

static void other_engines_make_each_plan(void **state)
{
	static const int others[] = {NO_COMPILER, SAYS_LESS};

	(void)state;
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < 3; i++) {
			assert_int_equal(plan(i, 100 * others[k] + i), 1);
			p4d_dnn_plan_forget(plans[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_engine_compiles_once),
	    cmocka_unit_test(other_engines_make_each_plan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
