/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/device.h"

/*
 * Returns the index of a row's first element in the batch's whole matrix. The random bits of the row depend
 * on it. Also compiled for GPUs.
 */
P4D_ROUNDING uint64_t p4d_dropout_row(const p4d_dropout *d, uint64_t row)
{
	const uint64_t at = d->first + row;
	const uint64_t token =
	    (d->sequence + at / d->length) * d->seq_len + (uint64_t)d->position[at % d->length];

	return token * d->all_columns + d->first_column;
}
