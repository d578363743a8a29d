/* SPDX-License-Identifier: Apache-2.0 */
#include "run/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "run/log_file.h"

/* Fields of Event, Summary, Summary.Value and SessionLog (event.proto, summary.proto of TensorBoard). */
enum {
	EVENT_TIME = 1,
	EVENT_STEP = 2,
	EVENT_VERSION = 3,
	EVENT_SUMMARY = 5,
	EVENT_SESSION = 7,
	SUMMARY_VALUE = 1,
	VALUE_TAG = 1,
	VALUE_SCALAR = 2,
	SESSION_STATUS = 1,
	SESSION_START = 1,
};
/* Wire types of fields, which are the low three bits of a key. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

enum { HEADER = 12, FOOTER = 4 }; /* bytes before and after the data of a record */

static uint32_t checksum(const uint8_t *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static uint8_t *put_fixed(uint8_t *to, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*to++ = (uint8_t)(value >> 8 * i);
	return to;
}

static uint8_t *put_varint(uint8_t *to, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*to++ = (uint8_t)(value | 0x80);
	*to++ = (uint8_t)value;
	return to;
}

static uint8_t *put_key(uint8_t *to, unsigned field, unsigned kind)
{
	return put_varint(to, field << 3 | kind);
}

static uint8_t *put_bytes(uint8_t *to, unsigned field, const void *data, size_t bytes)
{
	to = put_varint(put_key(to, field, BYTES), bytes);
	memcpy(to, data, bytes);
	return to + bytes;
}

static uint8_t *put_event(uint8_t *to, double time, uint64_t step)
{
	uint64_t bits;

	memcpy(&bits, &time, sizeof(bits));
	to = put_fixed(put_key(to, EVENT_TIME, FIXED64), bits, 8);
	return step ? put_varint(put_key(to, EVENT_STEP, VARINT), step) : to;
}

static uint8_t *put_scalar(uint8_t *to, const p4d_scalar *scalar)
{
	uint8_t value[P4D_TENSORBOARD_TAG + 16], *end = value;
	const float number = (float)scalar->value;
	uint32_t bits;

	memcpy(&bits, &number, sizeof(bits));
	end = put_bytes(end, VALUE_TAG, scalar->tag, strnlen(scalar->tag, P4D_TENSORBOARD_TAG));
	end = put_fixed(put_key(end, VALUE_SCALAR, FIXED32), bits, 4);
	return put_bytes(to, SUMMARY_VALUE, value, (size_t)(end - value));
}

/* Writes header and footer of a record whose data ends at `end`. Returns the record's bytes. */
static size_t close_record(uint8_t *record, const uint8_t *end)
{
	const size_t bytes = (size_t)(end - record) - HEADER;

	put_fixed(record, bytes, 8);
	put_fixed(record + 8, checksum(record, 8), 4);
	put_fixed(record + HEADER + bytes, checksum(record + HEADER, bytes), FOOTER);
	return HEADER + bytes + FOOTER;
}

size_t p4d_tensorboard_record(uint8_t *buf, double time, uint64_t step, const p4d_scalar *scalars,
			      size_t count)
{
	uint8_t summary[P4D_TENSORBOARD_RECORD - 64] = {0}, *end = summary;

	for (size_t i = 0; i < count && i < P4D_TENSORBOARD_SCALARS; i++)
		if (isfinite(scalars[i].value))
			end = put_scalar(end, &scalars[i]);
	return close_record(buf, put_bytes(put_event(buf + HEADER, time, step), EVENT_SUMMARY, summary,
					   (size_t)(end - summary)));
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/*
 * Writes the format's version. If the run continues from a checkpoint, it also writes from which step on
 * records in other files no longer count.
 */
static void begin(p4d_tensorboard *board, uint64_t next)
{
	static const char version[] = "brain.Event:2";
	const uint8_t start[] = {SESSION_STATUS << 3 | VARINT, SESSION_START};
	uint8_t record[128];

	uint8_t *end =
	    put_bytes(put_event(record + HEADER, now(), 0), EVENT_VERSION, version, strlen(version));
	p4d_log_file_write(&board->fd, record, close_record(record, end), board->what);
	end = put_bytes(put_event(record + HEADER, now(), next), EVENT_SESSION, start, sizeof(start));
	p4d_log_file_write(&board->fd, record, close_record(record, end), board->what);
}

int p4d_tensorboard_open(p4d_tensorboard *board, const char *directory, uint64_t next, p4d_error *err)
{
	char host[64] = "host", path[4096];
	int length;

	board->fd = -1;
	if (mkdir(directory, 0777) < 0 && errno != EEXIST)
		return p4d_fail(err, P4D_E_IO, "--tensorboard %.300s: cannot be created: %s", directory,
				strerror(errno));
	if (gethostname(host, sizeof(host) - 1) < 0)
		snprintf(host, sizeof(host), "host");
	/* readers read the files of a folder in the order of their names, which begin with the time */
	for (unsigned i = 0; board->fd < 0 && i < 100; i++) {
		length = snprintf(path, sizeof(path), "%s/events.out.tfevents.%010lld.%s.%d.%u", directory,
				  (long long)time(NULL), host, (int)getpid(), i);
		if (length >= (int)sizeof(path))
			return p4d_fail(err, P4D_E_VALUE, "--tensorboard %.300s: too long", directory);
		board->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
		if (board->fd < 0 && errno != EEXIST)
			break;
	}
	if (board->fd < 0)
		return p4d_fail(err, P4D_E_IO, "--tensorboard %.300s: cannot be created: %s", path,
				strerror(errno));
	snprintf(board->what, sizeof(board->what), "--tensorboard %.300s", path);
	begin(board, next);
	return 0;
}

void p4d_tensorboard_add(p4d_tensorboard *board, uint64_t step, const p4d_scalar *scalars, size_t count)
{
	uint8_t record[P4D_TENSORBOARD_RECORD];

	if (board->fd >= 0)
		p4d_log_file_write(&board->fd, record,
				   p4d_tensorboard_record(record, now(), step, scalars, count), board->what);
}

void p4d_tensorboard_close(p4d_tensorboard *board)
{
	if (board->fd >= 0)
		close(board->fd);
	board->fd = -1;
}
