/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files: for any bytes, the result is an error with a text, or tensors that are inside the file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	p4d_safetensors *files = NULL;
	p4d_error err = {0};
	uint64_t sum = 0;

	if (p4d_safetensors__parse(&files, "t", data, size, &err) < 0) {
		check(err.code == P4D_E_CHECKPOINT && !strncmp(err.text, "t: ", 3) && !files);
		return 0;
	}
	check(err.code == P4D_OK);
	for (size_t i = 0; i < p4d_safetensors__count(files); i++) {
		const p4d_safetensors_tensor *tensor = p4d_safetensors__at(files, i);
		const uint8_t *at = tensor->data;
		uint64_t bytes;
		check(p4d_safetensors__tensor_bytes(tensor, &bytes, NULL) == 0 && bytes == tensor->bytes);
		check(at >= data && bytes <= (uint64_t)(data + size - at));
		check(p4d_safetensors__find(files, tensor->name) == tensor);
		check(p4d_safetensors__verify(tensor, &err) == 0 || err.code == P4D_E_CHECKPOINT);
		sum += bytes;
	}
	check(sum < size);
	p4d_safetensors__header_checksum(files);
	p4d_safetensors__close(files);
	return 0;
}
