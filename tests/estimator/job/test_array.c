/* SPDX-License-Identifier: Apache-2.0 */
/* --array is read as sbatch reads it. */
#include "support/support.h"

#include "job/array.h"

static void reading(void **state)
{
	(void)state;
	static const struct {
		const char *list;
		uint32_t count, least, most, step, listed, first, last;
	} cases[] = {
	    {"0", 1, 0, 0, 1, 1, 0, 0},
	    {"0-5", 6, 0, 5, 1, 6, 0, 5},
	    {"[0-5]", 6, 0, 5, 1, 6, 0, 5},
	    {"1-9:4%2", 3, 1, 9, 4, 3, 1, 9},
	    {"1-8:4", 2, 1, 5, 4, 2, 1, 5},
	    {"9,1,3-5", 5, 1, 9, 0, 5, 1, 9},
	    {"2,0-3,2", 4, 0, 3, 0, 4, 0, 3}, /* each task counts once */
	    {"0-63", 64, 0, 63, 1, 64, 0, 63},
	    {"0-999", 1000, 0, 999, 1, 64, 0, 63},
	    {"500-999,0-99", 0, 0, 999, 0, 64, 0, 63},
	    {"4294967294", 1, 4294967294, 4294967294, 1, 1, 4294967294, 4294967294},
	    {"0-4294967294", 0, 0, 4294967294, 1, 64, 0, 63},
	};
	p4d_array a;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!p4d_array__read(cases[i].list, &a) || a.count != cases[i].count ||
		    a.least != cases[i].least || a.most != cases[i].most || a.step != cases[i].step ||
		    a.listed != cases[i].listed || a.task[0] != cases[i].first ||
		    a.task[a.listed - 1] != cases[i].last)
			fail_msg("%s: %u of %u, %u-%u:%u", cases[i].list, a.listed, a.count, a.least, a.most,
				 a.step);
}

static void refusing(void **state)
{
	(void)state;
	static const char *const texts[] = {"",     "x",     "-1",         "1-",   "3-1",
					    "1,,2", "1,",    "0-5:0",      "0-5:", "%2",
					    "1 2",  "0x1-3", "4294967295", "1-x",  "[1",
					    "1]x",  "1--3",  "1-3-",       "1;2",  "99999999999999999999",
					    NULL};
	char many[400] = "";
	p4d_array a;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) - 1; i++)
		if (p4d_array__read(texts[i], &a))
			fail_msg("%s: read", texts[i]);
	assert_false(p4d_array__read(NULL, &a));
	for (int i = 0; i < 65; i++)
		strcat(many, i ? ",1" : "1");
	assert_false(p4d_array__read(many, &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(reading), cmocka_unit_test(refusing)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
