/* SPDX-License-Identifier: Apache-2.0 */
/* gpus.json. For any bytes, the result is either an error without a table, or a table that has each GPU
 * under all its names. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	p4d_gpus gpus = {0};
	p4d_error err = {0};

	if (p4d_gpus_parse(&gpus, (const char *)data, size, "fuzz", &err) < 0) {
		check(err.code != P4D_OK && *err.text && !gpus.gpu && !gpus.count);
		return 0;
	}
	for (size_t i = 0; i < gpus.count; i++) {
		unsigned ambiguous = 0;
		check(p4d_gpu_find(&gpus, gpus.gpu[i].name, &ambiguous) == &gpus.gpu[i] && ambiguous == 1);
		check(gpus.gpu[i].usable_bytes > 0);
		p4d_gpu_find(&gpus, gpus.gpu[i].aliases, NULL);
	}
	p4d_gpus_free(&gpus);
	return 0;
}
