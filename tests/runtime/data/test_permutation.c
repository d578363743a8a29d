/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which samples are drawn. It has each element once, all orders are equally likely, and it
 * never changes between versions. */
#include "support/support.h"

#include "data/permutation.h"

static void permutations_are_bijections(void **state)
{
	static bool seen[5000];
	p4d_permutation p;

	(void)state;
	for (uint64_t size = 1; size < 5000; size += 1 + size / 9) {
		p4d_permutation__init(&p, size, size * 77);
		memset(seen, 0, sizeof(seen));
		for (uint64_t i = 0; i < size; i++) {
			uint64_t to = p4d_permutation__apply(&p, i);
			assert_true(to < size && !seen[to]);
			seen[to] = true;
		}
	}
	/* far more elements than a table could have */
	const uint64_t large = ((uint64_t)1 << 62) - 7;
	p4d_permutation__init(&p, large, 5);
	uint64_t last = 0;
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t to = p4d_permutation__apply(&p, large - 1 - i);
		assert_true(to < large && to != last);
		last = to;
	}
}

/* The order must not change between versions or machines, because a resumed run continues in it. */
static void permutation_is_pinned(void **state)
{
	static const uint64_t small[10] = {0, 9, 8, 3, 6, 2, 5, 1, 7, 4};
	static const uint64_t large[3] = {159960699, 893017585, 51496554};
	p4d_permutation p;

	(void)state;
	p4d_permutation__init(&p, 10, 1);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(p4d_permutation__apply(&p, i), small[i]);
	p4d_permutation__init(&p, 1000000007, 2);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(p4d_permutation__apply(&p, i), large[i]);
}

static double chi_square(const unsigned *count, unsigned cells, double expected)
{
	double sum = 0;

	for (unsigned i = 0; i < cells; i++)
		sum += ((double)count[i] - expected) * ((double)count[i] - expected) / expected;
	return sum;
}

/* All 120 orders of five elements are equally likely. So is each place of an element, and each pair of
 * neighbours. */
static void permutations_are_uniform(void **state)
{
	enum { KEYS = 24000, SIZE = 300 };
	static unsigned orders[120], places[SIZE], steps[SIZE];
	p4d_permutation p;

	(void)state;
	for (uint64_t key = 0; key < KEYS; key++) {
		unsigned rank = 0, factorial = 1;
		uint64_t to[5];
		p4d_permutation__init(&p, 5, key);
		for (uint64_t i = 0; i < 5; i++)
			to[i] = p4d_permutation__apply(&p, i);
		for (unsigned i = 5; i-- > 0;) { /* computes the order's number (Lehmer code) */
			unsigned smaller = 0;
			for (unsigned j = i + 1; j < 5; j++)
				smaller += to[j] < to[i];
			rank += smaller * factorial;
			factorial *= 5 - i;
		}
		orders[rank]++;
		p4d_permutation__init(&p, SIZE, key);
		uint64_t a = p4d_permutation__apply(&p, 17), b = p4d_permutation__apply(&p, 18);
		places[a]++;
		steps[(b + SIZE - a) % SIZE]++;
	}
	/* 99.99 % quantiles for 119, 299 and 298 degrees of freedom */
	assert_true(chi_square(orders, 120, KEYS / 120.0) < 184);
	assert_true(chi_square(places, SIZE, (double)KEYS / SIZE) < 396);
	assert_int_equal(steps[0], 0);
	assert_true(chi_square(steps + 1, SIZE - 1, (double)KEYS / (SIZE - 1)) < 395);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(permutations_are_bijections),
	    cmocka_unit_test(permutation_is_pinned),
	    cmocka_unit_test(permutations_are_uniform),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
