/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the calls of PyTorch's allocator in their order, on a GPU with 1 GiB. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

/* Declarations from headers that this test does not include. */
int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);
int cudaMallocAsync(void **address, size_t bytes, void *stream);
int cudaFreeAsync(void *address, void *stream);
int cudaMallocManaged(void **address, size_t bytes, unsigned flags);
int cudaHostAlloc(void **address, size_t bytes, unsigned flags);
int cudaFreeHost(void *address);
int cudaHostRegister(void *address, size_t bytes, unsigned flags);
int cudaHostUnregister(void *address);
int cudaMemGetInfo(size_t *left, size_t *total);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaMemset(void *to, int value, size_t bytes);
int cudaGetLastError(void);
const char *cudaGetErrorString(int error);
int cudaGetDeviceCount(int *count);
int cudaSetDevice(int device);
int cudaGetDevice(int *device);
int cudaGetDeviceProperties(void *properties, int device);
int cudaGetDeviceProperties_v2(void *properties, int device);
int cudaPointerGetAttributes(void *attributes, const void *address);
int cudaStreamCreateWithFlags(void **stream, unsigned flags);
int cudaStreamDestroy(void *stream);
int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamEndCapture(void *stream, void **graph);
int cudaStreamIsCapturing(void *stream, int *status);
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
int cudaEventCreate(void **event);
int cudaEventRecord(void *event, void *stream);
int cudaEventDestroy(void *event);
int cudaGraphDestroy(void *graph);
long cudaArrayGetInfo(void);
int cuMemCreate(void **handle, size_t bytes, const void *wanted, unsigned long long flags);
int cuMemRelease(void *handle);
int cuMemAddressReserve(void **address, size_t bytes, size_t alignment, void *fixed,
			unsigned long long flags);
int cuMemMap(void *address, size_t bytes, size_t offset, void *handle, unsigned long long flags);
int cuMemUnmap(void *address, size_t bytes);
int cuptiSubscribe(void **subscriber, void *callback, void *context);
int cuptiActivityEnable(int kind);
int cuptiActivityGetNextRecord(void *buffer, size_t bytes, void **record);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);
int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last);
int cuptiGetResultString(int result, const char **text);
int ncclCommInitRankScalable(void **comm, int ranks, int rank, int ids, const void *id, void *config);
int ncclCommSplit(void *parent, int colour, int key, void **comm, void *config);
int ncclCommCount(const void *comm, int *ranks);
int ncclCommUserRank(const void *comm, int *rank);
int ncclCommDestroy(void *comm);
int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *comm,
		  void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream);
int ncclSend(const void *from, size_t count, int type, int peer, void *comm, void *stream);
int ncclRecv(void *to, size_t count, int type, int peer, void *comm, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
void p4d_comm_expect_split(int ranks, int rank);
int p4d_report_write(void);
void p4d_report_unvalidated(const char *why);

#define MIB ((size_t)1 << 20)
enum { CONTEXT_MIB = 100, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801 };
static char report[] = "/tmp/p4d-stand-ins.XXXXXX";

static size_t used(void)
{
	size_t left, total;

	assert_int_equal(cudaMemGetInfo(&left, &total), 0);
	assert_int_equal(total, 1024 * MIB);
	return total - left;
}

static void read_report(char *text, size_t room)
{
	assert_int_equal(p4d_report_write(), 0);
	FILE *in = fopen(report, "r");
	assert_non_null(in);
	size_t length = fread(text, 1, room - 1, in);
	assert_true(length > 0);
	text[length] = '\0';
	fclose(in);
}

static void memory_is_an_account(void **state)
{
	void *large, *small, *other;
	size_t before = used();

	(void)state;
	assert_true(before >= CONTEXT_MIB * MIB);
	assert_int_equal(cudaMalloc(&large, 21 * MIB), 0);
	assert_int_equal(used() - before, 22 * MIB); /* the driver allocates in steps of 2 MiB */
	assert_int_equal(cudaMalloc(&small, 1000), 0);
	assert_int_equal(used() - before, 24 * MIB);
	assert_int_equal(cudaMalloc(&other, 1000), 0); /* this block fits into the 2 MiB that the previous
							* block allocated */
	assert_int_equal(used() - before, 24 * MIB);
	assert_int_equal(cudaFree(large), 0);
	assert_int_equal(cudaFree(small), 0);
	assert_int_equal(cudaFree(other), 0);
	assert_int_equal(used(), before);
	assert_int_equal(cudaFree(NULL), 0);
	assert_int_not_equal(cudaFree(large), 0); /* frees the block a second time */
	cudaGetLastError();
}

static void what_does_not_fit_is_cudas_error(void **state)
{
	size_t before = used();
	void *address = &before;

	(void)state;
	assert_int_equal(cudaMalloc(&address, 2048 * MIB), OUT_OF_MEMORY);
	assert_null(address);
	assert_int_equal(used(), before);
	assert_string_equal(cudaGetErrorString(cudaGetLastError()), "out of memory");
	assert_int_equal(cudaGetLastError(), 0);
	assert_int_equal(cudaMalloc(&address, 900 * MIB), 0);
	assert_int_equal(cudaFree(address), 0);
	assert_int_equal(cudaMalloc(&address, SIZE_MAX - 10), OUT_OF_MEMORY);
	cudaGetLastError();
}

static void small_data_is_real(void **state)
{
	char there[100] = "known", back[100] = "";
	void *first, *second;

	(void)state;
	assert_int_equal(cudaMalloc(&first, 4 * MIB), 0);
	assert_int_equal(cudaMemcpy(first, there, sizeof(there), 1), 0);
	assert_int_equal(cudaMemcpy(back, first, sizeof(back), 2), 0);
	assert_string_equal(back, "known");
	assert_int_equal(cudaMemset(first, 0, 4 * MIB), 0); /* blocks of any size are cleared */
	assert_int_equal(cudaMemcpy(back, first, sizeof(back), 2), 0);
	assert_string_equal(back, "");
	char *inside = (char *)first + 512,
	     *end = inside + 2 * MIB - sizeof(back); /* starts and ends in the middle of pages */
	assert_int_equal(cudaMemcpy(inside - sizeof(there), there, sizeof(there), 1), 0);
	assert_int_equal(cudaMemcpy(inside, there, sizeof(there), 1), 0);
	assert_int_equal(cudaMemcpy(end, there, sizeof(there), 1), 0);
	assert_int_equal(cudaMemset(inside, 0, 2 * MIB), 0);
	assert_int_equal(cudaMemcpy(back, inside, sizeof(back), 2), 0);
	assert_string_equal(back, "");
	assert_int_equal(cudaMemcpy(back, end, sizeof(back), 2), 0);
	assert_string_equal(back, "");
	assert_int_equal(cudaMemcpy(back, inside - sizeof(there), sizeof(back), 2), 0);
	assert_string_equal(back, "known");
	assert_int_equal(cudaMemcpy(first, there, sizeof(there), 1), 0);
	assert_int_equal(cudaFree(first), 0);
	assert_int_equal(cudaMalloc(&second, 4 * MIB), 0);
	assert_int_equal(cudaMemcpy(back, second, sizeof(back), 2), 0);
	assert_string_equal(back, "");
	assert_int_equal(cudaFree(second), 0);
}

/* Like expandable segments: one range of addresses, to which memory is mapped when it is needed. Memory
 * counts until it is neither mapped nor has a handle. */
static void virtual_memory_is_counted_until_nobody_has_it(void **state)
{
	struct {
		int type, handle_types, location_type, device;
		void *windows;
		unsigned char flags[8];
	} wanted = {.type = 1, .location_type = 1};
	size_t before = used();
	void *address, *handle, *second;

	(void)state;
	assert_int_equal(cuMemAddressReserve(&address, 512 * MIB, 0, NULL, 0), 0);
	assert_int_equal(used(), before);
	assert_int_equal(cuMemCreate(&handle, 20 * MIB, &wanted, 0), 0);
	assert_int_equal(cuMemMap(address, 20 * MIB, 0, handle, 0), 0);
	assert_int_equal(cuMemRelease(handle), 0); /* the memory is still mapped */
	assert_int_equal(used() - before, 20 * MIB);
	assert_int_equal(cuMemCreate(&second, 2048 * MIB, &wanted, 0), OUT_OF_MEMORY);
	assert_int_equal(cuMemUnmap(address, 20 * MIB), 0);
	assert_int_equal(used(), before);
}

static void pinned_memory_is_an_address_of_both(void **state)
{
	struct {
		int type, device;
		void *on_device, *on_host;
		long reserved[8];
	} a;
	static char own[4096];
	void *pinned, *managed, *device;

	(void)state;
	assert_int_equal(cudaHostAlloc(&pinned, 10 * MIB, 0), 0);
	assert_int_equal(cudaPointerGetAttributes(&a, (char *)pinned + 5 * MIB), 0);
	assert_int_equal(a.type, 1);
	assert_ptr_equal(a.on_device, (char *)pinned + 5 * MIB);
	assert_int_equal(cudaFreeHost(pinned), 0);
	assert_int_equal(cudaHostRegister(own, sizeof(own), 0), 0);
	assert_int_equal(cudaPointerGetAttributes(&a, own + 1), 0);
	assert_int_equal(a.type, 1);
	assert_int_equal(cudaHostUnregister(own), 0);
	assert_int_equal(cudaPointerGetAttributes(&a, own + 1), 0);
	assert_int_equal(a.type, 0);
	assert_int_equal(cudaMallocManaged(&managed, MIB, 1), 0);
	assert_int_equal(cudaPointerGetAttributes(&a, managed), 0);
	assert_int_equal(a.type, 3);
	assert_int_equal(cudaFree(managed), 0);
	assert_int_equal(cudaMalloc(&device, MIB), 0);
	assert_int_equal(cudaPointerGetAttributes(&a, device), 0);
	assert_int_equal(a.type, 2);
	assert_int_equal(cudaFree(device), 0);
}

static void pools_give_back_what_they_took(void **state)
{
	size_t before = used();
	void *address;

	(void)state;
	assert_int_equal(cudaMallocAsync(&address, 30 * MIB, NULL), 0);
	assert_int_equal(used() - before, 30 * MIB);
	assert_int_equal(cudaFreeAsync(address, NULL), 0);
	assert_int_equal(used(), before);
}

static int capturing(void *stream)
{
	int status;

	assert_int_equal(cudaStreamIsCapturing(stream, &status), 0);
	return status;
}

static void events_carry_a_capture_to_other_streams(void **state)
{
	void *first, *second, *event, *graph;

	(void)state;
	assert_int_equal(cudaStreamCreateWithFlags(&first, 1), 0);
	assert_int_equal(cudaStreamCreateWithFlags(&second, 1), 0);
	assert_int_equal(cudaEventCreate(&event), 0);
	assert_int_equal(cudaStreamBeginCapture(first, 0), 0);
	assert_int_equal(capturing(first), 1);
	assert_int_equal(capturing(second), 0);
	assert_int_equal(cudaEventRecord(event, first), 0);
	assert_int_equal(cudaStreamWaitEvent(second, event, 0), 0);
	assert_int_equal(capturing(second), 1);
	assert_int_equal(cudaStreamEndCapture(first, &graph), 0);
	assert_int_equal(capturing(first) + capturing(second), 0);
	assert_int_equal(cudaGraphDestroy(graph), 0);
	assert_int_equal(cudaEventDestroy(event), 0);
	assert_int_equal(cudaStreamDestroy(first), 0);
	assert_int_equal(cudaStreamDestroy(second), 0);
}

static int at(const char *properties, size_t offset)
{
	int value;

	memcpy(&value, properties + offset, sizeof(value));
	return value;
}

/* The offsets of capability, multiprocessors and shared memory in both releases of CUDA, from their
 * headers. */
static void properties_stand_where_each_release_has_them(void **state)
{
	char p[1032];
	int count;

	(void)state;
	assert_int_equal(cudaGetDeviceCount(&count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(cudaGetDeviceProperties(p, 0), 0); /* CUDA 13 */
	assert_int_equal(at(p, 360) * 10 + at(p, 364), 80);
	assert_int_equal(at(p, 384), 108);
	assert_int_equal(at(p, 672), 163 * 1024);
	assert_int_equal(cudaGetDeviceProperties_v2(p, 0), 0); /* CUDA 12 */
	assert_int_equal(at(p, 360) * 10 + at(p, 364), 80);
	assert_int_equal(at(p, 388), 108);
	assert_int_equal(at(p, 696), 163 * 1024);
}

static void devices_are_a_threads_own(void **state)
{
	int device;

	(void)state;
	assert_int_equal(cudaSetDevice(1), 0);
	size_t before = used();
	void *address;
	assert_int_equal(cudaMalloc(&address, 10 * MIB), 0);
	assert_int_equal(used() - before, 10 * MIB);
	assert_int_equal(cudaSetDevice(0), 0);
	assert_int_equal(cudaSetDevice(2), 101);
	cudaGetLastError();
	assert_int_equal(cudaGetDevice(&device), 0);
	assert_int_equal(device, 0);
	assert_int_equal(cudaFree(address), 0);
	assert_int_equal(cudaSetDevice(1), 0);
	assert_int_equal(used(), before);
	assert_int_equal(cudaSetDevice(0), 0);
}

static void absent_ranks_hold_what_this_one_holds(void **state)
{
	enum { INT64 = 4, FLOAT32 = 7, SUM = 0, MAXIMUM = 2 };
	int64_t mine = 5, all[4] = {0}, sum = 0, maximum = 0, foreign = 0;
	void *comm;

	(void)state;
	assert_int_equal(ncclCommInitRankScalable(&comm, 4, 1, 1, "id", NULL), 0);
	assert_int_equal(ncclAllGather(&mine, all, 1, INT64, comm, NULL), 0);
	assert_true(all[0] == 5 && all[1] == 5 && all[2] == 5 && all[3] == 5);
	assert_int_equal(ncclAllReduce(&mine, &sum, 1, INT64, SUM, comm, NULL), 0);
	assert_int_equal(sum, 20);
	assert_int_equal(ncclAllReduce(&mine, &maximum, 1, INT64, MAXIMUM, comm, NULL), 0);
	assert_int_equal(maximum, 5);
	/* in a group of broadcasts, each rank is the root once, as in a gather */
	assert_int_equal(ncclGroupStart(), 0);
	assert_int_equal(ncclBroadcast(&foreign, &foreign, 1, INT64, 0, comm, NULL), 0);
	assert_int_equal(ncclBroadcast(&mine, &mine, 1, INT64, 1, comm, NULL), 0);
	assert_int_equal(ncclGroupEnd(), 0);
	assert_int_equal(foreign, 5);
	foreign = 0;
	assert_int_equal(ncclGroupStart(), 0);
	assert_int_equal(ncclSend(&mine, 1, INT64, 2, comm, NULL), 0);
	assert_int_equal(ncclRecv(&foreign, 1, INT64, 2, comm, NULL), 0);
	assert_int_equal(ncclGroupEnd(), 0);
	assert_int_equal(foreign, 5);
	assert_int_equal(ncclCommDestroy(comm), 0);
}

/* Runs rank 0 of four pipeline stages. It sends a shape to the next stage twice. */
static void play_first_stage(void)
{
	enum { INT64 = 4 };
	const int64_t shape[2][3] = {{1024, 2, 512}, {896, 2, 512}};
	void *comm;

	setenv("RANK", "0", 1);
	if (ncclCommInitRankScalable(&comm, 4, 0, 1, "id", NULL) ||
	    ncclSend(shape[0], 3, INT64, 1, comm, NULL) || ncclSend(shape[1], 3, INT64, 1, comm, NULL))
		_exit(1);
	_exit(0);
}

static int64_t receive_first(void *comm, int peer, size_t count)
{
	enum { INT64 = 4 };
	int64_t shape[4] = {0};

	assert_int_equal(ncclRecv(shape, count, INT64, peer, comm, NULL), 0);
	return shape[0];
}

static void a_stage_gets_the_shapes_of_one_that_was_played(void **state)
{
	enum { INT64 = 4 };
	const int64_t own[3] = {640, 2, 512}, next[3] = {320, 2, 512};
	int64_t back[3] = {0};
	char record[] = "/tmp/p4d-record.XXXXXX", file[64], text[8192] = "";
	void *comm;
	int status;

	(void)state;
	assert_non_null(mkdtemp(record));
	setenv("P4D_REHEARSAL_RECORD", record, 1);
	pid_t child = fork();
	if (!child)
		play_first_stage();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	setenv("RANK", "2", 1);
	assert_int_equal(ncclCommInitRankScalable(&comm, 4, 2, 1, "id", NULL), 0);
	assert_int_equal(receive_first(comm, 1, 3),
			 1024); /* rank 1 did not run, so the test gets the data of rank 0 */
	assert_int_equal(ncclSend(own, 3, INT64, 3, comm, NULL), 0);
	assert_int_equal(receive_first(comm, 1, 3), 896);
	/* the data that this rank sent comes back from the peer, even if the next shape is in transit */
	assert_int_equal(ncclGroupStart(), 0);
	assert_int_equal(ncclSend(next, 3, INT64, 3, comm, NULL), 0);
	assert_int_equal(ncclRecv(back, 3, INT64, 3, comm, NULL), 0);
	assert_int_equal(ncclGroupEnd(), 0);
	assert_int_equal(back[0], 640);
	assert_int_equal(receive_first(comm, 3, 3), 320);
	assert_int_equal(receive_first(comm, 1, 3), 896); /* nobody sent a third message, so the last one
							   * is repeated */
	read_report(text, sizeof(text));
	assert_null(strstr(text, "integers that another rank sends"));
	assert_int_equal(receive_first(comm, 1, 4), 0); /* nobody sent a message of four numbers */
	read_report(text, sizeof(text));
	assert_non_null(strstr(text, "integers that another rank sends"));
	assert_int_equal(ncclCommDestroy(comm), 0);
	for (int rank = 0; rank <= 2; rank += 2) {
		snprintf(file, sizeof(file), "%s/numbers-%d-24", record, rank);
		assert_int_equal(remove(file), 0);
	}
	assert_int_equal(rmdir(record), 0);
	unsetenv("P4D_REHEARSAL_RECORD");
	unsetenv("RANK");
}

static void expect_group(const void *comm, int ranks, int rank)
{
	int value;

	assert_int_equal(ncclCommCount(comm, &value), 0);
	assert_int_equal(value, ranks);
	assert_int_equal(ncclCommUserRank(comm, &value), 0);
	assert_int_equal(value, rank);
}

static void a_group_that_is_split_off_has_its_own_size(void **state)
{
	enum {
		INT64 = 4,
		PART = 1 << 15,
		ALL = 8 * PART
	}; /* eight parts have 2 MiB; the next block begins there */
	static int64_t mine[PART] = {5};
	int64_t *all, *beyond, seen;
	void *world, *group;

	(void)state;
	assert_int_equal(ncclCommInitRankScalable(&world, 16, 11, 1, "id", NULL), 0);
	p4d_comm_expect_split(8, 3);
	assert_int_equal(ncclCommSplit(world, 1, 3, &group, NULL), 0);
	expect_group(group, 8, 3);
	assert_int_equal(ncclCommDestroy(group), 0);
	/* Nobody announced the group's size, so the stand-in assumes the parent's size. A gather must not
	 * write beyond its buffer. */
	assert_int_equal(ncclCommSplit(world, 1, 3, &group, NULL), 0);
	expect_group(group, 16, 3);
	assert_int_equal(cudaMalloc((void **)&all, ALL * sizeof(*all)), 0);
	assert_int_equal(cudaMalloc((void **)&beyond, ALL * sizeof(*all)), 0);
	assert_ptr_equal(beyond, all + ALL);
	assert_int_equal(ncclAllGather(mine, all, PART, INT64, group, NULL), 0);
	assert_int_equal(cudaMemcpy(&seen, all + ALL - PART, sizeof(seen), 2), 0);
	assert_int_equal(seen, 5);
	assert_int_equal(cudaMemcpy(&seen, beyond, sizeof(seen), 2), 0);
	assert_int_equal(seen, 0);
	assert_int_equal(cudaFree(all), 0);
	assert_int_equal(cudaFree(beyond), 0);
	assert_int_equal(ncclCommDestroy(group), 0);
	assert_int_equal(ncclCommDestroy(world), 0);
}

static void *allocate_at_random(void *seed)
{
	unsigned next = *(unsigned *)seed;
	void *held[16] = {NULL};

	for (int i = 0; i < 4000; i++) {
		int slot = rand_r(&next) % 16;
		if (held[slot] && cudaFree(held[slot]))
			return "a block was not known";
		held[slot] = NULL;
		if (cudaMalloc(&held[slot], (size_t)(rand_r(&next) % 8000000)) && held[slot])
			return "memory beside an error";
	}
	for (int slot = 0; slot < 16; slot++)
		cudaFree(held[slot]);
	return NULL;
}

static void threads_share_the_account(void **state)
{
	pthread_t thread[4];
	unsigned seed[4] = {1, 2, 3, 4};
	size_t before = used();

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, allocate_at_random, &seed[i]), 0);
	for (int i = 0; i < 4; i++) {
		void *fault;
		assert_int_equal(pthread_join(thread[i], &fault), 0);
		assert_null(fault);
	}
	assert_int_equal(used(), before);
}

static void what_is_not_played_is_named(void **state)
{
	char text[8192] = "";

	(void)state;
	assert_int_equal(cudaArrayGetInfo(), NOT_SUPPORTED);
	read_report(text, sizeof(text));
	assert_non_null(strstr(text, "\"missing\": [\"cudaArrayGetInfo\"]"));
	assert_non_null(strstr(text, "\"device\": 1"));
	assert_non_null(strstr(text, "\"refused_bytes\": "));
}

/* PyTorch's profiler gets no records. */
static void a_profiler_collects_nothing(void **state)
{
	void *subscriber = NULL, *record = NULL;
	const char *why = NULL;
	uint64_t last = 7;
	size_t dropped = 7;

	(void)state;
	assert_int_equal(cuptiSubscribe(&subscriber, NULL, NULL), 0);
	assert_non_null(subscriber);
	assert_int_equal(cuptiActivityEnable(3), 0);
	assert_int_equal(cuptiActivityGetNextRecord(NULL, 0, &record),
			 12); /* CUPTI_ERROR_MAX_LIMIT_REACHED */
	assert_int_equal(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped), 0);
	assert_int_equal(dropped, 0);
	assert_int_equal(cuptiActivityPopExternalCorrelationId(2, &last), 0);
	assert_int_equal(last, 0);
	assert_int_equal(cuptiGetResultString(0, &why), 0);
	assert_string_equal(why, "CUPTI_SUCCESS");
}

static void reasons_outlive_their_caller(void **state)
{
	char text[8192] = "", why[] = "a \"reason\"";

	(void)state;
	p4d_report_unvalidated(why);
	p4d_report_unvalidated(why);
	memset(why, 'x', sizeof(why) - 1);
	read_report(text, sizeof(text));
	assert_non_null(strstr(text, "\"unvalidated\": ["));
	assert_non_null(strstr(text, "\"a ?reason?\"]}"));
	assert_null(strstr(text, "xxx"));
}

static int describe_gpu(void **state)
{
	(void)state;
	int fd = mkstemp(report);
	if (fd < 0)
		return -1;
	close(fd);
	setenv("P4D_REHEARSAL_BYTES", "1073741824", 1);
	setenv("P4D_REHEARSAL_CONTEXT_BYTES", "104857600", 1);
	setenv("P4D_REHEARSAL_GPUS", "2", 1);
	setenv("P4D_REHEARSAL_SM", "80", 1);
	setenv("P4D_REHEARSAL_SMS", "108", 1);
	setenv("P4D_REHEARSAL_CUDA", "13", 1);
	setenv("P4D_REHEARSAL_REPORT", report, 1);
	return 0;
}

static int remove_report(void **state)
{
	(void)state;
	return remove(report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_is_an_account),
	    cmocka_unit_test(what_does_not_fit_is_cudas_error),
	    cmocka_unit_test(small_data_is_real),
	    cmocka_unit_test(virtual_memory_is_counted_until_nobody_has_it),
	    cmocka_unit_test(pinned_memory_is_an_address_of_both),
	    cmocka_unit_test(pools_give_back_what_they_took),
	    cmocka_unit_test(events_carry_a_capture_to_other_streams),
	    cmocka_unit_test(properties_stand_where_each_release_has_them),
	    cmocka_unit_test(devices_are_a_threads_own),
	    cmocka_unit_test(absent_ranks_hold_what_this_one_holds),
	    cmocka_unit_test(a_stage_gets_the_shapes_of_one_that_was_played),
	    cmocka_unit_test(a_group_that_is_split_off_has_its_own_size),
	    cmocka_unit_test(threads_share_the_account),
	    cmocka_unit_test(what_is_not_played_is_named),
	    cmocka_unit_test(a_profiler_collects_nothing),
	    cmocka_unit_test(reasons_outlive_their_caller),
	};
	return cmocka_run_group_tests(tests, describe_gpu, remove_report);
}
