/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/framework.h"

/* p4d-train's entry in the table of frameworks: its check_model and check_layout. */
int p4d_framework__p4d_model(const p4d_request *request, p4d_error *err);
int p4d_framework__p4d_layout(const p4d_layout *layout, p4d_error *err);

/* Bytes of the communicators of a rank of a stage (p4d_groups.c). */
uint64_t p4d_framework__p4d_groups_bytes(const p4d_layout *layout, uint32_t stage);
