/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "given_options.h"
#include "job/sbatch.h"

/* Fills the job of an all-zero *sbatch; p4d_sbatch_free releases it. Errors: VALUE, USAGE, NO_MEMORY. */
int p4d_client_job(p4d_sbatch *sbatch, p4d_error *err);

/*
 * Fills the request of *sbatch with the p4d options that the user gave. Call it after p4d_client_job. Errors:
 * VALUE, NO_MEMORY.
 */
int p4d_client_request(p4d_sbatch *sbatch, const p4d_given *given, p4d_error *err);
