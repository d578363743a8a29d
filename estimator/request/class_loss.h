/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "request/request.h"

/*
 * Models of several parts are classes of the transformers library with a forward function of their own. Some
 * releases calculate the loss there, which takes other memory than loss_utils.py's.
 */
typedef struct p4d_class_loss {
	const char *class_name;
	int64_t since, before; /* releases, as the value of --transformers */
	bool upcasts;          /* logits.float(); the original is freed, */
	bool keeps;            /* unless the text part's result still refers to it */
	bool masks;            /* logits[attention_mask != 0]: a copy, and another of the gradient */
	const char *what;      /* for messages: "with transformers 4.52 to 5.16, ..." */
} p4d_class_loss;

/* The loss of a request's model in the request's release, else in the newest; NULL: the library's usual loss.
 */
const p4d_class_loss *p4d_class_loss_of(const p4d_request *request);

/*
 * Another loss that the model's class has in releases that the request allows; NULL: there is no further one.
 * at: 0 at first. *release: a release with that loss.
 */
const p4d_class_loss *p4d_class_loss_other(const p4d_request *request, unsigned *at, int64_t *release);
