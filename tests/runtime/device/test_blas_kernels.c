/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that p4d makes OpenBLAS use on a processor that OpenBLAS does not know. */
#include "support/support.h"

#include "device/cpu/blas_kernels.h"

static void kernels_are_what_the_processor_can(void **state)
{
	static const struct {
		const char *taken;
		bool avx2, avx512;
		const char *choice;
	} cases[] = {
	    {"Prescott", true, true, "SKYLAKEX"}, {"Prescott", true, false, "HASWELL"},
	    {"Prescott", false, false, NULL},     {"Sandybridge", true, false, "HASWELL"},
	    {"Haswell", true, true, "SKYLAKEX"},  {"Haswell", true, false, NULL},
	    {"SkylakeX", true, true, NULL},       {"Cooperlake", true, true, NULL},
	    {"SapphireRapids", true, true, NULL}, {"Zen", true, true, NULL},
	    {"Zen", true, false, NULL},           {"Excavator", true, false, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *choice = p4d_blas_kernels_for(cases[i].taken, cases[i].avx2, cases[i].avx512);
		if (!cases[i].choice)
			assert_null(choice);
		else
			assert_string_equal(choice, cases[i].choice);
	}
}

static void nothing_is_said_of_own_choices(void **state)
{
	(void)state;
	assert_string_equal(p4d_blas_kernels_text(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kernels_are_what_the_processor_can),
	    cmocka_unit_test(nothing_is_said_of_own_choices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
