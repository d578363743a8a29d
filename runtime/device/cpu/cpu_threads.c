/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/cpu_threads.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

int p4d_cpu_threads = 1;

static char *more;
static uint64_t more_bytes;

p4d_cpu_rooms p4d_cpu_rooms_for(void *first, uint64_t bytes, int team)
{
	const uint64_t each = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	const uint64_t need = each * (uint64_t)(team - 1);

	if (need > more_bytes) {
		void *grown;
		p4d_cpu_rooms_close();
		if (posix_memalign(&grown, ALIGNMENT, need) != 0)
			return (p4d_cpu_rooms){first, NULL, each, 1};
		more = grown;
		more_bytes = need;
	}
	return (p4d_cpu_rooms){first, more, each, team};
}

void p4d_cpu_rooms_close(void)
{
	free(more);
	more = NULL;
	more_bytes = 0;
}
