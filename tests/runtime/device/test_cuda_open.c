/* SPDX-License-Identifier: Apache-2.0 */
/* How the cuda device is opened, its arena, its copies and its failures, on a GPU that the shim simulates. */
#include "support/support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <unistd.h>

#include "support/device_under_test.h"

static p4d_device device;
static p4d_error err;

static const p4d_shim_machine usual = {.devices = 2, .driver = 13010, .sm = 90, .bytes = (size_t)80 << 30};

static int prepare(void **state)
{
	(void)state;
	p4d_shim_gpu = usual;
	(void)cudaGetLastError(); /* clears the error of the previous test */
	err = (p4d_error){.code = P4D_OK};
	unsetenv("CUDA_VISIBLE_DEVICES");
	return 0;
}

static int open_as(uint32_t local_rank)
{
	const p4d_cuda_request request = {PACKAGE_VERSION, sizeof(device), local_rank};

	return p4d_device_cuda_open(&device, &request, &err);
}

static void assert_says(const char *text)
{
	if (!strstr(err.text, text))
		fail_msg("\"%s\" does not say \"%s\"", err.text, text);
	assert_null(strchr(err.text, '\n'));
}

static void assert_refused(const char *text)
{
	assert_int_equal(open_as(0), -1);
	assert_int_equal(err.code, P4D_E_DEVICE);
	assert_says(text);
}

/* Each rank of a host gets a GPU of its own. If there are more ranks than GPUs, ranks share GPUs. */
static void opens(void **state)
{
	(void)state;
	assert_int_equal(open_as(1), 0);
	assert_string_equal(device.name, "cuda");
	assert_string_equal(device.text, "Host 1 (sm_90, 80.0 GiB)");
	assert_string_equal(device.identity, "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1");
	device.close(&device);
	assert_null(device.state);
	assert_int_equal(open_as(2), 0);
	assert_string_equal(device.text, "Host 0 (sm_90, 80.0 GiB)");
	device.close(&device);
}

static void no_driver(void **state)
{
	(void)state;
	p4d_shim_gpu.driver = 0;
	assert_refused("no NVIDIA driver");
}

static void old_driver(void **state)
{
	(void)state;
	p4d_shim_gpu.driver = 12040;
	assert_refused("supports CUDA up to 12.4; this build needs CUDA 13.0");
}

static void no_gpu(void **state)
{
	(void)state;
	p4d_shim_gpu.devices = 0;
	assert_refused("no GPU that CUDA can use");
	setenv("CUDA_VISIBLE_DEVICES", "7", 1);
	assert_refused("CUDA_VISIBLE_DEVICES=\"7\"");
}

static void other_architecture(void **state)
{
	(void)state;
	p4d_shim_gpu.sm = 75;
	assert_refused("Host 0 (sm_75, 80.0 GiB): this build only has code for sm ");
	assert_non_null(strstr(err.fix, "--with-cuda-architectures=75"));
}

static void other_version(void **state)
{
	const p4d_cuda_request older = {"0.0.9", sizeof(device), 0}, smaller = {PACKAGE_VERSION, 8, 0};

	(void)state;
	assert_int_equal(p4d_device_cuda_open(&device, &older, &err), -1);
	assert_int_equal(err.code, P4D_E_DEVICE);
	assert_says("p4d-train from 0.0.9");
	assert_int_equal(p4d_device_cuda_open(&device, &smaller, &err), -1);
	assert_says("(8)");
	assert_non_null(strstr(err.fix, "make install"));
}

static void arena_too_large(void **state)
{
	void *arena;
	uint64_t used, total;

	(void)state;
	assert_int_equal(open_as(0), 0);
	p4d_shim_gpu.taken = (size_t)30 << 30;
	device.usage(&device, &used, &total);
	assert_int_equal(used, (uint64_t)30 << 30);
	assert_int_equal(total, (uint64_t)80 << 30);
	assert_int_equal(device.allocate(&device, (uint64_t)51 << 30, &arena, &err), -1);
	assert_int_equal(err.code, P4D_E_DEVICE);
	assert_says("the arena of 51.00 GiB does not fit: 50.00 GiB are free, 30.00 of 80.00 GiB are in use");
	assert_non_null(strstr(err.fix, "p4d plan"));
	/* after a failed allocation, a smaller one succeeds */
	assert_int_equal(device.allocate(&device, 4096, &arena, &err), 0);
	device.release(&device, arena);
	assert_int_equal(device.sync(&device, &err), 0);
	device.close(&device);
}

/* Copies more bytes than the staging memory has. The number is not a multiple of a slot. */
static void copies_are_whole(void **state)
{
	enum { COUNT = (5 << 24) + (3 << 20) + 123 };
	unsigned char *from = malloc(COUNT), *to = malloc(COUNT);
	void *arena;

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	for (unsigned i = 0; i < COUNT; i++)
		from[i] = (unsigned char)(i * 2654435761u >> 24);
	assert_int_equal(open_as(0), 0);
	assert_int_equal(device.allocate(&device, COUNT, &arena, &err), 0);
	device.upload(&device, arena, from, COUNT);
	memset(to, 0, COUNT);
	device.download(&device, to, arena, COUNT);
	assert_memory_equal(from, to, COUNT);
	device.upload(&device, arena, from, 0);
	device.download(&device, to, arena, 0);
	assert_int_equal(device.sync(&device, &err), 0);
	device.release(&device, arena);
	device.close(&device);
	free(from), free(to);
}

/* Accesses the shim's memory at a time when the host must not. */
static void touch_closed_memory(void)
{
	char x = 7;
	void *arena;

	signal(SIGSEGV, SIG_DFL);
	setenv("P4D_SHIM_GUARD", "1", 1);
	if (open_as(0) < 0 || device.allocate(&device, 100, &arena, &err) < 0)
		_exit(1);
	device.zero(&device, arena, 100);
	device.upload(&device, (char *)arena + 3, &x, 1);
	x = 0;
	device.download(&device, &x, (char *)arena + 3, 1);
	if (x != 7)
		_exit(2);
	_exit(*(volatile char *)arena + 3);
}

/* With P4D_SHIM_GUARD, an access of the host to GPU memory ends the program. All tests of the cuda device
 * rely on this. */
static void closed_memory_is_closed(void **state)
{
	int status = 0;

	(void)state;
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		touch_closed_memory();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* sync reports the first failure, and reports it again in every later call. */
static void failures_stay(void **state)
{
	float x[4] = {1, 2, 3, 4};

	(void)state;
	assert_int_equal(open_as(0), 0);
	p4d_shim_gpu.fails = cudaErrorLaunchFailure;
	device.add(&device, P4D_DT_FP32, x, x, x, 4);
	device.zero(&device, x, sizeof(x));
	p4d_shim_gpu.fails = cudaSuccess;
	assert_int_equal(device.sync(&device, &err), -1);
	assert_int_equal(err.code, P4D_E_DEVICE);
	assert_says("detected at add: unspecified launch failure");
	assert_non_null(strstr(err.fix, "P4D_CUDA_SYNC=1"));
	assert_int_equal(device.sync(&device, &err), -1);
	device.close(&device);
}

/* Attention is fused unless the settings disable it. */
static void own_attention(void **state)
{
	(void)state;
	assert_int_equal(open_as(0), 0);
	assert_string_equal(device.attention_text, "plain C");
	assert_false(device.attention_slow);
	device.close(&device);
	setenv("P4D_CUDNN", "0", 1);
	assert_int_equal(open_as(0), 0);
	unsetenv("P4D_CUDNN");
	assert_string_equal(device.attention_text, "p4d's own kernels (P4D_CUDNN=0)");
	assert_false(device.attention_slow); /* no warning, because the settings asked for this attention */
	device.close(&device);
}

static void heads_that_are_too_wide(void **state)
{
	const p4d_attention_shape shape = {
	    .batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_dim = 264};
	float x[264];

	(void)state;
	assert_int_equal(open_as(0), 0);
	device.attention(&device, P4D_DT_FP32, x, x, x, x, x, &shape, NULL);
	assert_int_equal(device.sync(&device, &err), -1);
	assert_says("up to 256, not 264");
	device.close(&device);
}

static int gone(void *context, p4d_error *why)
{
	int *left = context;

	return (*left)-- > 0 ? 0 : p4d_fail(why, P4D_E_RANK, "rank 3 is gone");
}

/* The host waits for work that never ends, because another rank is gone. The device's watch function ends
 * the wait. */
static void watched(void **state)
{
	int left = 5;
	float x = 1;

	(void)state;
	assert_int_equal(open_as(0), 0);
	device.watch = gone;
	device.watch_context = &left;
	p4d_shim_gpu.behind = 4;
	assert_int_equal(device.sync(&device, &err), 0);
	assert_int_equal(left, 1);
	p4d_shim_gpu.behind = 1000;
	device.download(&device, &x, &x, sizeof(x));
	assert_int_equal(device.sync(&device, &err), -1);
	assert_int_equal(err.code, P4D_E_RANK);
	assert_says("rank 3 is gone");
	device.close(&device);
}

/* The CUDA runtime reports an unfinished event as an error. The next operation must not report this error. */
static void what_is_not_ready_is_no_failure(void **state)
{
	float x[4] = {1, 2, 3, 4};
	void *event;

	(void)state;
	assert_int_equal(open_as(0), 0);
	assert_int_equal(device.event_open(&device, &event, &err), 0);
	p4d_shim_gpu.behind = 3;
	assert_int_equal(device.sync(&device, &err), 0);
	device.add(&device, P4D_DT_FP32, x, x, x, 4);
	p4d_shim_gpu.behind = 1;
	assert_int_equal(device.event_reached(&device, event, &err), 0);
	device.add(&device, P4D_DT_FP32, x, x, x, 4);
	assert_int_equal(device.sync(&device, &err), 0);
	assert_true(x[3] == 16);
	device.close(&device);
}

static void streams(void **state)
{
	void *stream, *event;

	(void)state;
	assert_int_equal(open_as(0), 0);
	assert_int_equal(device.stream_open(&device, &stream, &err), 0);
	assert_non_null(stream);
	device.stream_wait(&device, stream, NULL);
	device.stream_wait(&device, NULL, stream);
	assert_int_equal(device.event_open(&device, &event, &err), 0);
	assert_int_equal(device.event_reached(&device, event, &err), 1);
	device.event_record(&device, event, stream);
	device.event_wait(&device, NULL, event);
	p4d_shim_gpu.behind = 1;
	assert_int_equal(device.event_reached(&device, event, &err), 0);
	assert_int_equal(device.event_reached(&device, event, &err), 1);
	assert_int_equal(device.attach(&device, &err), 0);
	p4d_shim_gpu.fails = cudaErrorLaunchFailure;
	assert_int_equal(device.event_reached(&device, event, &err), -1);
	p4d_shim_gpu.fails = cudaSuccess;
	assert_int_equal(device.sync(&device, &err), -1);
	device.close(&device);
}

/* ---- finding libp4d-cuda.so ---- */

static void not_built(void **state)
{
	(void)state;
	setenv("P4D_LIBDIR", "/nonexistent", 1);
	assert_int_equal(p4d_device_cuda_load(&device, 0, &err), -1);
	assert_int_equal(err.code, P4D_E_DEVICE);
	assert_says("built without CUDA: /nonexistent/libp4d-cuda.so not found");
	assert_non_null(strstr(err.fix, "--device cpu"));
	err.code = P4D_OK;
	assert_false(p4d_device_cuda_there(&err));
	assert_says("/nonexistent/libp4d-cuda.so");
}

static void not_a_library(void **state)
{
	char directory[] = "/tmp/p4d-cuda-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/libp4d-cuda.so", directory);
	FILE *file = fopen(path, "w");
	const bool written = file && fputs("nothing\n", file) >= 0;
	if (file)
		fclose(file);
	setenv("P4D_LIBDIR", directory, 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	unsetenv("CUDA_MODULE_LOADING");
	const int rc = p4d_device_cuda_load(&device, 0, &err);
	unlink(path);
	rmdir(directory);
	assert_true(written);
	assert_int_equal(rc, -1);
	assert_int_equal(err.code, P4D_E_DEVICE);
	assert_says("cannot load CUDA: ");
	/* CUDA reads these variables when it is loaded, so p4d sets them unless the user has */
	assert_string_equal(getenv("CUDA_MODULE_LOADING"), "LAZY");
	assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(opens, prepare),
	    cmocka_unit_test_setup(no_driver, prepare),
	    cmocka_unit_test_setup(old_driver, prepare),
	    cmocka_unit_test_setup(no_gpu, prepare),
	    cmocka_unit_test_setup(other_architecture, prepare),
	    cmocka_unit_test_setup(other_version, prepare),
	    cmocka_unit_test_setup(arena_too_large, prepare),
	    cmocka_unit_test_setup(copies_are_whole, prepare),
	    cmocka_unit_test_setup(closed_memory_is_closed, prepare),
	    cmocka_unit_test_setup(failures_stay, prepare),
	    cmocka_unit_test_setup(own_attention, prepare),
	    cmocka_unit_test_setup(heads_that_are_too_wide, prepare),
	    cmocka_unit_test_setup(watched, prepare),
	    cmocka_unit_test_setup(what_is_not_ready_is_no_failure, prepare),
	    cmocka_unit_test_setup(streams, prepare),
	    cmocka_unit_test_setup(not_built, prepare),
	    cmocka_unit_test_setup(not_a_library, prepare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
