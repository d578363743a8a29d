/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program without PyTorch, which test_rehearse.sh rehearses. It opens CUDA at run time. played MIB:
 * allocates MIB MiB. played missing: calls a function that the stand-ins do not have. played unsure:
 * reports that its sizes are uncertain. played hang: does not end. played kernel ARCH: has a kernel that
 * was compiled for ARCH. played store: uses the store of process groups, as if there were other ranks.
 * played none: uses no GPU.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int fail(const char *what)
{
	printf("played: %s\n", what);
	return 1;
}

static void *entry(const char *library, const char *name)
{
	void *opened = dlopen(library, RTLD_NOW);

	return opened ? dlsym(opened, name) : NULL;
}

static int take(size_t mib)
{
	int (*allocate)(void **, size_t) = NULL;
	void *address;

	*(void **)&allocate = dlsym(RTLD_DEFAULT, "cudaMalloc");
	if (!allocate)
		return fail("no cudaMalloc");
	return allocate(&address, mib << 20) ? fail("CUDA error: out of memory") : 0;
}

static int call_missing(void)
{
	long (*call)(void) = NULL;

	*(void **)&call = dlsym(RTLD_DEFAULT, "cudaArrayGetInfo");
	return take(10) || !call || call() != 801;
}

/* Reports that sizes are uncertain, as p4d's Python module does. */
static int doubt(void)
{
	void (*unvalidated)(const char *) = NULL;

	*(void **)&unvalidated = dlsym(RTLD_DEFAULT, "p4d_report_unvalidated");
	if (!unvalidated)
		return fail("no p4d_report_unvalidated");
	unvalidated("another rank knows more");
	return take(10);
}

/* Asks for the architecture of a kernel, as CUB does: members 5 and 6 of the structure, after three sizes. */
static int ask_kernel(const char *architecture)
{
	struct {
		size_t sizes[3];
		int most_threads, registers, ptx, binary, others[32];
	} of = {.ptx = 0};
	int (*ask)(void *, const void *) = NULL;

	*(void **)&ask = dlsym(RTLD_DEFAULT, "cudaFuncGetAttributes");
	if (!architecture || take(1) || !ask || ask(&of, NULL))
		return fail("no cudaFuncGetAttributes");
	return of.ptx == atoi(architecture) && of.binary == of.ptx ? 0 : fail("another architecture");
}

/* Sends a request of TCPStore's protocol: its number, then keys or values with their lengths. */
static void put(int fd, int request, uint64_t count, const char *const *text, int texts)
{
	char out[512], *at = out;

	*at++ = (char)request;
	if (count)
		at = (char *)memcpy(at, &count, 8) + 8;
	for (int i = 0; i < texts; i++) {
		uint64_t length = strlen(text[i]);
		memcpy(at, &length, 8);
		memcpy(at + 8, text[i], length);
		at += 8 + length;
	}
	/* in two pieces, because a request need not arrive as a whole */
	if (write(fd, out, 3) != 3 || write(fd, out + 3, (size_t)(at - out) - 3) != at - out - 3)
		exit(fail("the store does not take requests"));
}

static void get(int fd, void *data, size_t bytes)
{
	if (recv(fd, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
		exit(fail("the store does not answer"));
}

static int connect_store(void)
{
	const char *port = getenv("MASTER_PORT");
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_port = htons((uint16_t)(port ? atoi(port) : 0));
	return connect(fd, (struct sockaddr *)&address, sizeof(address)) ? -1 : fd;
}

static int speak_to_store(void)
{
	enum { SET = 1, GET = 3, ADD = 4, WAIT = 6 };
	const char *pair[] = {"key", "value"}, *absent[] = {"nobody"};
	char value[128], done;
	uint64_t length;
	struct timespec began, ended;
	int fd = connect_store();

	if (fd < 0)
		return fail("no store");
	put(fd, SET, 0, pair, 2);
	put(fd, GET, 0, pair, 1);
	get(fd, &length, 8);
	get(fd, value, length == 5 ? 5 : 0);
	if (length != 5 || memcmp(value, "value", 5))
		return fail("the store lost a value");
	clock_gettime(CLOCK_MONOTONIC, &began);
	put(fd, WAIT, 1, absent, 1);
	get(fd, &done, 1);
	put(fd, GET, 0, absent, 1);
	get(fd, &length, 8);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	if (length != sizeof(value))
		return fail("no value for a rank that is not there");
	get(fd, value, sizeof(value));
	if (ended.tv_sec - began.tv_sec > 20)
		return fail("the store waited for a rank that is not there");
	return take(10);
}

int main(int argc, char *argv[])
{
	const char *how = argc > 1 ? argv[1] : "none";

	if (!strcmp(how, "kernel"))
		return ask_kernel(argv[2]);
	if (!strcmp(how, "none"))
		return 0;
	int (*start)(unsigned) = NULL, (*watch)(void) = NULL;
	*(void **)&start = entry("libcuda.so.1", "cuInit");
	*(void **)&watch = entry("libnvidia-ml.so.1", "nvmlInit_v2");
	if (!start || start(0) || !watch || watch())
		return fail("no driver");
	if (!strcmp(how, "hang"))
		for (take(10);; sleep(1))
			;
	if (!strcmp(how, "missing"))
		return call_missing();
	if (!strcmp(how, "unsure"))
		return doubt();
	if (!strcmp(how, "store"))
		return speak_to_store();
	return take((size_t)atol(how));
}
