/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of logs, and AdminComment with a record of jobstats. For any bytes, p4d finds either no memory or
 * finite sizes. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "measure/jobstats.h"
#include "measure/memory_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	p4d_memory_log log = {.format = NULL};
	char *text = malloc(size + 1);
	double used, total;

	check(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	if (p4d_jobstats_read(text, &used, &total))
		check(used > 0 && isfinite(used));
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));)
		p4d_memory_log__line(&log, line);
	check(isfinite(log.allocated) && isfinite(log.reserved) && isfinite(log.device) &&
	      log.allocated >= 0);
	check(!log.lines == !log.format);
	free(text);
	return 0;
}
