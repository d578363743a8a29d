/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/request.h"
#include "slurm_compat.h"

/* The --p4d- options of one job, step or component, as Slurm passed them. */
typedef struct p4d_given {
	char *text[P4D_OPTIONS];            /* NULL: not given; "" for a switch */
	bool from_environment[P4D_OPTIONS]; /* only the environment sets it */
	const char *prefix; /* prefix of the variables that users write: SBATCH, SALLOC, SLURM; NULL in a
			     * step */
} p4d_given;

bool p4d_given_any(const p4d_given *given);

/* A step's options as a request. Errors: VALUE. */
int p4d_given_request(const p4d_given *given, p4d_request *request, p4d_error *err);

/* Stores the given options in the job. An option that is set in `request` gets the request's value.
 * request NULL: the values as they were given. */
void p4d_given_put(const p4d_given *given, spank_t spank, const p4d_request *request);
