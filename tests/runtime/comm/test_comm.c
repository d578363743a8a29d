/* SPDX-License-Identifier: Apache-2.0 */
/* Each collective with each type, and messages, among 1 to 8 ranks on several nodes. The expected results
 * come from plain loops. */
#include "support/support.h"

#include <math.h>

#include "support/forked.h"

/* The node of each rank. */
typedef struct place {
	const char *name;
	uint32_t size, nodes[FORKED_MOST];
} place;

static const place places[] = {
    {"alone", 1, {0}},
    {"2 on a node", 2, {0}},
    {"3 on a node", 3, {0}},
    {"8 on a node", 8, {0}},
    {"2 nodes", 2, {0, 1}},
    {"5 nodes", 5, {0, 1, 2, 3, 4}},
    {"2 x 4", 8, {0, 0, 0, 0, 1, 1, 1, 1}},
    {"mixed up", 5, {7, 3, 7, 3, 3}},
};
enum { PLACES = sizeof(places) / sizeof(places[0]) };

static void everywhere(forked_work work)
{
	for (int i = 0; i < PLACES; i++) {
		forked f;
		forked_init(&f, places[i].size, places[i].nodes);
		forked_start(&f, work);
		if (!forked_finish(&f, 30) || !forked_all_well(&f))
			fail_msg("%s", places[i].name);
	}
}

static p4d_group *group_of_all(p4d_world *world, uint32_t size)
{
	uint32_t ranks[FORKED_MOST];
	p4d_group *group = NULL;
	p4d_error err;

	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	CHECK(p4d_group_open(&group, world, ranks, size, &err) == 0);
	CHECK(p4d_group_size(group) == size);
	return group;
}

static const p4d_dtype types[] = {P4D_DT_BF16, P4D_DT_FP16, P4D_DT_FP32, P4D_DT_FP64};

/* Rounds to `mantissa` bits after the leading one, as a 16-bit type does. Written from the definition of
 * rounding. */
static double rounded(double x, int mantissa, int least_exponent)
{
	int exponent;

	if (x == 0)
		return 0;
	frexp(x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
	if (exponent - 1 < least_exponent)
		exponent = least_exponent + 1;
	return ldexp(nearbyint(ldexp(x, mantissa + 1 - exponent)), exponent - mantissa - 1);
}

static double as_type(double x, p4d_dtype type)
{
	switch (type) {
	case P4D_DT_BF16:
		return rounded((float)x, 7, -126);
	case P4D_DT_FP16:
		return rounded((float)x, 10, -14);
	case P4D_DT_FP32:
		return (float)x;
	default:
		return x;
	}
}

static size_t width(p4d_dtype type)
{
	return type == P4D_DT_FP64 ? 8 : type == P4D_DT_FP32 ? 4 : 2;
}

static void put(void *data, uint64_t i, double x, p4d_dtype type)
{
	float f = (float)x;
	uint32_t bits;

	if (type == P4D_DT_FP64) {
		((double *)data)[i] = x;
	} else if (type == P4D_DT_FP32) {
		((float *)data)[i] = f;
	} else if (type == P4D_DT_BF16) {
		memcpy(&bits, &f, sizeof(bits));
		((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
	} else {
		int exponent;
		double size = fabs(x), part = frexp(size, &exponent); /* [1/2, 1) */
		unsigned found = size < 0x1p-14 ? (unsigned)ldexp(size, 24)
						: (unsigned)((exponent + 14) * 1024 + (2 * part - 1) * 1024);
		((uint16_t *)data)[i] = (uint16_t)(found | (signbit(x) ? 0x8000 : 0));
	}
}

/* Element i of rank r's operand. Elements differ in size, so the last bits of a sum depend on the order of
 * addition. */
static double operand(uint32_t r, uint64_t i, p4d_dtype type)
{
	uint64_t state = i * 64 + r;

	forked_random(&state); /* because the first numbers from similar seeds are similar */
	uint32_t a = forked_random(&state), b = forked_random(&state);

	return as_type(((double)a / 0x80000000u - 0.5) * (double)(1u << b % 8), type);
}

/* The only correct result: summed in rank order in fp32 or fp64, and rounded once. */
static double reference(uint32_t size, uint64_t i, p4d_dtype type, p4d_reduction how)
{
	double sum = operand(0, i, type);

	for (uint32_t r = 1; r < size; r++) {
		double x = operand(r, i, type);
		if (how == P4D_MAX)
			sum = x > sum ? x : sum;
		else
			sum = type == P4D_DT_FP64 ? sum + x : (float)((float)sum + (float)x);
	}
	return as_type(sum, type);
}

static void fill(void *data, uint32_t r, uint64_t first, uint64_t count, p4d_dtype type)
{
	for (uint64_t i = 0; i < count; i++)
		put(data, i, operand(r, first + i, type), type);
}

static void *block(uint64_t bytes)
{
	void *data = malloc(bytes + 64);

	CHECK(data);
	memset(data, 0xa5, bytes + 64);
	return data;
}

static bool untouched(const void *data, uint64_t bytes)
{
	for (int i = 0; i < 64; i++)
		if (((const uint8_t *)data)[bytes + (uint64_t)i] != 0xa5)
			return false;
	return true;
}

static bool holds(const void *data, uint32_t size, uint64_t first, uint64_t count, p4d_dtype type,
		  p4d_reduction how)
{
	double wanted, found;

	for (uint64_t i = 0; i < count; i++) {
		put(&wanted, 0, reference(size, first + i, type, how), type);
		memcpy(&found, (const uint8_t *)data + i * width(type), width(type));
		if (memcmp(&wanted, &found, width(type)))
			return false;
	}
	return true;
}

static int sums(p4d_group *g, uint32_t rank, uint32_t size, uint64_t count, p4d_dtype type, p4d_error *err)
{
	uint64_t bytes = count * width(type);
	uint32_t root = (uint32_t)(count % size);
	uint8_t *data = block(size * bytes), *copy = block(size * bytes);

	for (int how = P4D_SUM; how <= (width(type) > 2 ? P4D_MAX : P4D_SUM); how++) {
		fill(data, rank, 0, count, type);
		TRY(p4d_comm_all_reduce(g, data, count, type, (p4d_reduction)how, err));
		CHECK(holds(data, size, 0, count, type, (p4d_reduction)how));
	}
	fill(data, rank, 0, count, type);
	memcpy(copy, data, bytes);
	TRY(p4d_comm_reduce(g, data, count, type, root, err));
	CHECK(rank == root ? holds(data, size, 0, count, type, P4D_SUM) : !memcmp(data, copy, bytes));

	fill(data, rank, 0, size * count, type);
	memcpy(copy, data, size * bytes);
	uint8_t *shard = block(bytes);
	TRY(p4d_comm_reduce_scatter(g, shard, data, count, type, err));
	CHECK(holds(shard, size, rank * count, count, type, P4D_SUM) && untouched(shard, bytes));
	CHECK(!memcmp(data, copy, size * bytes));
	/* the input's own place for this shard may also be the output */
	TRY(p4d_comm_reduce_scatter(g, data + rank * bytes, data, count, type, err));
	CHECK(!memcmp(data + rank * bytes, shard, bytes) && untouched(data, size * bytes));
	free(shard);
	free(data);
	free(copy);
	return 0;
}

static uint8_t byte_of(uint32_t rank, uint64_t i)
{
	return (uint8_t)(rank * 31 + i * 7 + (i >> 8));
}

static int copies(p4d_group *g, uint32_t rank, uint32_t size, uint64_t bytes, p4d_error *err)
{
	uint8_t *all = block(size * bytes), *own = block(bytes);

	for (int in_place = 0; in_place < 2; in_place++) {
		uint8_t *from = in_place ? all + rank * bytes : own;
		memset(all, 0, size * bytes);
		for (uint64_t i = 0; i < bytes; i++)
			from[i] = byte_of(rank, i);
		TRY(p4d_comm_all_gather(g, all, from, bytes, err));
		for (uint64_t i = 0; i < size * bytes; i++)
			CHECK(all[i] == byte_of((uint32_t)(i / bytes), i % bytes));
		CHECK(untouched(all, size * bytes));
	}
	for (uint32_t root = 0; root < size; root++) {
		for (uint64_t i = 0; i < bytes; i++)
			own[i] = root == rank ? byte_of(root, i) : 0;
		TRY(p4d_comm_broadcast(g, own, bytes, root, err));
		for (uint64_t i = 0; i < bytes; i++)
			CHECK(own[i] == byte_of(root, i));
	}
	CHECK(untouched(own, bytes));
	free(all);
	free(own);
	return 0;
}

static int all_collectives(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	/* numbers of elements just above a cache line, the elements of one summation step, and a slot */
	static const uint64_t counts[] = {0, 1, 3, 17, 1025, 9001};
	static const uint64_t more_bytes = 300001;
	p4d_group *g = group_of_all(world, size);

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
			TRY(sums(g, rank, size, counts[c], types[t], err));
		TRY(copies(g, rank, size, counts[c], err));
		TRY(p4d_comm_barrier(g, err));
	}
	/* bytes of several slots, scratch buffers and rings */
	TRY(sums(g, rank, size, more_bytes / 4, P4D_DT_FP32, err));
	TRY(copies(g, rank, size, more_bytes, err));
	p4d_group_close(g);
	return 0;
}

static void test_collectives(void **state)
{
	(void)state;
	everywhere(all_collectives);
}

static void wrong_groups(p4d_world *world, uint32_t rank, uint32_t size)
{
	uint32_t twice[] = {rank, rank}, without[] = {(rank + 1) % size}, high[] = {rank, size};
	p4d_group *g = NULL;

	CHECK(p4d_group_open(&g, world, twice, 2, NULL) < 0);
	CHECK(p4d_group_open(&g, world, without, 1, NULL) < 0);
	CHECK(p4d_group_open(&g, world, high, 2, NULL) < 0);
	CHECK(p4d_group_open(&g, world, high, 0, NULL) < 0);
	CHECK(!g);
}

static int special_values(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g = group_of_all(world, size);
	float x[3] = {rank == size - 1 ? NAN : (float)rank, rank ? -INFINITY : -1, rank ? 1 : INFINITY};
	p4d_error wrong;

	TRY(p4d_comm_all_reduce(g, x, 3, P4D_DT_FP32, P4D_MAX, err));
	CHECK(isnan(x[0]) && x[1] == -1 && x[2] == INFINITY);
	x[0] = rank ? 1 : NAN;
	TRY(p4d_comm_all_reduce(g, x, 1, P4D_DT_FP32, P4D_MAX, err));
	CHECK(isnan(x[0]));
	/* wrong groups are refused by each rank alone, without communication */
	wrong_groups(world, rank, size);
	CHECK(p4d_comm_all_reduce(g, x, 1, P4D_DT_INT32, P4D_SUM, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_all_reduce(g, x, 1, P4D_DT_BF16, P4D_MAX, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_broadcast(g, x, 1, size, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_all_gather(g, x, x, UINT64_MAX / 2 + 1, &wrong) < 0 && wrong.code == P4D_E_OVERFLOW);
	CHECK(p4d_comm_all_reduce(g, x, UINT64_MAX / 4, P4D_DT_FP64, P4D_SUM, &wrong) < 0 &&
	      wrong.code == P4D_E_OVERFLOW);
	TRY(p4d_comm_barrier(g, err));
	p4d_group_close(g);
	return 0;
}

static void test_special_values(void **state)
{
	forked f;

	(void)state;
	forked_init(&f, 3, NULL);
	forked_start(&f, special_values);
	assert_true(forked_finish(&f, 30) && forked_all_well(&f));
}

/* All ranks send to all ranks, including themselves, on all channels, before any rank receives. */
static int flood(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	static const uint64_t sizes[P4D_CHANNELS] = {1500007, 0, 5, 300000};
	uint64_t tickets[FORKED_MOST][P4D_CHANNELS];
	p4d_group *g = group_of_all(world, size);
	uint8_t *out = block(sizes[0] + FORKED_MOST), *in = block(sizes[0]);

	for (uint64_t i = 0; i < sizes[0] + FORKED_MOST; i++)
		out[i] = byte_of(rank, i);
	for (unsigned c = 0; c < P4D_CHANNELS; c++)
		for (uint32_t to = 0; to < size; to++)
			TRY(p4d_comm_send(g, to, c, out + to, sizes[c], &tickets[to][c], err));
	/* messages are received in another order than they were sent */
	for (unsigned c = P4D_CHANNELS; c-- > 0;)
		for (uint32_t k = 0; k < size; k++) {
			uint32_t from = (rank + k) % size;
			memset(in, 0xa5, sizes[0]);
			TRY(p4d_comm_recv(g, from, c, in, sizes[c], err));
			for (uint64_t i = 0; i < sizes[c]; i++)
				CHECK(in[i] == byte_of(from, i + rank));
			CHECK(untouched(in, sizes[0]));
		}
	for (unsigned c = 0; c < P4D_CHANNELS; c++)
		for (uint32_t to = 0; to < size; to++)
			TRY(p4d_comm_send_wait(g, to, c, tickets[to][c], err));
	free(out);
	free(in);
	p4d_group_close(g);
	return 0;
}

static void test_messages(void **state)
{
	(void)state;
	everywhere(flood);
}

/* Sends more small messages than may be in flight. They must arrive in order, and none may be lost. */
static int queue(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	enum { MANY = 5 * P4D_SENDS };
	static uint8_t data[MANY][50000];
	p4d_group *g = group_of_all(world, size);
	uint64_t ticket = 0;
	p4d_error wrong;

	for (uint32_t i = 0; i < MANY; i++) {
		uint8_t number[50000];
		if (rank == 0) {
			memset(data[i], (int)i, sizeof(data[i]));
			TRY(p4d_comm_send(g, 1, 2, data[i], sizeof(data[i]), &ticket, err));
			CHECK(ticket == i);
		} else {
			TRY(p4d_comm_recv(g, 0, 2, number, sizeof(number), err));
			CHECK(number[0] == i && number[sizeof(number) - 1] == i);
		}
	}
	if (rank == 0) {
		TRY(p4d_comm_send_wait(g, 1, 2, ticket, err));
		CHECK(p4d_comm_send_wait(g, 1, 2, ticket + 1, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	}
	/* messages to the own rank: first with an empty queue, then with a full one */
	CHECK(p4d_comm_recv(g, rank, 0, data[0], 1, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	for (uint32_t i = 0; i < P4D_SENDS; i++)
		TRY(p4d_comm_send(g, rank, 0, data[i], 1, &ticket, err));
	CHECK(p4d_comm_send(g, rank, 0, data[0], 1, &ticket, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_send_wait(g, rank, 0, ticket, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_send(g, size, 0, data[0], 1, &ticket, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_send(g, 0, P4D_CHANNELS, data[0], 1, &ticket, &wrong) < 0 &&
	      wrong.code == P4D_E_VALUE);
	p4d_group_close(g);
	return 0;
}

static void test_many_messages(void **state)
{
	static const uint32_t apart[] = {0, 1};
	forked f;

	(void)state;
	for (int i = 0; i < 2; i++) {
		forked_init(&f, 2, i ? apart : NULL);
		forked_start(&f, queue);
		assert_true(forked_finish(&f, 30) && forked_all_well(&f));
	}
}

/* The linker replaces the library's allocations by these functions, which count them. */
static unsigned long allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	allocations++;
	return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	allocations++;
	return __real_realloc(old, size);
}

/* Groups for the rows, columns and all ranks of a grid, used in the same random order on all ranks. The
 * groups share slots and connections. Roots change, so some ranks run ahead of others. */
static int grid(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	enum { ROUNDS = 400 };
	uint32_t row[4], column[2];
	p4d_group *groups[4];
	uint64_t draw = 1;
	static float x[40000];

	for (uint32_t i = 0; i < 4; i++)
		row[i] = rank / 4 * 4 + i;
	for (uint32_t i = 0; i < 2; i++)
		column[i] = rank % 4 + 4 * i;
	groups[0] = group_of_all(world, size);
	groups[1] = group_of_all(world, size); /* the same list of ranks, but another group */
	TRY(p4d_group_open(&groups[2], world, row, 4, err));
	TRY(p4d_group_open(&groups[3], world, column, 2, err));
	unsigned long before = allocations;
	CHECK(before > 0);
	for (int round = 0; round < ROUNDS; round++) {
		p4d_group *g = groups[forked_random(&draw) % 4];
		uint32_t members = p4d_group_size(g), me = p4d_group_index(g);
		uint64_t count =
		    forked_random(&draw) % 3 ? 1 + forked_random(&draw) % 40 : forked_random(&draw) % 40000;
		uint32_t root = forked_random(&draw) % members;
		float wanted = (float)(members * (members + 1) / 2) + (float)(round * members);
		switch (forked_random(&draw) % 3) {
		case 0:
			for (uint64_t i = 0; i < count; i++)
				x[i] = (float)(me + 1 + (uint32_t)round);
			TRY(p4d_comm_all_reduce(g, x, count, P4D_DT_FP32, P4D_SUM, err));
			for (uint64_t i = 0; i < count; i++)
				CHECK(x[i] == wanted);
			break;
		case 1:
			for (uint64_t i = 0; i < count; i++)
				x[i] = me == root ? (float)(round + (int)i) : -1;
			TRY(p4d_comm_broadcast(g, x, count * sizeof(*x), root, err));
			for (uint64_t i = 0; i < count; i++)
				CHECK(x[i] == (float)(round + (int)i));
			break;
		default:
			for (uint64_t i = 0; i < count; i++)
				x[i] = (float)(me + 1 + (uint32_t)round);
			TRY(p4d_comm_reduce(g, x, count, P4D_DT_FP32, root, err));
			for (uint64_t i = 0; me == root && i < count; i++)
				CHECK(x[i] == wanted);
		}
	}
	CHECK(allocations == before);
	for (int i = 0; i < 4; i++)
		p4d_group_close(groups[i]);
	return 0;
}

static void test_many_groups(void **state)
{
	static const uint32_t two_by_four[] = {0, 0, 0, 0, 1, 1, 1, 1}, across[] = {0, 1, 0, 1, 0, 1, 0, 1};
	const uint32_t *nodes[] = {NULL, two_by_four, across};
	forked f;

	(void)state;
	for (int i = 0; i < 3; i++) {
		forked_init(&f, 8, nodes[i]);
		forked_start(&f, grid);
		assert_true(forked_finish(&f, 60) && forked_all_well(&f));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_collectives), cmocka_unit_test(test_special_values),
	    cmocka_unit_test(test_messages),    cmocka_unit_test(test_many_messages),
	    cmocka_unit_test(test_many_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
