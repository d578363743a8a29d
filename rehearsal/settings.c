/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static p4d_rehearsal_settings settings = {
    .bytes = (uint64_t)79 << 30,
    .context_bytes = (uint64_t)500 << 20,
    .devices = 1,
    .sm = 90,
    .multiprocessors = 132,
    .name = "NVIDIA H100 80GB HBM3",
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t number(const char *name, uint64_t otherwise, uint64_t most)
{
	const char *text = getenv(name);
	char *end;

	if (!text || *text < '0' || *text > '9')
		return otherwise;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	return errno || *end || !value || value > most ? otherwise : value;
}

/*
 * Returns a copy of a variable, because programs that set their title (setproctitle) overwrite their initial
 * environment.
 */
static const char *text(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	const char *copy = value && *value ? strdup(value) : NULL;

	return copy ? copy : otherwise;
}

static void take(void)
{
	settings.bytes = number("P4D_REHEARSAL_BYTES", settings.bytes, (uint64_t)1 << 50);
	settings.context_bytes =
	    number("P4D_REHEARSAL_CONTEXT_BYTES", settings.context_bytes, settings.bytes);
	settings.devices = (int)number("P4D_REHEARSAL_GPUS", 1, P4D_REHEARSAL_DEVICES);
	settings.sm = (int)number("P4D_REHEARSAL_SM", 90, 999);
	settings.multiprocessors = (int)number("P4D_REHEARSAL_SMS", 132, 4096);
	settings.cuda = (int)number("P4D_REHEARSAL_CUDA", 0, 99);
	settings.name = text("P4D_REHEARSAL_NAME", settings.name);
	settings.report = text("P4D_REHEARSAL_REPORT", NULL);
}

const p4d_rehearsal_settings *p4d_settings(void)
{
	pthread_once(&once, take);
	return &settings;
}

/*
 * Finds a loaded library whose name has CUDA's release: libcudart.so.12, or libcudart.3eda8113.so.13 (a copy
 * with a hash in its name).
 */
static int look(struct dl_phdr_info *library, size_t bytes, void *found)
{
	const char *name = strrchr(library->dlpi_name, '/');
	const char *release;

	(void)bytes;
	name = name ? name + 1 : library->dlpi_name;
	if (strncmp(name, "libcudart", 9) || !(release = strstr(name, ".so.")))
		return 0;
	*(int *)found = atoi(release + 4);
	return *(int *)found > 0;
}

int p4d_settings_cuda(void)
{
	static int seen; /* every thread writes the same value */

	if (seen)
		return seen;
	int release = p4d_settings()->cuda;
	if (!release)
		dl_iterate_phdr(look, &release);
	if (release)
		seen = release;
	return release ? release : 13;
}
