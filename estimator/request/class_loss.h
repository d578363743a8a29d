/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "request/request.h"

/*
 * Models of several parts are classes of the transformers library with their own forward functions. In some
 * releases such a function computes the loss, and needs other memory than the functions of loss_utils.py.
 */
typedef struct p4d_class_loss {
	const char *class_name;
	int64_t since, before; /* range of releases, as values of --transformers */
	bool upcasts;          /* logits.float(). The original logits are then freed, unless `keeps` is set */
	bool keeps;            /* the result of the text part still refers to the original logits */
	bool masks;            /* logits[attention_mask != 0]: a copy, and another copy of the gradient */
	const char *what;      /* for messages: "with transformers 4.52 to 5.16, ..." */
} p4d_class_loss;

/*
 * The loss of a request's model in the requested release of transformers or, if the request names none, in
 * the newest release. NULL: the library's usual loss.
 */
const p4d_class_loss *p4d_class_loss_of(const p4d_request *request);

/*
 * Returns the next of the other losses that the model's class has in releases that the request allows; NULL:
 * there are no more. *at: 0 at first. *release: a release with that loss.
 */
const p4d_class_loss *p4d_class_loss_other(const p4d_request *request, unsigned *at, int64_t *release);
