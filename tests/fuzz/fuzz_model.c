/* SPDX-License-Identifier: Apache-2.0 */
/* Model files. For any bytes, the result is either an error with a text and an unchanged request, or a
 * complete model. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const p4d_option mandatory[] = {P4D_LAYERS,   P4D_HIDDEN,   P4D_FFN,   P4D_HEADS,
					       P4D_KV_HEADS, P4D_HEAD_DIM, P4D_VOCAB, P4D_NORM,
					       P4D_GLU,      P4D_TIED,     P4D_BIAS,  P4D_POSITIONS};
	p4d_request request = {0}, before = request;
	p4d_preset preset = {0};
	p4d_error err = {0};

	if (p4d_model__parse((const char *)data, size, "input", &request, &preset, &err) < 0) {
		check(err.code != P4D_OK && !strncmp(err.text, "input: ", 7));
		check(!memcmp(&request, &before, sizeof(request)));
		return 0;
	}
	check(err.code == P4D_OK);
	if (*request.unmodelled) {
		check(!p4d_is_set(&request, P4D_LAYERS));
		return 0;
	}
	for (size_t i = 0; i < sizeof(mandatory) / sizeof(mandatory[0]); i++)
		check(p4d_is_set(&request, mandatory[i]));
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (request.origin[i] && info->kind == P4D_INTEGER_KIND)
			check(request.value[i] >= info->min && request.value[i] <= info->max);
		if (request.origin[i] && info->kind == P4D_DECIMAL_KIND)
			check(p4d_request_real(&request, (p4d_option)i) >= info->least &&
			      p4d_request_real(&request, (p4d_option)i) <= info->most);
	}
	check(request.value[P4D_HEADS] % request.value[P4D_KV_HEADS] == 0);
	check(p4d_model_parameters(&request) > 0);
	return 0;
}
