/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A layout on two nodes of eight GPUs. Include after support.h. */
#include "request/defaults.h"
#include "request/layout.h"

static inline void build(const char *flags, p4d_request *r, p4d_layout *l)
{
	p4d_error err;

	memset(r, 0, sizeof(*r));
	set_all(r, flags);
	p4d_request_complete(r, 1024, 16);
	if (p4d_layout_build(r, 2, 8, l, &err) < 0)
		fail_msg("%s", err.text);
}
