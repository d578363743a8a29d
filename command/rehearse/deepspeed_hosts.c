/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts and GPUs deepspeed starts its ranks on. */
#include "rehearse/deepspeed_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rehearse/player.h"

void p4d_deepspeed__hostfile(const char *directory, const char *path, uint64_t *nodes, uint64_t *slots)
{
	char line[512], full[P4D_PLAYER_PATH];
	const char *from = path[0] != '/' && directory ? directory : "";

	*nodes = *slots = 0;
	snprintf(full, sizeof(full), "%s%s%s", from, *from ? "/" : "", path);
	FILE *in = fopen(full, "re");
	while (in && fgets(line, sizeof(line), in)) {
		const char *at = strstr(line, "slots=");
		if (line[0] == '#' || !at)
			continue;
		++*nodes;
		*slots = *slots ? *slots : strtoull(at + strlen("slots="), NULL, 10);
	}
	if (in)
		fclose(in);
}

void p4d_deepspeed__included(const char *text, uint64_t *nodes, uint64_t *each)
{
	const char *colon = strchr(text, ':');
	const size_t first = strcspn(text, "@");

	*nodes = 1;
	*each = 0;
	for (const char *c = text; *c; c++)
		*nodes += *c == '@';
	if (!colon || colon > text + first)
		return;
	*each = 1;
	for (const char *c = colon; c < text + first; c++)
		*each += *c == ',';
}
