/* SPDX-License-Identifier: Apache-2.0 */
/* Job scripts, read as bash would run them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "reader/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *variable(void *context, const char *name)
{
	(void)context;
	return name[0] == 'S' ? p4d_shell_later : name[0] == 'E' ? "8 x" : NULL;
}

/* The script reads itself. */
typedef struct input {
	const char *text;
	size_t length;
} input;

static const char *file(void *context, const char *path, size_t *length)
{
	const input *in = context;

	(void)path;
	*length = in->length;
	return in->text;
}

/* Scripts that end in no letter are given little, so that reading stops anywhere. */
static p4d_shell_limits limits_of(void *memory, size_t most, const uint8_t *data, size_t size)
{
	const unsigned last = size ? data[size - 1] : 0;

	if (last < 0x80)
		return (p4d_shell_limits){memory, most, P4D_SHELL_WORK / 24};
	return (p4d_shell_limits){memory, (size_t)4096 << (last & 7), (uint64_t)16 << (last >> 3 & 15)};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MEMORY = 8 << 20 };
	static _Alignas(16) char memory[MEMORY];
	static p4d_reading reading;
	static const char *const arguments[] = {"4", "--x", NULL};
	char *text = malloc(size ? size : 1);

	if (!text)
		abort();
	memcpy(text, data, size); /* of exactly its length, so that one byte beyond it is found */
	input in = {text, size};
	const p4d_reader_host host = {.shell = {.context = &in, .variable = variable, .file = file}};
	const p4d_shell_limits limits = limits_of(memory, MEMORY, data, size);
	p4d_reader_read(&reading, &host, &limits, "job.sh", text, size, arguments, "/job");
	if (reading.reader && (!reading.file || !reading.commands))
		abort();
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (reading.value[i].file && !memchr(reading.value[i].text, 0, sizeof(reading.value[i].text)))
			abort();
	free(text);
	return 0;
}
