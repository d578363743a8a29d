/* SPDX-License-Identifier: Apache-2.0 */
/* The part of PyTorch's caching allocator that decides how much memory PyTorch reserves. */
#include "support/support.h"

#include "plan/caching_allocator.h"

#define MIB ((uint64_t)1 << 20)

static p4d_caching_allocator a;

static uint64_t reserved(void)
{
	return a.most_reserved / MIB;
}

static p4d_allocated take(uint64_t mib)
{
	return p4d_caching_allocator_take(&a, mib * MIB);
}

static void segments(void **state)
{
	(void)state;
	p4d_caching_allocator_start(&a, false);
	take(3); /* a block below 10 MiB is in a segment of 20 MiB */
	assert_int_equal(reserved(), 20);
	take(9);
	assert_int_equal(reserved(), 20);
	take(9);
	assert_int_equal(reserved(), 40);
	take(31); /* the size is rounded to 2 MiB */
	assert_int_equal(reserved(), 72);
	p4d_caching_allocator_take(&a, 1000); /* small ones share segments of 2 MiB */
	p4d_caching_allocator_take(&a, MIB);
	assert_int_equal(reserved(), 74);
}

/* A block that is larger than all free blocks needs new memory. Otherwise the allocator splits the
 * smallest free block that is large enough. Both parts are joined again when they are free. */
static void holes(void **state)
{
	(void)state;
	p4d_caching_allocator_start(&a, false);
	const p4d_allocated large = take(100), less = take(60);
	p4d_caching_allocator_give(&a, large);
	p4d_caching_allocator_give(&a, less);
	const p4d_allocated part = take(50); /* takes a part of the freed 60 MiB */
	const p4d_allocated whole = take(100);
	assert_int_equal(reserved(), 160);
	p4d_caching_allocator_give(&a, whole);
	p4d_caching_allocator_give(&a, part);
	p4d_caching_allocator_give(&a, take(60));
	assert_int_equal(reserved(), 160);
	take(101);
	assert_int_equal(reserved(), 262);
}

/* A growing (expandable) segment uses the free memory at its end before it grows. */
static void growing(void **state)
{
	(void)state;
	p4d_caching_allocator_start(&a, true);
	const p4d_allocated first = take(100), last = take(60);
	assert_int_equal(reserved(), 160);
	p4d_caching_allocator_give(&a, last);
	take(90);
	assert_int_equal(reserved(), 200);
	p4d_caching_allocator_give(&a, first);
	take(101);
	assert_int_equal(reserved(), 300);
}

/* In a growing segment, the rest of a split block stays usable, whatever its size. Free memory at the end
 * of the segment is used last. */
static void rests(void **state)
{
	(void)state;
	p4d_caching_allocator_start(&a, true);
	const p4d_allocated hole = take(60);
	take(20);
	take(10); /* the end of the segment has 10 MiB left; the hole has 60 MiB */
	p4d_caching_allocator_give(&a, hole);
	take(8);
	take(52);
	take(10);
	assert_int_equal(reserved(), 100);
	p4d_caching_allocator_take(&a, 2 * MIB - 512);
	p4d_caching_allocator_take(&a, 18 * MIB + 512);
	assert_int_equal(reserved(), 120);
}

/* trim returns free segments to the driver. reserved() still gives the highest amount. */
static void trimmed(void **state)
{
	(void)state;
	for (int expandable = 0; expandable < 2; expandable++) {
		p4d_caching_allocator_start(&a, expandable);
		const p4d_allocated whole = take(100);
		take(60);
		p4d_caching_allocator_give(&a, whole);
		p4d_caching_allocator_trim(&a);
		assert_int_equal(a.reserved / MIB, 60);
		assert_int_equal(reserved(), 160);
		take(40); /* takes memory from the driver again */
		assert_int_equal(a.reserved / MIB, 100);
		assert_int_equal(reserved(), 160);
	}
}

static void too_many(void **state)
{
	(void)state;
	p4d_caching_allocator_start(&a, false);
	for (int i = 0; i < P4D_ALLOCATOR_BLOCKS + 10; i++)
		take(11);
	assert_true(a.overflow);
	p4d_caching_allocator_start(&a, false);
	for (int i = 0; i < P4D_ALLOCATOR_BLOCKS - 2; i++)
		take(11);
	assert_false(a.overflow);
	take(2); /* there is room for the list entry of the block, but not for that of the rest of its
		  * segment */
	assert_true(a.overflow);
}

/* If a program frees a block twice, the simulation gives up (overflow), and does not access wrong memory. */
static void given_twice(void **state)
{
	(void)state;
	for (int expandable = 0; expandable < 2; expandable++) {
		p4d_caching_allocator_start(&a, expandable);
		const p4d_allocated first = take(30), second = take(40);
		take(50);
		p4d_caching_allocator_give(&a, second);
		p4d_caching_allocator_give(&a, first); /* without a growing segment, blocks of different
							* segments are not joined */
		assert_false(a.overflow);
		for (int i = 0; i < 3; i++) {
			p4d_caching_allocator_give(&a, second);
			p4d_caching_allocator_give(&a, first);
			p4d_caching_allocator_give(&a, P4D_ALLOCATOR_BLOCKS - 1);
		}
		assert_true(a.overflow);
		assert_within(a.free_count, 1, 2);
		take(30);
	}
}

/* If the device has no memory left, the free segments of all streams are returned before an allocation
 * fails. */
static void shortage(void **state)
{
	static p4d_caching_allocator other;

	(void)state;
	for (int expandable = 0; expandable < 2; expandable++) {
		p4d_allocator_streams s = {.room = 200 * MIB};
		p4d_caching_allocator_start(&a, expandable);
		p4d_caching_allocator_start(&other, expandable);
		p4d_caching_allocator_add(&s, &a);
		p4d_caching_allocator_add(&s, &other);
		p4d_caching_allocator_give(&other, p4d_caching_allocator_take(&other, 100 * MIB));
		take(60);
		assert_int_equal(s.reserved / MIB, 160);
		take(80); /* the other stream's 100 MiB are returned */
		assert_int_equal(s.reserved / MIB, 140);
		assert_int_equal(s.most_reserved / MIB, 160);
		assert_int_equal(s.most_taken / MIB, 140);
		assert_false(s.exhausted);
		take(80);
		assert_true(s.exhausted);
		assert_int_equal(take(1), 0);
		assert_false(a.overflow);
	}
}

/* A growing segment returns only whole pages of 20 MiB. The rest around these pages can be used again. */
static void unmapped(void **state)
{
	p4d_allocator_streams s = {.room = 100 * MIB};

	(void)state;
	p4d_caching_allocator_start(&a, true);
	p4d_caching_allocator_add(&s, &a);
	take(10);
	const p4d_allocated hole = take(60); /* takes the range from 10 to 70 MiB */
	take(10);
	p4d_caching_allocator_give(&a, hole);
	p4d_caching_allocator_trim(&a); /* returns 20 to 60 MiB */
	assert_int_equal(s.reserved / MIB, 40);
	take(10); /* the ranges 10 to 20 and 60 to 70 MiB are free again */
	take(10);
	assert_int_equal(s.reserved / MIB, 40);
	take(60);
	assert_int_equal(s.reserved / MIB, 100);
	assert_false(s.exhausted || a.overflow);
}

/* Three times: two blocks of 100 MiB are taken and freed, then a block of 150 MiB in another stream. */
static uint64_t play(void *of, uint64_t room, p4d_allocator_use *use)
{
	static p4d_caching_allocator other;
	p4d_allocator_streams s = {.room = room};

	(void)of;
	p4d_caching_allocator_start(&a, false);
	p4d_caching_allocator_start(&other, false);
	p4d_caching_allocator_add(&s, &a);
	p4d_caching_allocator_add(&s, &other);
	take(20);
	for (int i = 0; i < 3; i++) {
		const p4d_allocated first = take(100), second = take(100);
		p4d_caching_allocator_give(&a, first);
		p4d_caching_allocator_give(&a, second);
		p4d_caching_allocator_give(&other, p4d_caching_allocator_take(&other, 150 * MIB));
	}
	*use = (p4d_allocator_use){s.most_taken, s.work};
	return s.exhausted ? UINT64_MAX : s.most_reserved;
}

static unsigned plays;

/* Takes and returns many small blocks, and then takes a large one. */
static uint64_t long_play(void *of, uint64_t room, p4d_allocator_use *use)
{
	const unsigned *many = of;
	p4d_allocator_streams s = {.room = room};

	plays++;
	p4d_caching_allocator_start(&a, false);
	p4d_caching_allocator_add(&s, &a);
	for (unsigned i = 0; i < *many && !s.exhausted; i++)
		p4d_caching_allocator_give(&a, take(30 + i % 7));
	take(30);
	take(100);
	*use = (p4d_allocator_use){s.most_taken, s.work};
	return a.overflow ? 0 : s.exhausted ? UINT64_MAX : s.most_reserved;
}

/* A simulation ends at a limit of work. A long simulation is repeated less often than a short one. */
static void bounded_work(void **state)
{
	unsigned few = 100, some = 40000, many = 200000;
	uint64_t taken;

	(void)state;
	assert_true(p4d_caching_allocator_least(long_play, &few, &taken) > 0);
	const unsigned often = plays;
	plays = 0;
	assert_true(p4d_caching_allocator_least(long_play, &some, &taken) > 0);
	assert_in_range(plays, 1, often - 1);
	plays = 0;
	assert_int_equal(p4d_caching_allocator_least(long_play, &many, &taken), 0);
	assert_int_equal(plays, 1);
}

static void least_room(void **state)
{
	p4d_allocator_use use;
	uint64_t taken;

	(void)state;
	assert_int_equal(play(NULL, UINT64_MAX, &use) / MIB, 370);
	assert_int_equal(use.taken / MIB, 220);
	assert_int_equal(use.work, 10);
	assert_in_range(p4d_caching_allocator_least(play, NULL, &taken) / MIB, 220, 226);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bounded_work), cmocka_unit_test(segments),    cmocka_unit_test(holes),
	    cmocka_unit_test(growing),      cmocka_unit_test(rests),       cmocka_unit_test(trimmed),
	    cmocka_unit_test(too_many),     cmocka_unit_test(given_twice), cmocka_unit_test(shortage),
	    cmocka_unit_test(unmapped),     cmocka_unit_test(least_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
