/* SPDX-License-Identifier: Apache-2.0 */
/* Groups on devices: all calls with both transports, the choice of the transport, and NCCL itself. */
#include "support/support.h"

#include "comm/transport/nccl_library.h"
#include "support/transports.h"

enum { MOST = 300001, MEMORY = 32 << 20 };

static p4d_transport_kind kind;

/* A group of all ranks on the device. It has collectives on the stream of operations, and messages on two
 * channels. */
typedef struct bench {
	transports_rank rank;
	p4d_group *group, *async;
	uint8_t *memory; /* memory on the device */
	uint32_t index, size;
} bench;

static int bench_open(bench *b, p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	uint8_t sends[FORKED_MOST];
	uint32_t ranks[FORKED_MOST];
	void *memory;

	TRY(transports_open(&b->rank, world, size, kind, err));
	TRY(b->rank.device.allocate(&b->rank.device, MEMORY, &memory, err));
	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	memset(sends, 1 << 0 | 1 << 2, sizeof(sends));
	const p4d_traffic traffic = {.collectives = true,
				     .sends = sends,
				     .message_bytes = MOST,
				     .messages = 2 * FORKED_MOST,
				     .scratch = memory};
	const p4d_traffic beside = {.collectives = true, .async = true, .scratch = memory};
	TRY(p4d_group_open(&b->group, world, ranks, size, err));
	TRY(p4d_comm_on_device(b->group, b->rank.transport, &traffic, err));
	TRY(p4d_group_open(&b->async, world, ranks, size, err));
	TRY(p4d_comm_on_device(b->async, b->rank.transport, &beside, err));
	b->memory = memory;
	b->index = rank;
	b->size = size;
	return 0;
}

static void bench_close(bench *b)
{
	p4d_group_close(b->group);
	p4d_group_close(b->async);
	b->rank.device.release(&b->rank.device, b->memory);
	transports_close(&b->rank);
}

/* ---- small integers: their sums are exact in each type, in any order ---- */

static const p4d_dtype types[] = {P4D_DT_BF16, P4D_DT_FP32, P4D_DT_FP64};

static size_t width(p4d_dtype type)
{
	return type == P4D_DT_FP64 ? 8 : type == P4D_DT_FP32 ? 4 : 2;
}

static float number(uint32_t rank, uint64_t i)
{
	return (float)((i * 7 + rank * 3) % 13) - 6;
}

static void put(uint8_t *data, uint64_t i, float x, p4d_dtype type)
{
	double wide = x;
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	const uint16_t half = (uint16_t)(bits >> 16);
	memcpy(data + i * width(type),
	       type == P4D_DT_FP64   ? (void *)&wide
	       : type == P4D_DT_FP32 ? (void *)&x
				     : (void *)&half,
	       width(type));
}

/* Memory for numbers, with two guard numbers at the end. */
static uint8_t *block(void)
{
	static uint8_t blocks[2][8 * MOST];
	static unsigned next;

	return blocks[next++ % 2];
}

static void upload(bench *b, uint64_t at, const void *from, uint64_t bytes)
{
	b->rank.device.upload(&b->rank.device, b->memory + at, from, bytes);
}

static bool holds(bench *b, uint64_t at, const void *wanted, uint64_t bytes)
{
	static uint8_t found[8 * MOST];

	b->rank.device.download(&b->rank.device, found, b->memory + at, bytes);
	return !memcmp(found, wanted, bytes);
}

/* Elements first .. first+count-1 of `rank`'s data; if rank == size, of the sum over all ranks. */
static uint8_t *elements(const bench *b, uint32_t rank, uint64_t first, uint64_t count, p4d_dtype type,
			 p4d_reduction how)
{
	uint8_t *data = block();

	for (uint64_t i = 0; i < count; i++) {
		float x = number(rank < b->size ? rank : 0, first + i);
		for (uint32_t r = 1; rank == b->size && r < b->size; r++) {
			const float y = number(r, first + i);
			x = how == P4D_SUM ? x + y : y > x ? y : x;
		}
		put(data, i, x, type);
	}
	return data;
}

static int sums(bench *b, uint64_t count, p4d_dtype type, p4d_error *err)
{
	const uint64_t bytes = count * width(type), elsewhere = 16 << 20;
	const uint32_t root = (uint32_t)(count % b->size), all = b->size, me = b->index;

	for (int how = P4D_SUM; how <= (width(type) > 2 ? P4D_MAX : P4D_SUM); how++) {
		upload(b, 0, elements(b, me, 0, count, type, how), bytes);
		TRY(p4d_comm_all_reduce(b->group, b->memory, count, type, (p4d_reduction)how, err));
		CHECK(holds(b, 0, elements(b, all, 0, count, type, how), bytes));
	}
	upload(b, 0, elements(b, me, 0, count, type, P4D_SUM), bytes);
	TRY(p4d_comm_reduce(b->group, b->memory, count, type, root, err));
	CHECK(holds(b, 0, elements(b, me == root ? all : me, 0, count, type, P4D_SUM), bytes));
	if (count * b->size > MOST)
		return 0;
	for (int in_place = 0; in_place < 2; in_place++) {
		const uint64_t to = in_place ? me * bytes : elsewhere;
		upload(b, 0, elements(b, me, 0, count * b->size, type, P4D_SUM), bytes * b->size);
		TRY(p4d_comm_reduce_scatter(b->group, b->memory + to, b->memory, count, type, err));
		CHECK(holds(b, to, elements(b, all, me * count, count, type, P4D_SUM), bytes));
	}
	return 0;
}

static int copies(bench *b, uint64_t count, p4d_error *err)
{
	const uint64_t elsewhere = 16 << 20;

	for (int in_place = 0; in_place < 2; in_place++) {
		const uint64_t from = in_place ? b->index * count : elsewhere;
		upload(b, from, elements(b, b->index, 0, count, P4D_DT_BF16, P4D_SUM), count);
		TRY(p4d_comm_all_gather(b->group, b->memory, b->memory + from, count, err));
		for (uint32_t r = 0; r < b->size; r++)
			CHECK(holds(b, r * count, elements(b, r, 0, count, P4D_DT_BF16, P4D_SUM), count));
	}
	for (uint32_t root = 0; root < b->size; root++) {
		upload(b, 0, elements(b, b->index, 0, count, P4D_DT_FP32, P4D_SUM), count);
		TRY(p4d_comm_broadcast(b->group, b->memory, count, root, err));
		CHECK(holds(b, 0, elements(b, root, 0, count, P4D_DT_FP32, P4D_SUM), count));
	}
	return 0;
}

static int wrong_calls(bench *b, p4d_error *err)
{
	p4d_group *g = b->group;
	p4d_error wrong;

	CHECK(p4d_comm_all_reduce(g, b->memory, 1, P4D_DT_INT32, P4D_SUM, &wrong) < 0 &&
	      wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_all_reduce(g, b->memory, 1, P4D_DT_BF16, P4D_MAX, &wrong) < 0 &&
	      wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_broadcast(g, b->memory, 1, b->size, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_send_wait(g, (b->index + 1) % b->size, 0, 1000, &wrong) < 0 &&
	      wrong.code == P4D_E_VALUE);
	return p4d_comm_barrier(g, err);
}

static int all_collectives(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	static const uint64_t counts[] = {0, 1, 3, 1025, 70001, MOST};
	bench b;

	TRY(bench_open(&b, world, rank, size, err));
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
			TRY(sums(&b, counts[c], types[t], err));
		TRY(copies(&b, counts[c], err));
	}
	TRY(wrong_calls(&b, err));
	bench_close(&b);
	return 0;
}

static void everywhere(forked_work work)
{
	static const p4d_transport_kind kinds[] = {P4D_TRANSPORT_NCCL, P4D_TRANSPORT_STAGED};
	static const uint32_t apart[] = {0, 0, 1, 1}, sizes[] = {2, 3, 4};

	for (int i = 0; i < 6; i++) {
		forked f;
		kind = kinds[i % 2];
		forked_init(&f, sizes[i / 2], sizes[i / 2] == 4 ? apart : NULL);
		forked_start(&f, work);
		if (!forked_finish(&f, 60) || !forked_all_well(&f))
			fail_msg("%u ranks, %s", sizes[i / 2], i % 2 ? "staged" : "NCCL");
	}
}

static void test_collectives(void **state)
{
	(void)state;
	everywhere(all_collectives);
}

/* ---- messages ---- */

/* Sends more messages around the ring, and to the rank itself, than may be in flight, on both channels. It
 * reuses buffers immediately. */
static int ring(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	enum { ROUNDS = 3 * P4D_SENDS, BYTES = 30000, INCOMING = 16 << 20 };
	const uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
	p4d_device *d;
	uint64_t ticket[2];
	p4d_error wrong;
	bench b;

	TRY(bench_open(&b, world, rank, size, err));
	d = &b.rank.device;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		const uint32_t to = round % 4 == 3 ? rank : next, from = round % 4 == 3 ? rank : before;
		upload(&b, 0, elements(&b, rank, round, BYTES, P4D_DT_BF16, P4D_SUM), 2 * BYTES);
		for (unsigned c = 0; c < 2; c++)
			TRY(p4d_comm_send(b.group, to, 2 * c, b.memory + c * BYTES, BYTES, &ticket[c], err));
		TRY(p4d_comm_recv_begin(b.group, from, 2, b.memory + INCOMING + BYTES, BYTES, err));
		TRY(p4d_comm_recv(b.group, from, 0, b.memory + INCOMING, BYTES, err));
		TRY(p4d_comm_recv_end(b.group, from, 2, b.memory + INCOMING + BYTES, BYTES, err));
		for (unsigned c = 0; c < 2; c++)
			TRY(p4d_comm_send_wait(b.group, to, 2 * c, ticket[c], err));
		d->zero(d, b.memory, 2 * BYTES);
		CHECK(holds(&b, INCOMING, elements(&b, from, round, BYTES, P4D_DT_BF16, P4D_SUM), 2 * BYTES));
	}
	/* calls that fail: a receive without a message, an unknown member or channel, and a receive from
	 * the rank itself before it has sent */
	TRY(p4d_comm_send(b.group, next, 0, b.memory, 0, &ticket[0], err));
	TRY(p4d_comm_recv(b.group, before, 0, b.memory, 0, err));
	CHECK(p4d_comm_send(b.group, size, 0, b.memory, 1, &ticket[0], &wrong) < 0 &&
	      wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_send(b.group, next, P4D_CHANNELS, b.memory, 1, &ticket[0], &wrong) < 0 &&
	      wrong.code == P4D_E_VALUE);
	CHECK(p4d_comm_recv(b.group, rank, 1, b.memory, 1, &wrong) < 0 && wrong.code == P4D_E_VALUE);
	if (kind == P4D_TRANSPORT_NCCL)
		CHECK(p4d_comm_send(b.group, next, 1, b.memory, 1, &ticket[0], &wrong) < 0 &&
		      strstr(wrong.text, "without messages"));
	else
		CHECK(p4d_comm_send(b.group, next, 0, b.memory, MOST + 1, &ticket[0], &wrong) < 0 &&
		      wrong.code == P4D_E_VALUE);
	bench_close(&b);
	return 0;
}

static void test_messages(void **state)
{
	(void)state;
	everywhere(ring);
}

/* p4d_comm_send_wait_any returns a send that was received, whichever of the sends it is. */
static int any(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	/* sends more than may be in flight before any rank receives */
	enum { COUNT = MOST / 2, BYTES = 2 * COUNT };
	p4d_pending pending[2] = {{.to = 1, .channel = 0}, {.to = size - 1, .channel = 2}};
	unsigned which;
	p4d_error wrong;
	bench b;

	TRY(bench_open(&b, world, rank, size, err));
	if (rank == 0) {
		for (unsigned i = 0; i < 2; i++) {
			upload(&b, i * BYTES, elements(&b, i, 0, COUNT, P4D_DT_BF16, P4D_SUM), BYTES);
			TRY(p4d_comm_send(b.group, pending[i].to, pending[i].channel, b.memory + i * BYTES,
					  BYTES, &pending[i].ticket, err));
		}
		TRY(p4d_comm_send_wait_any(b.group, pending, 2, &which, err));
		CHECK(which == 1);
		/* now the peer may receive the other message */
		TRY(p4d_comm_barrier(b.group, err));
		TRY(p4d_comm_send_wait_any(b.group, pending, 1, &which, err));
		CHECK(which == 0);
		TRY(p4d_comm_send(b.group, 0, 1, b.memory, BYTES, &pending[0].ticket, err));
		pending[0] = (p4d_pending){.to = 0, .channel = 1, .ticket = pending[0].ticket};
		CHECK(p4d_comm_send_wait_any(b.group, pending, 1, &which, &wrong) < 0 &&
		      wrong.code == P4D_E_VALUE);
		TRY(p4d_comm_recv(b.group, 0, 1, b.memory + BYTES, BYTES, err));
		TRY(p4d_comm_send_wait_any(b.group, pending, 1, &which, err));
	} else {
		const uint8_t *first = elements(&b, 0, 0, COUNT, P4D_DT_BF16, P4D_SUM);
		const uint8_t *second = elements(&b, 1, 0, COUNT, P4D_DT_BF16, P4D_SUM);
		if (rank == size - 1)
			TRY(p4d_comm_recv(b.group, 0, 2, b.memory, BYTES, err));
		TRY(p4d_comm_barrier(b.group, err));
		if (rank == 1)
			TRY(p4d_comm_recv(b.group, 0, 0, b.memory + BYTES, BYTES, err));
		CHECK(rank != size - 1 || holds(&b, 0, second, BYTES));
		CHECK(rank != 1 || holds(&b, BYTES, first, BYTES));
	}
	TRY(b.rank.device.sync(&b.rank.device, err));
	TRY(p4d_comm_barrier(b.group, err));
	bench_close(&b);
	return 0;
}

static void test_any(void **state)
{
	(void)state;
	everywhere(any);
}

/* ---- asynchronous collectives ---- */

/* A collective starts after the operations that were queued before it. It does not block later operations,
 * and can be awaited by its number. */
static int beside(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	enum { COUNT = 1000, ROUNDS = 40 };
	const uint64_t bytes = COUNT * sizeof(float);
	uint64_t calls[ROUNDS];
	p4d_device *d;
	bench b;

	TRY(bench_open(&b, world, rank, size, err));
	d = &b.rank.device;
	CHECK(p4d_comm_called(b.group) == 0);
	upload(&b, 0, elements(&b, rank, 0, COUNT, P4D_DT_FP32, P4D_SUM), bytes);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		d->copy(d, b.memory + i * bytes, b.memory, bytes);
		TRY(p4d_comm_all_reduce(b.async, b.memory + i * bytes, COUNT, P4D_DT_FP32, P4D_SUM, err));
		calls[i - 1] = p4d_comm_called(b.async);
	}
	const uint8_t *wanted = elements(&b, size, 0, COUNT, P4D_DT_FP32, P4D_SUM);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		TRY(p4d_comm_await(b.async, calls[i - 1], err));
		d->copy(d, b.memory + (ROUNDS + i) * bytes, b.memory + i * bytes, bytes);
	}
	for (uint64_t i = 1; i <= ROUNDS; i++)
		CHECK(holds(&b, (ROUNDS + i) * bytes, wanted, bytes));
	if (kind == P4D_TRANSPORT_NCCL)
		CHECK(calls[0] == 1 && p4d_comm_await(b.async, ROUNDS + 1, err) < 0 &&
		      err->code == P4D_E_VALUE);
	bench_close(&b);
	return 0;
}

static void test_beside(void **state)
{
	(void)state;
	everywhere(beside);
}

/* ---- the choice of a transport ---- */

typedef struct choice {
	p4d_transport_kind asked;
	const char *identities[2], *versions[2];
	bool no_library; /* rank 1 has no library */
	const char *name, *error;
} choice;

static const choice choices[] = {
    {.identities = {"GPU-a", "GPU-b"}, .name = "NCCL 2.28.9"},
    {.identities = {"GPU-a", "GPU-a"}, .name = "staged through the host: ranks 0 and 1 share a GPU"},
    {.identities = {"GPU-a", "GPU-b"}, .asked = P4D_TRANSPORT_STAGED, .name = "staged through the host"},
    {.identities = {"GPU-a", "GPU-b"},
     .no_library = true,
     .name = "staged through the host: rank 1 (n0) has no NCCL: /nonexistent.so"},
    {.identities = {"", ""}, .name = "host memory"},
    {.identities = {"GPU-a", "GPU-a"},
     .asked = P4D_TRANSPORT_NCCL,
     .error = "NCCL cannot be used: ranks 0 and 1 share a GPU"},
    {.identities = {"GPU-a", "GPU-b"},
     .versions = {"22809", "22304"},
     .asked = P4D_TRANSPORT_NCCL,
     .error = "NCCL cannot be used: rank 0 has NCCL version 22809, but rank 1 (n0) has version 22304"},
    {.identities = {"GPU-a", "GPU-b"},
     .versions = {"21703", "21703"},
     .asked = P4D_TRANSPORT_NCCL,
     .error = "NCCL cannot be used: rank 0 (n0) has NCCL 2.17, expected 2.18 or later"},
    {.identities = {"", ""},
     .asked = P4D_TRANSPORT_NCCL,
     .error = "NCCL cannot be used: the queued device is not a GPU"},
};
static const choice *chosen;

static int choose(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const char *library = chosen->no_library && rank == 1 ? "/nonexistent.so" : fake_nccl_path();
	transports_rank r;
	p4d_error why = {.code = P4D_OK};

	if (chosen->versions[rank])
		setenv("FAKE_NCCL_VERSION", chosen->versions[rank], 1);
	int rc = transports_open_as(&r, world, size, chosen->identities[rank], chosen->asked, library, &why);
	if (chosen->error) {
		if (rc == 0 || why.code != P4D_E_VALUE || strcmp(why.text, chosen->error) != 0 ||
		    strncmp(why.fix, "--comm ", 7) != 0) {
			fprintf(stderr, "rank %u: \"%s\", fix \"%s\"\n", rank, why.text, why.fix);
			return -1;
		}
		CHECK(!r.transport);
		return p4d_comm_barrier(r.all, err);
	}
	if (rc < 0 ||
	    strncmp(p4d_comm_transport_name(r.transport), chosen->name, strlen(chosen->name)) != 0) {
		fprintf(stderr, "rank %u: \"%s\" %s\n", rank, p4d_comm_transport_name(r.transport), why.text);
		return -1;
	}
	transports_close(&r);
	return 0;
}

static void test_choice(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		forked f;
		chosen = &choices[i];
		forked_init(&f, 2, NULL);
		forked_start(&f, choose);
		if (!forked_finish(&f, 30) || !forked_all_well(&f))
			fail_msg("choice %zu", i);
	}
}

/* A group of one rank copies on its device. It has no communicator. */
static int alone(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const float x[2] = {3, 4};
	bench b;

	TRY(bench_open(&b, world, rank, size, err));
	CHECK(!strcmp(p4d_comm_transport_name(b.rank.transport), "one rank"));
	upload(&b, 0, x, sizeof(x));
	TRY(p4d_comm_all_gather(b.group, b.memory + 64, b.memory, sizeof(x), err));
	TRY(p4d_comm_all_reduce(b.async, b.memory, 2, P4D_DT_FP32, P4D_SUM, err));
	TRY(p4d_comm_await(b.async, p4d_comm_called(b.async), err));
	CHECK(holds(&b, 0, x, sizeof(x)) && holds(&b, 64, x, sizeof(x)));
	bench_close(&b);
	return 0;
}

static void test_alone(void **state)
{
	forked f;

	(void)state;
	kind = P4D_TRANSPORT_AUTO;
	forked_init(&f, 1, NULL);
	forked_start(&f, alone);
	assert_true(forked_finish(&f, 30) && forked_all_well(&f));
}

/* A library that is not NCCL, and NVIDIA's NCCL if it is installed. Both return their version without a
 * GPU. */
static void test_library(void **state)
{
	p4d_nccl *nccl;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_nccl__open(&nccl, "libc.so.6", &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
	assert_non_null(strstr(err.text, "libc.so.6 has no nccl"));
	if (p4d_nccl__open(&nccl, NULL, &err) < 0) {
		print_message("not here: %s\n", err.text);
		skip();
	}
	print_message("NCCL %d is here\n", nccl->version);
	assert_true(nccl->version > 20000 && nccl->version < 100000);
	assert_string_equal(nccl->GetErrorString(P4D_NCCL_SUCCESS), "no error");
	p4d_nccl__close(nccl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_collectives), cmocka_unit_test(test_messages), cmocka_unit_test(test_any),
	    cmocka_unit_test(test_beside),      cmocka_unit_test(test_choice),   cmocka_unit_test(test_alone),
	    cmocka_unit_test(test_library),
	};

	return cmocka_run_group_tests_name("groups on devices", tests, NULL, NULL);
}
