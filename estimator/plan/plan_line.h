/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "gpu/gpu.h"
#include "request/layout.h"
#include "request/request.h"

/*
 * The plan line (P4D_PLAN, admin_comment): a complete request as one line without blanks or quotes,
 *
 *     p4d1:model=llama13b@u:tp=8@u:pp=1@p:...:gpu=h100-80gb@s:nodes=1@u:gpus-per-node=8@u:hash=89abcdef01234567
 *
 * @ gives the origin (u user, j job script, s site, m model, p p4d). Bytes outside [A-Za-z0-9._/+,-] are
 * percent-encoded. hash is FNV-1a over everything before ":hash=": it detects editing and truncation, not
 * malice; slurmctld recomputes the verdict.
 */
enum { P4D_PLAN_MAX = 4096 };

/*
 * Adds the GPU and geometry to a request, so that its plan line describes the whole job. gpu NULL: the job
 * runs on the host.
 */
void p4d_plan_place(p4d_request *request, uint64_t nodes, uint64_t gpus_per_node, const char *gpu);

/*
 * For framework p4d: stores the hash of the plans of all stages in a placed request, so that a reader of the
 * line can verify that it computes the same buffers. Other frameworks have no hash. Errors: OVERFLOW.
 */
int p4d_plan_add_checksum(p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu, p4d_error *err);

/* Verifies the hash. Errors: PLAN_CHANGED if this machine computes other buffers. A request without a hash
 * passes. */
int p4d_plan_verify_checksum(const p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu,
			     p4d_error *err);

/* Writes the line. Errors: PLAN_SYNTAX if it does not fit size. */
int p4d_plan_write(const p4d_request *request, char *line, size_t size, p4d_error *err);

/* Reads a line, which must be spelt exactly as p4d_plan_write spells it. Errors: PLAN_SYNTAX, PLAN_CHANGED
 * (hash), VALUE. */
int p4d_plan_read(const char *line, p4d_request *request, p4d_error *err);

/*
 * Digest of the values in a plan, not of their origins. Plans with the same digest are equal for
 * p4d_plan_differs, and nobody can construct another plan with that digest.
 */
void p4d_plan_digest(const p4d_request *request, char text[P4D_DIGEST_TEXT]);

/* True if the plans describe different jobs: some plan option has another value (origins do not count).
 * *which: the first such option. */
int p4d_plan_differs(const p4d_request *a, const p4d_request *b, p4d_option *which);
