/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms of matmuls: p4d measures them and takes the fastest, and all ranks use the first rank's
 * choice. shim_cublaslt.c replaces the library and gives each algorithm a time. */
#include "support/support.h"

#include <math.h>
#include <sys/mman.h>

#include "comm/transport/transport_open.h"
#include "device/cuda/gemm_internal.h"
#include "doubles/cuda/cublasLt.h"
#include "support/device_under_test.h"
#include "support/forked.h"
#include "support/training.h"

static const uint64_t sizes[][3] = {{16, 32, 48}, {64, 16, 80}, {128, 96, 32},
				    {16, 16, 16}, {24, 40, 8},  {8, 8, 200}};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* y (n, out) = x (n, in) * w (out, in)^T; for the library it is (out, n) with depth in */
static void multiply(p4d_device *device, const uint64_t size[3])
{
	static float y[1 << 14], x[1 << 14], w[1 << 14];

	device->linear(device, P4D_DT_FP32, y, NULL, x, w, size[0], size[1], size[2]);
	finish(device);
}

static unsigned fastest(const uint64_t size[3])
{
	unsigned best = 0;

	for (unsigned i = 1; i < P4D_SHIM_ALGORITHMS; i++)
		if (i != P4D_SHIM_NOT_RUN && p4d_shim_milliseconds(size[1], size[0], size[2], i) <
						 p4d_shim_milliseconds(size[1], size[0], size[2], best))
			best = i;
	return best;
}

static void the_fastest_is_taken(void **state)
{
	p4d_timed_product timed;
	p4d_device device;
	unsigned others = 0;

	(void)state;
	assert_int_equal(open_device_under_test(&device, NULL), 0);
	device.time_products(&device, true);
	for (int i = 0; i < SIZES; i++)
		multiply(&device, sizes[i]);
	device.time_products(&device, false);
	for (int i = 0; i < SIZES; i++) {
		const unsigned best = fastest(sizes[i]);
		const float first = p4d_shim_milliseconds(sizes[i][1], sizes[i][0], sizes[i][2], 0),
			    least = p4d_shim_milliseconds(sizes[i][1], sizes[i][0], sizes[i][2], best);
		assert_true(device.timed_product(&device, (unsigned)i, &timed));
		assert_int_equal(timed.choice.algorithm, least < 0.99f * first ? best : 0);
		assert_int_equal(timed.choice.proposed, P4D_SHIM_ALGORITHMS);
		if (timed.choice.algorithm)
			assert_true(fabsf(timed.gain - first / least) < 1e-4f);
		others += timed.choice.algorithm != 0;
		/* later calls use this algorithm and do not measure again */
		const double before = p4d_shim_gpu.milliseconds;
		multiply(&device, sizes[i]);
		assert_int_equal(p4d_shim_gpu.algorithm, timed.choice.algorithm);
		assert_true(fabs(p4d_shim_gpu.milliseconds - before - (double)least) < 1e-6);
	}
	assert_true(others > SIZES / 2); /* if the first algorithm were always the fastest, the test would
					  * show nothing */
	assert_false(device.timed_product(&device, SIZES, &timed));
	device.close(&device);
}

/* Number of shapes whose algorithms were measured. */
static unsigned count_timed(p4d_device *device)
{
	p4d_timed_product timed;
	unsigned count = 0;

	while (device->timed_product(device, count, &timed))
		count++;
	return count;
}

/* If the table is full, a new shape replaces the shape that was used longest ago. */
static void what_is_in_use_stays_timed(void **state)
{
	enum { MANY = P4D_GEMM_SHAPES + 100 };
	const uint64_t *kept = sizes[0];
	p4d_device device;

	for (int i = 1; i < SIZES && !fastest(kept); i++)
		kept = sizes[i];
	(void)state;
	assert_true(fastest(kept) > 0);
	assert_int_equal(open_device_under_test(&device, NULL), 0);
	device.time_products(&device, true);
	for (uint64_t i = 0; i < MANY; i++) {
		multiply(&device, kept);
		multiply(&device, (const uint64_t[]){1, 1 + i, 1});
	}
	device.time_products(&device, false);
	assert_int_equal(count_timed(&device), P4D_GEMM_SHAPES);
	multiply(&device, kept);
	assert_int_equal(p4d_shim_gpu.algorithm, fastest(kept));
	multiply(&device, (const uint64_t[]){1, MANY, 1}); /* this shape is still in the table */
	assert_int_equal(count_timed(&device), P4D_GEMM_SHAPES);
	multiply(&device, (const uint64_t[]){1, 1, 1}); /* the first shape was replaced, so it is new and
							 * not measured */
	assert_int_equal(count_timed(&device), P4D_GEMM_SHAPES - 1);
	device.close(&device);
}

static void untimed_products_are_the_librarys(void **state)
{
	p4d_timed_product timed;
	p4d_device device;

	(void)state;
	assert_int_equal(open_device_under_test(&device, NULL), 0);
	multiply(&device, sizes[0]);
	assert_int_equal(p4d_shim_gpu.algorithm, 0);
	assert_false(device.timed_product(&device, 0, &timed));
	device.close(&device);
}

/* A rank uses another rank's choice if its library proposes the same number of algorithms. If the number
 * differs, GPU or library differ. */
static void choices_of_others(void **state)
{
	p4d_timed_product timed;
	p4d_device device;

	(void)state;
	assert_int_equal(open_device_under_test(&device, NULL), 0);
	device.time_products(&device, true);
	multiply(&device, sizes[0]);
	device.time_products(&device, false);
	assert_true(device.timed_product(&device, 0, &timed));
	p4d_product_choice other = timed.choice;
	other.algorithm = (timed.choice.algorithm + 1) % 3;
	other.proposed--;
	device.choose_product(&device, &other);
	multiply(&device, sizes[0]);
	assert_int_equal(p4d_shim_gpu.algorithm, timed.choice.algorithm);
	other.proposed++;
	device.choose_product(&device, &other);
	multiply(&device, sizes[0]);
	assert_int_equal(p4d_shim_gpu.algorithm, other.algorithm);
	device.close(&device);
}

enum { RANKS = 2, MOST = 64 };
static p4d_layout layout;
/* The choices of all ranks, in memory shared with the parent. */
static struct {
	unsigned count;
	p4d_product_choice of[MOST];
} * taken;

static int open_rank(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_transport *transport;
	p4d_timed_product timed;
	p4d_trainer *trainer;
	p4d_device device;
	p4d_group *all;

	p4d_shim_gpu.seed = 1000 * rank; /* two GPUs never measure the same */
	TRY(p4d_group_open(&all, world, (const uint32_t[]){0, 1}, size, err));
	TRY(open_cuda(&device, err));
	TRY(p4d_comm_transport_open(&transport, all, &device, P4D_TRANSPORT_STAGED, NULL, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, layout.vocab);
	settings.net.transport = transport;
	TRY(p4d_trainer_open(&trainer, &settings, err));
	while (taken[rank].count < MOST && device.timed_product(&device, taken[rank].count, &timed))
		taken[rank].of[taken[rank].count++] = timed.choice;
	p4d_trainer_close(trainer);
	p4d_comm_transport_close(transport);
	p4d_group_close(all);
	device.close(&device);
	return 0;
}

static void open_ranks(void)
{
	p4d_error err;
	forked f;

	if (training_layout("model=custom layers=1 hidden=64 ffn=96 heads=4 kv-heads=2 head-dim=16 vocab=96 "
			    "tied=off bias=none qk-norm=off seq-len=32 global-batch=2 micro-batch=1 tp=1 "
			    "cp=1 pp=1 vpp=1 device=cuda "
			    "precision=bf16",
			    RANKS, &layout, &err) < 0)
		fail_msg("%s", err.text);
	memset(taken, 0, RANKS * sizeof(*taken));
	forked_init(&f, RANKS, NULL);
	forked_start(&f, open_rank);
	if (!forked_finish(&f, 60) || !forked_all_well(&f))
		fail_msg("ranks failed");
}

static void ranks_agree(void **state)
{
	unsigned others = 0;

	(void)state;
	open_ranks();
	assert_true(taken[0].count >= 12); /* three matmuls for each of four matrices of a layer */
	assert_int_equal(taken[0].count, taken[1].count);
	for (unsigned i = 0; i < taken[0].count; i++) {
		assert_memory_equal(&taken[0].of[i], &taken[1].of[i], sizeof(*taken[0].of));
		others += taken[0].of[i].algorithm != 0;
	}
	assert_true(others > 0);
}

static void timing_can_be_left_out(void **state)
{
	(void)state;
	setenv("P4D_TIME_PRODUCTS", "0", 1);
	open_ranks();
	unsetenv("P4D_TIME_PRODUCTS");
	assert_int_equal(taken[0].count, 0);
}

static int set_up(void **state)
{
	(void)state;
	taken = mmap(NULL, RANKS * sizeof(*taken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return taken == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_fastest_is_taken),
	    cmocka_unit_test(what_is_in_use_stays_timed),
	    cmocka_unit_test(untimed_products_are_the_librarys),
	    cmocka_unit_test(choices_of_others),
	    cmocka_unit_test(ranks_agree),
	    cmocka_unit_test(timing_can_be_left_out),
	};

	return cmocka_run_group_tests_name("algorithms of products", tests, set_up, NULL);
}
