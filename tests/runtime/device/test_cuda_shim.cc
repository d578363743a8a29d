/* SPDX-License-Identifier: Apache-2.0 */
/* The shim makes errors visible if a kernel's warps do not wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}

#include "doubles/cuda/shim.h"

enum { WARPS = 3, THREADS = 32 * WARPS, ROUNDS = 3 };

/*
 * In each round one thread writes a number that all others read. Without the second barrier, it may write the
 * next number before others have read the last one. Between the barriers a warp exchanges numbers, as in sums
 * over blocks.
 */
static bool all_hear(enum p4d_shim_order order, bool waits)
{
	static int number; /* in shared memory */
	bool heard = true;

	p4d_shim_set_order(order);
	p4d_shim_run(dim3(1), THREADS, 0, [&] {
		for (int round = 0; round < ROUNDS; round++) {
			if (threadIdx.x == 0)
				number = round;
			__syncthreads();
			const int own = number;
			if (__shfl_xor_sync(0xffffffffu, own, 1) != round)
				heard = false;
			if (waits)
				__syncthreads();
		}
	});
	p4d_shim_set_order(P4D_SHIM_FORWARD);
	return heard;
}

static void a_warp_writes_before_others_have_read(void **)
{
	assert_true(all_hear(P4D_SHIM_FORWARD, true));
	assert_true(all_hear(P4D_SHIM_BACKWARD, true));
	assert_false(all_hear(P4D_SHIM_FORWARD, false));
}

/* One warp writes a number for the next one to read, with no barrier between. */
static bool next_warp_finds(enum p4d_shim_order order, bool waits)
{
	static int left[WARPS];
	bool found = true;

	memset(left, 0, sizeof(left));
	p4d_shim_set_order(order);
	p4d_shim_run(dim3(1), THREADS, 0, [&] {
		const unsigned warp = threadIdx.x / 32;
		left[warp] = 1;
		if (waits)
			__syncthreads();
		else
			__syncwarp(); /* a barrier only for this warp */
		if (warp > 0 && left[warp - 1] == 0)
			found = false;
	});
	p4d_shim_set_order(P4D_SHIM_FORWARD);
	return found;
}

static void a_warp_reads_before_another_has_written(void **)
{
	assert_true(next_warp_finds(P4D_SHIM_FORWARD, true));
	assert_true(next_warp_finds(P4D_SHIM_BACKWARD, true));
	assert_false(next_warp_finds(P4D_SHIM_BACKWARD, false));
}

int main()
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_warp_writes_before_others_have_read),
	    cmocka_unit_test(a_warp_reads_before_another_has_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
