/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>

#include "abi.h"
#include "account.h"
#include "comm.h"

static FILE *open_record(const p4d_comm *c, int root, const char *mode)
{
	const char *directory = getenv("P4D_REHEARSAL_RECORD");
	char path[PATH_MAX];

	if (!directory || !c->id[0])
		return NULL;
	int length = snprintf(path, sizeof(path), "%s/%s-%d", directory, c->id, root);
	return length > 0 && (size_t)length < sizeof(path) ? fopen(path, mode) : NULL;
}

/* Whether no rank knows the data of the next broadcast. The Python module sets this before the call. */
static _Thread_local bool nobody_knows;

ENTRY void p4d_comm_nobody_knows(int is_unknown)
{
	nobody_knows = is_unknown;
}

void p4d_comm_record_write(p4d_comm *c, const void *from, size_t bytes)
{
	p4d_comm_logged e = {c->broadcasts, bytes};

	if (bytes > P4D_ACCOUNT_SMALL || nobody_knows)
		return;
	if (!c->written)
		c->written = open_record(c, c->rank, "we");
	if (!c->written)
		return;
	fwrite(&e, sizeof(e), 1, c->written);
	fwrite(from, bytes, 1, c->written);
	fflush(c->written);
}

bool p4d_comm_record_find(FILE *record, uint64_t number, void *to, size_t bytes)
{
	p4d_comm_logged e;

	for (long at = ftell(record); fread(&e, sizeof(e), 1, record) == 1; at = ftell(record)) {
		if (e.number > number) {
			fseek(record, at, SEEK_SET);
			return false;
		}
		if (e.number == number && e.bytes == bytes) {
			char *kept = malloc(bytes ? bytes : 1);
			bool is_there = kept && fread(kept, 1, bytes, record) == bytes;
			if (is_there)
				p4d_account_copy(to, kept, bytes);
			free(kept);
			return is_there;
		}
		fseek(record, (long)e.bytes, SEEK_CUR);
	}
	return false;
}

bool p4d_comm_record_read(p4d_comm *c, int root, void *to, size_t bytes)
{
	if (bytes > P4D_ACCOUNT_SMALL)
		return false;
	if (c->read && c->read_root != root) {
		fclose(c->read);
		c->read = NULL;
	}
	if (!c->read)
		c->read = open_record(c, root, "re");
	c->read_root = root;
	return c->read && p4d_comm_record_find(c->read, c->broadcasts, to, bytes);
}

void p4d_comm_record_end(p4d_comm *c)
{
	if (c->written)
		fclose(c->written);
	if (c->read)
		fclose(c->read);
}
