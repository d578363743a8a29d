/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a device in fp32 and bf16, compared with the cpu device's results in double for the same
 * inputs. fp32 results agree to 1e-5. bf16 results are the double results, rounded once. */
#include "support/support.h"

#include "support/numbers.h"

#define P4D_CPU_TYPE 32
#include "device/cpu/cpu_math.h"
#include "device/device.h"
#include "support/device_under_test.h"

static p4d_device device;

/* The results of all operations for one type, as a list of values. */
typedef struct record {
	uint64_t count, room;
	struct value {
		const char *name;
		double x;
		bool rounded, first; /* rounded: stored as bf16; first: the first value of a result */
	} * value;
} record;

static record *recording;

static void note(const char *name, double x, bool rounded, bool first)
{
	record *r = recording;

	if (r->count == r->room) {
		r->room = r->room ? 2 * r->room : 1024;
		r->value = realloc(r->value, r->room * sizeof(*r->value));
		assert_non_null(r->value);
	}
	r->value[r->count++] = (struct value){name, x, rounded, first};
}

enum { KEPT = 4096 };
static struct {
	p4d_device *device; /* NULL: memory is the host's */
	void *memory;
} kept[KEPT];
static unsigned number_kept;

/* Memory that lives until all cases of a type have run. */
static void *keep(p4d_device *on, uint64_t bytes)
{
	assert_true(number_kept < KEPT);
	kept[number_kept].device = on;
	void *memory = on ? make_memory(on, bytes) : calloc(bytes ? bytes : 1, 1);
	assert_non_null(memory);
	return kept[number_kept++].memory = memory;
}

static void drop_all(void)
{
	while (number_kept > 0) {
		number_kept--;
		if (kept[number_kept].device)
			drop_memory(kept[number_kept].device, kept[number_kept].memory);
		else
			free(kept[number_kept].memory);
	}
}

#include "support/device_cases.h"
#undef P4D_CPU_TYPE
#define P4D_CPU_TYPE 16
#include "support/device_cases.h"
#undef P4D_CPU_TYPE
#define P4D_CPU_TYPE 64
#include "support/device_cases.h"

static record record_of(void (*cases)(void))
{
	record r = {0};

	recording = &r;
	cases();
	drop_all();
	return r;
}

static void compare(const record *got, const record *exact)
{
	const double half = 1.0 / 256; /* largest relative error of rounding to 8 significant bits */
	double largest = 0, worst = 0;

	assert_int_equal(got->count, exact->count);
	for (uint64_t i = 0; i < got->count; i++) {
		const struct value *g = &got->value[i], *e = &exact->value[i];
		if (e->first) {
			largest = 0;
			for (uint64_t j = i; j < exact->count && (j == i || !exact->value[j].first); j++)
				if (isfinite(exact->value[j].x))
					largest = fmax(largest, fabs(exact->value[j].x));
		}
		if (g->x == e->x)
			continue;
		const double off = fabs(g->x - e->x) - (g->rounded ? half * fabs(e->x) : 0);
		worst = fmax(worst, off / largest);
		if (!(off <= 1e-5 * largest))
			fail_msg("%s: %.9g, not %.9g (largest %.3g)", e->name, g->x, e->x, largest);
	}
	print_message("%llu values, worst %.2g\n", (unsigned long long)got->count, worst);
}

static void types_agree_with_double(void **state)
{
	record exact = record_of(p4d_cpu_all_fp64), fp32 = record_of(p4d_cpu_all_fp32);
	record bf16 = record_of(p4d_cpu_all_bf16);

	(void)state;
	compare(&fp32, &exact);
	compare(&bf16, &exact);
	free(exact.value), free(fp32.value), free(bf16.value);
}

#ifdef P4D_TEST_CUDA
static bool same_bits(double a, double b)
{
	return !memcmp(&a, &b, sizeof(a));
}

/* The order in which threads run must not change results. It would if a thread read what another thread
 * has not yet written. */
static void order_changes_nothing(void **state)
{
	void (*const cases[])(void) = {p4d_cpu_all_fp32, p4d_cpu_all_bf16};

	(void)state;
	for (int i = 0; i < 2; i++) {
		record forward = record_of(cases[i]);
		p4d_shim_set_order(P4D_SHIM_BACKWARD);
		record backward = record_of(cases[i]);
		p4d_shim_set_order(P4D_SHIM_FORWARD);
		assert_int_equal(forward.count, backward.count);
		for (uint64_t k = 0; k < forward.count; k++)
			if (!same_bits(forward.value[k].x, backward.value[k].x))
				fail_msg("%s: %.9g or %.9g", forward.value[k].name, forward.value[k].x,
					 backward.value[k].x);
		free(forward.value), free(backward.value);
	}
}
#endif

/* The exponential function. The operations' vector loops must agree with it. */
static void exponential(void **state)
{
	double worst = 0;

	(void)state;
	for (double x = -87.33; x < 88.37; x += 0.0001) {
		const double e = exp((double)(float)x);
		worst = fmax(worst, fabs((double)p4d_expf((float)x) - e) / e);
	}
	print_message("worst %.3g\n", worst);
	assert_true(worst < 1.2e-7);
	assert_true(p4d_expf(0) == 1);
	assert_true(p4d_expf(-88) == 0 && p4d_expf(-1e30f) == 0 && p4d_expf(-INFINITY) == 0);
	assert_true(isinf(p4d_expf(89)) && isinf(p4d_expf(INFINITY)));
	assert_true(isnan(p4d_expf(NAN)));
}

static void hyperbolic_tangent(void **state)
{
	double worst = 0;

	(void)state;
	for (double x = -12; x < 12; x += 0.00003) {
		const double y = tanh((double)(float)x);
		worst = fmax(worst, fabs((double)p4d_tanhf((float)x) - y) / fmax(fabs(y), 1e-30));
	}
	print_message("worst %.3g\n", worst);
	assert_true(worst < 1.5e-7);
	assert_true(p4d_tanhf(0) == 0 && p4d_tanhf(INFINITY) == 1 && p4d_tanhf(-1e30f) == -1);
	assert_true(isnan(p4d_tanhf(NAN)));
}

static uint16_t nearest(float x)
{
	const uint16_t cut = (uint16_t)(p4d_to_bf16(x) & 0x8000); /* the sign alone, which is zero */
	uint16_t best = cut;
	double distance = INFINITY;

	for (unsigned magnitude = 0; magnitude <= 0x7f80; magnitude++) {
		const uint16_t candidate = (uint16_t)(cut | magnitude);
		/* the code after the largest number counts as 2^128, although it means infinity */
		const double value =
		    magnitude == 0x7f80 ? copysign(ldexp(1, 128), x) : (double)p4d_from_bf16(candidate);
		const double off = fabs(value - (double)x);
		if (off < distance || (off == distance && magnitude % 2 == 0)) {
			distance = off;
			best = candidate;
		}
	}
	return best;
}

static float of_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static void bf16_is_the_nearest(void **state)
{
	/* ties that round down and up, numbers next to ties, and numbers that round to a power of two, to
	 * infinity, or to a denormal number */
	static const uint32_t bits[] = {0x00000000, 0x80000000, 0x3f808000, 0x3f818000, 0x3f807fff,
					0x3f808001, 0x3fffffff, 0xbf818000, 0x7f7fffff, 0x7f7f7fff,
					0x7f7f8000, 0x00018000, 0x00008000, 0x80017fff, 0x42f6e979};
	uint64_t random = 1;

	(void)state;
	for (unsigned i = 0; i < sizeof(bits) / sizeof(*bits); i++)
		assert_int_equal(p4d_to_bf16(of_bits(bits[i])), nearest(of_bits(bits[i])));
	for (int i = 0; i < 100; i++) {
		number(&random);
		const float x = of_bits((uint32_t)(random >> 32));
		if (isfinite(x))
			assert_int_equal(p4d_to_bf16(x), nearest(x));
	}
	assert_int_equal(p4d_to_bf16(INFINITY), 0x7f80);
	assert_int_equal(p4d_to_bf16(-INFINITY), 0xff80);
	/* keeping only the upper bits would turn this NaN into infinity */
	assert_true(isnan(p4d_from_bf16(p4d_to_bf16(of_bits(0x7f800001)))));
	assert_true(isnan(p4d_from_bf16(p4d_to_bf16(of_bits(0xffffffff)))));
}

static void casts(void **state)
{
	enum { N = 37 };
	float x[N], back[N], copied[N], *on = keep(&device, sizeof(x)), *wide = keep(&device, sizeof(x));
	uint16_t stored[N], again[N], *narrow = keep(&device, sizeof(stored)),
				      *same = keep(&device, sizeof(stored));

	(void)state;
	for (int i = 0; i < N; i++)
		x[i] = ((float)i - 18) / 16 * 1.003f;
	put(&device, on, x, sizeof(x));
	device.cast(&device, P4D_DT_BF16, narrow, P4D_DT_FP32, on, N);
	fetch(&device, stored, narrow, sizeof(stored));
	device.cast(&device, P4D_DT_FP32, wide, P4D_DT_BF16, narrow, N);
	fetch(&device, back, wide, sizeof(back));
	device.cast(&device, P4D_DT_BF16, same, P4D_DT_BF16, narrow, N);
	fetch(&device, again, same, sizeof(again));
	device.cast(&device, P4D_DT_FP32, wide, P4D_DT_FP32, on, N);
	fetch(&device, copied, wide, sizeof(copied));
	for (int i = 0; i < N; i++) {
		assert_int_equal(stored[i], p4d_to_bf16(x[i]));
		assert_true(back[i] == p4d_from_bf16(stored[i]));
		assert_int_equal(again[i], stored[i]);
		assert_true(copied[i] == x[i]);
	}
	drop_all();
}

enum { ROWS = 9, VOCAB = 53, COUNT = ROWS * VOCAB };

/* Statistics of rows of logits, computed by the device under test and in double. */
typedef struct statistics {
	float *logits, *maximum, *sum, *target; /* on the device */
	int32_t *labels;
	double exact[COUNT], maximum64[ROWS], sum64[ROWS], target64[ROWS];
	int32_t host_labels[ROWS];
} statistics;

static statistics some_statistics(void)
{
	float *logits = p4d_cpu_unrounded_fp32(COUNT, 1);
	statistics s = {.maximum = keep(&device, ROWS * sizeof(float)),
			.sum = keep(&device, ROWS * sizeof(float)),
			.target = keep(&device, ROWS * sizeof(float)),
			.labels = keep(&device, sizeof(s.host_labels))};

	for (int i = 0; i < COUNT; i++) {
		logits[i] *= 32;
		s.exact[i] = (double)logits[i];
	}
	for (int i = 0; i < ROWS; i++)
		s.host_labels[i] = i * 7 - 2;
	s.logits = p4d_cpu_kept_fp32(logits, COUNT * sizeof(*logits));
	put(&device, s.labels, s.host_labels, sizeof(s.host_labels));
	device.softmax_sums(&device, P4D_DT_FP32, s.maximum, s.sum, s.target, s.logits, VOCAB, s.labels, ROWS,
			    VOCAB, 1);
	p4d_cpu_softmax_sums_fp64(s.maximum64, s.sum64, s.target64, s.exact, VOCAB, s.host_labels, ROWS,
				  VOCAB, 1);
	return s;
}

/* Compares the statistics of fp32 logits, and their loss, with those in double. */
static void sums(void **state)
{
	statistics s = some_statistics();
	double loss64 = 1, loss = 1, *on = keep(&device, sizeof(loss));
	float maximum[ROWS], sum[ROWS], target[ROWS], most[ROWS], *larger = keep(&device, sizeof(most));

	(void)state;
	put(&device, on, &loss, sizeof(loss));
	device.losses(&device, on, s.maximum, s.sum, s.target, s.labels, ROWS, 0.01f);
	p4d_cpu_losses_fp64(&loss64, s.maximum64, s.sum64, s.target64, s.host_labels, ROWS, 0.01f);
	fetch(&device, &loss, on, sizeof(loss));
	assert_true(fabs(loss - loss64) <= 1e-5 * loss64);
	fetch(&device, maximum, s.maximum, sizeof(maximum));
	fetch(&device, sum, s.sum, sizeof(sum));
	fetch(&device, target, s.target, sizeof(target));
	for (int i = 0; i < ROWS; i++) {
		most[i] = maximum[i] + (float)i / 4;
		assert_true((double)maximum[i] == s.maximum64[i] && (double)target[i] == s.target64[i]);
		assert_true(fabs((double)sum[i] - s.sum64[i]) <= 1e-5 * s.sum64[i]);
	}
	put(&device, larger, most, sizeof(most));
	device.rescale(&device, s.sum, s.maximum, larger, ROWS);
	fetch(&device, sum, s.sum, sizeof(sum));
	for (int i = 0; i < ROWS; i++)
		assert_true(fabs((double)sum[i] - s.sum64[i] * exp(-i / 4.0)) <= 1e-5 * s.sum64[i]);
	drop_all();
}

static uint64_t nonfinite(const float *x, uint64_t before)
{
	uint64_t *on = keep(&device, sizeof(*on));

	put(&device, on, &before, sizeof(before));
	device.count_nonfinite(&device, on, x, COUNT);
	fetch(&device, &before, on, sizeof(before));
	return before;
}

/* Sums of gradients, also with numbers that are not finite. */
static void sums_of_gradients(void **state)
{
	static const float wrong[] = {NAN, INFINITY, -INFINITY};
	statistics s = some_statistics();
	double squares, *on = keep(&device, sizeof(squares));
	float sum;

	(void)state;
	for (uint64_t count = 0; count < 40; count++) {
		squares = 3;
		put(&device, on, &squares, sizeof(squares));
		device.sum_squares(&device, on, s.logits, count);
		fetch(&device, &squares, on, sizeof(squares));
		assert_true(fabs(squares - 3 - dot(s.exact, s.exact, count)) <= 1e-14 * squares);
	}
	assert_int_equal(nonfinite(s.logits, 1), 1);
	put(&device, s.logits, &wrong[0], sizeof(float));
	put(&device, s.logits + COUNT / 2, &wrong[1], sizeof(float));
	put(&device, s.logits + COUNT - 1, &wrong[2], sizeof(float));
	assert_int_equal(nonfinite(s.logits, 1), 1 + 3);
	/* a NaN in the logits makes the loss NaN */
	device.softmax_sums(&device, P4D_DT_FP32, s.maximum, s.sum, s.target, s.logits, VOCAB, s.labels, ROWS,
			    VOCAB, 0);
	fetch(&device, &sum, s.sum, sizeof(sum));
	assert_true(isnan(sum));
	drop_all();
}

static void memory(void **state)
{
	p4d_error err;
	const uint64_t before = device.allocated_bytes, small_bytes = 1000, large_bytes = 5 << 20;
	void *small, *large;
	char from[40], to[40];

	(void)state;
	assert_int_equal(device.allocate(&device, small_bytes, &small, &err), 0);
	assert_int_equal(device.allocate(&device, large_bytes, &large, &err), 0);
	assert_int_equal((uintptr_t)small % P4D_ARENA_ALIGNMENT, 0);
	assert_int_equal((uintptr_t)large % P4D_ARENA_ALIGNMENT, 0);
	assert_int_equal(device.allocate(&device, UINT64_MAX / 2, &small, &err), -1);
	assert_int_equal(err.code, !strcmp(device.name, "cpu") ? P4D_E_NO_MEMORY : P4D_E_DEVICE);
	for (int i = 0; i < 40; i++)
		from[i] = (char)i;
	device.upload(&device, large, from, 40);
	device.copy(&device, (char *)large + 10, large, 10);
	device.zero(&device, (char *)large + 35, 5);
	/* columns 2 and 3 of rows of 10 become rows of 2 */
	device.copy_rows(&device, small, 2, (char *)large + 2, 10, 2, 4);
	assert_int_equal(device.sync(&device, &err), 0);
	device.download(&device, to, large, 40);
	for (int i = 0; i < 40; i++)
		assert_int_equal(to[i], i >= 35 ? 0 : i >= 10 && i < 20 ? i - 10 : i);
	device.download(&device, to, small, 8);
	for (int i = 0; i < 4; i++)
		assert_int_equal(to[2 * i] + to[2 * i + 1], (i == 0   ? 2 + 3
							     : i == 1 ? 2 + 3
							     : i == 2 ? 22 + 23
								      : 32 + 33));
	/* the device counts allocated memory, and finds memory that was not written since it was filled */
	assert_int_equal(device.allocated_bytes - before, small_bytes + large_bytes);
	uint64_t words = 0;
	device.fill(&device, large, 0xfff1fff1, large_bytes / 4);
	assert_int_equal(device.count(&device, &words, large, 0xfff1fff1, large_bytes / 4), 0);
	assert_int_equal(words, large_bytes / 4);
	device.zero(&device, (char *)large + 8, 12);
	assert_int_equal(device.count(&device, &words, large, 0xfff1fff1, large_bytes / 4), 0);
	assert_int_equal(words, large_bytes / 4 - 3);
	device.release(&device, small);
	device.release(&device, large);
}

static int open_device(void **state)
{
	(void)state;
	return open_device_under_test(&device, NULL);
}

static int close_device(void **state)
{
	(void)state;
	device.close(&device);
	return 0;
}

int main(void)
{
	/* sets the rounding mode of denormal numbers, which a device would set when it is opened */
	const struct CMUnitTest functions[] = {
	    cmocka_unit_test(exponential),
	    cmocka_unit_test(hyperbolic_tangent),
	    cmocka_unit_test(bf16_is_the_nearest),
	};
	const struct CMUnitTest operations[] = {
	    cmocka_unit_test(types_agree_with_double),
#ifdef P4D_TEST_CUDA
	    cmocka_unit_test(order_changes_nothing),
#endif
	    cmocka_unit_test(casts),
	    cmocka_unit_test(sums),
	    cmocka_unit_test(sums_of_gradients),
	    cmocka_unit_test(memory),
	};
	const int failed = cmocka_run_group_tests(functions, NULL, NULL);

	return failed + cmocka_run_group_tests(operations, open_device, close_device);
}
