/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the integers that pipeline stages send each other before data: the shape of that data. The layers
 * of a stage do not change the shape. So a message from a lower rank is what the nearest lower rank that ran
 * has sent upwards. A message from a higher rank is the shape that this rank has sent to it.
 */
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "account.h"
#include "comm.h"
#include "report.h"

/*
 * Numbers of the messages of one size: how many this rank has sent to a higher rank, and has received from
 * lower and from higher ranks.
 */
typedef struct size_class {
	size_t bytes;
	uint64_t sent_up, from_below, from_above;
	FILE *written, *own, *below;
} size_class;
enum { SIZES = 16 };
static size_class classes[SIZES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_class *class_of(size_t bytes)
{
	for (int i = 0; i < SIZES; i++) {
		if (!classes[i].bytes)
			classes[i].bytes = bytes;
		if (classes[i].bytes == bytes)
			return &classes[i];
	}
	return NULL;
}

static FILE *open_sent(int rank, size_t bytes, const char *mode)
{
	const char *directory = getenv("P4D_REHEARSAL_RECORD");
	char path[PATH_MAX];

	if (!directory)
		return NULL;
	int length = snprintf(path, sizeof(path), "%s/numbers-%d-%zu", directory, rank, bytes);
	return length > 0 && (size_t)length < sizeof(path) ? fopen(path, mode) : NULL;
}

/* The rank in the world; a communicator has its own rank numbers. */
static int own_rank(void)
{
	const char *rank = getenv("RANK");

	return rank ? atoi(rank) : 0;
}

static FILE *nearest_below(size_t bytes)
{
	FILE *found = NULL;

	for (int rank = own_rank() - 1; rank >= 0 && !found; rank--)
		found = open_sent(rank, bytes, "re");
	return found;
}

static void write_sent(size_class *k, const void *from)
{
	p4d_comm_logged e = {k->sent_up, k->bytes};

	if (!k->written)
		k->written = open_sent(own_rank(), k->bytes, "we");
	if (!k->written)
		return;
	fwrite(&e, sizeof(e), 1, k->written);
	fwrite(from, k->bytes, 1, k->written);
	fflush(k->written);
}

void p4d_comm_peers_sent(const p4d_comm *c, int peer, const void *from, size_t bytes)
{
	if (peer <= c->rank || !bytes || bytes > P4D_COMM_NUMBERS)
		return;
	pthread_mutex_lock(&lock);
	size_class *k = class_of(bytes);
	if (k) {
		k->sent_up++;
		write_sent(k, from);
	}
	pthread_mutex_unlock(&lock);
}

/* Reads the next message. If the recorded rank sent no more, reads the last one again. */
static bool read_class(size_class *k, bool is_below, void *to)
{
	FILE **record = is_below ? &k->below : &k->own;
	uint64_t *number = is_below ? &k->from_below : &k->from_above;

	if (!*record)
		*record = is_below ? nearest_below(k->bytes) : open_sent(own_rank(), k->bytes, "re");
	if (!*record)
		return false;
	if (p4d_comm_record_find(*record, *number + 1, to, k->bytes)) {
		(*number)++;
		return true;
	}
	rewind(*record);
	return p4d_comm_record_find(*record, *number, to, k->bytes);
}

bool p4d_comm_peers_read(const p4d_comm *c, int peer, void *to, size_t bytes)
{
	bool is_known = false;

	if (!bytes || bytes > P4D_COMM_NUMBERS)
		return false;
	pthread_mutex_lock(&lock);
	size_class *k = class_of(bytes);
	if (k)
		is_known = read_class(k, peer < c->rank, to);
	pthread_mutex_unlock(&lock);
	return is_known;
}

void p4d_comm_peers_doubt(size_t bytes)
{
	if (bytes <= P4D_COMM_NUMBERS)
		p4d_report_unvalidated("p4d does not know the integers that another rank sends, and sizes "
				       "may depend on them; --ranks first,... rehearses that rank first");
}
