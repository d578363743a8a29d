/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a Hugging Face model that has several files. For any weight map, the result is either an
 * error that names the index, or tensors of files in the same folder. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/p4d-fuzz-XXXXXX", file[64], index_file[64];

static void check(int right)
{
	if (!right)
		abort();
}

static void clean(void)
{
	unlink(file);
	unlink(index_file);
	rmdir(directory);
}

static void make_directory(void)
{
	const p4d_safetensors_tensor tensors[] = {{.name = "a", .type = P4D_ST_F32, .dims = 1, .shape = {2}},
						  {.name = "b", .type = P4D_ST_U8, .dims = 0}};
	p4d_safetensors_writer *writer;
	const float numbers[] = {1, 2, 0};

	check(mkdtemp(directory) != NULL);
	snprintf(file, sizeof(file), "%s/m.safetensors", directory);
	snprintf(index_file, sizeof(index_file), "%s/model.safetensors.index.json", directory);
	check(!p4d_safetensors__create(&writer, file, tensors, 2, NULL, NULL) &&
	      !p4d_safetensors__write(writer, numbers, 9, NULL) &&
	      !p4d_safetensors__finish(writer, NULL, NULL));
	atexit(clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	p4d_safetensors *files = NULL;
	p4d_error err = {.code = P4D_OK};

	if (!file[0])
		make_directory();
	FILE *out = fopen(index_file, "w");
	check(out && fwrite(data, 1, size, out) == size && !fclose(out));
	if (p4d_safetensors__open(&files, directory, &err) < 0) {
		check(err.code == P4D_E_CHECKPOINT && strstr(err.text, directory) && !files);
		return 0;
	}
	for (size_t i = 0; i < p4d_safetensors__count(files); i++) {
		const p4d_safetensors_tensor *tensor = p4d_safetensors__at(files, i);
		check(p4d_safetensors__verify(tensor, &err) == 0);
		check(p4d_safetensors__find(files, tensor->name) == tensor);
	}
	check(p4d_safetensors__count(files) <= 2);
	p4d_safetensors__close(files);
	return 0;
}
