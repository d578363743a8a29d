/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest of a checkpoint. For any bytes, the result is either an error that names the manifest, or a
 * list of files. Each input is read as it is, and again with the right checksum, because nearly all inputs
 * fail the check of the checksum.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "checkpoint/checkpoint_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static void parse(const char *text, size_t size)
{
	p4d_checkpoint_info info = {.step = 77};
	p4d_checkpoint_rank_file *files = NULL;
	p4d_error err = {.code = P4D_OK};
	p4d_checkpoint_map map;
	uint32_t count = 0;

	if (p4d_checkpoint_manifest__parse("manifest", text, size, &info, &files, &count, &err) < 0) {
		check(err.code == P4D_E_CHECKPOINT && !strncmp(err.text, "manifest: ", 10));
		check(!files && info.step == 77);
		return;
	}
	check(err.code == P4D_OK && files && count);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < count; i++)
		sum |= files[i].bytes | files[i].checksum | files[i].rank;
	check(sum || count);
	check(memchr(info.plan, '\0', sizeof(info.plan)) && memchr(info.data, '\0', sizeof(info.data)));
	free(files);
	/* opens the plan, as the reader of checkpoints does next */
	if (p4d_checkpoint_map__open(&map, info.plan, false, &err) == 0)
		p4d_checkpoint_map__close(&map);
	else
		check(err.code != P4D_OK && err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char ending[] = ",\n\"checksum\": \"";
	const size_t tail = sizeof(ending) - 1 + 16 + 4;
	char *text = malloc(size + tail + 1);

	check(text != NULL);
	memcpy(text, data, size);
	parse(text, size);
	/* replaces or appends the last line, so that the checksum is right */
	size_t body =
	    size >= tail && !memcmp(text + size - tail, ending, sizeof(ending) - 1) ? size - tail : size;
	snprintf(text + body, tail + 1, "%s%016" PRIx64 "\"\n}\n", ending, (uint64_t)XXH3_64bits(text, body));
	parse(text, body + tail);
	free(text);
	return 0;
}
