/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/jobstats.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_ZLIB
#include <zlib.h>

/* Maximum length of the expanded text; the record of a job on a thousand nodes is shorter. */
enum { MOST_TEXT = 8 << 20 };

/* The six bits of a base64 character; -1: it is no base64 character. */
static int bits_of(char c)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(alphabet, c) : NULL;

	return at ? (int)(at - alphabet) : -1;
}

/* Decodes base64 up to the first other character; the caller frees the bytes. NULL: no memory. */
static unsigned char *decode(const char *text, size_t *length)
{
	unsigned char *bytes = malloc(strlen(text) / 4 * 3 + 4);
	uint32_t held = 0;
	int count = 0;

	*length = 0;
	for (; bytes && bits_of(*text) >= 0; text++) {
		held = held << 6 | (uint32_t)bits_of(*text);
		count += 6;
		if (count < 8)
			continue;
		count -= 8;
		bytes[(*length)++] = (unsigned char)(held >> count);
		held &= (1u << count) - 1;
	}
	return bytes;
}

/* Expands gzip data to a NUL-terminated text; the caller frees the text. NULL: damaged, or too long. */
static char *expand(unsigned char *bytes, size_t length, size_t *text_length)
{
	z_stream stream = {.next_in = bytes, .avail_in = (uInt)length};
	char *text = malloc(MOST_TEXT + 1);

	if (!text || length > UINT32_MAX || inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) {
		free(text);
		return NULL;
	}
	stream.next_out = (unsigned char *)text;
	stream.avail_out = MOST_TEXT;
	const int rc = inflate(&stream, Z_FINISH);
	*text_length = MOST_TEXT - stream.avail_out;
	inflateEnd(&stream);
	text[*text_length] = '\0';
	if (rc == Z_STREAM_END)
		return text;
	free(text);
	return NULL;
}

/* Reads the GPUs of a node: {"gpu_used_memory":{"0":N},"gpu_total_memory":{"0":N}} */
static void read_node(struct json_object *node, double *used, double *total)
{
	const double gib = 1 << 30;
	struct json_object *gpus, *totals, *size;

	if (!json_object_is_type(node, json_type_object) ||
	    !json_object_object_get_ex(node, "gpu_used_memory", &gpus) ||
	    !json_object_is_type(gpus, json_type_object))
		return;
	if (!json_object_object_get_ex(node, "gpu_total_memory", &totals) ||
	    !json_object_is_type(totals, json_type_object))
		totals = NULL;
	json_object_object_foreach(gpus, name, value)
	{
		const double bytes = json_object_get_double(value);
		if (!(bytes > *used * gib) || !(bytes < 1e15))
			continue;
		*used = bytes / gib;
		*total = totals && json_object_object_get_ex(totals, name, &size)
			     ? json_object_get_double(size) / gib
			     : 0;
	}
}

static void read_nodes(struct json_object *record, double *used, double *total)
{
	struct json_object *nodes;

	if (!json_object_object_get_ex(record, "nodes", &nodes) ||
	    !json_object_is_type(nodes, json_type_object))
		return;
	json_object_object_foreach(nodes, name, node)
	{
		(void)name;
		read_node(node, used, total);
	}
}

bool p4d_jobstats_read(const char *comment, double *used, double *total)
{
	static const char mark[] = "JS1:";
	const char *at = comment ? strstr(comment, mark) : NULL;
	size_t length = 0, text_length = 0;
	p4d_error none;

	*used = *total = 0;
	if (!at)
		return false;
	unsigned char *bytes = decode(at + strlen(mark), &length);
	char *text = bytes && length ? expand(bytes, length, &text_length) : NULL;
	struct json_object *record = text ? p4d_json_parse(text, text_length, "jobstats", &none) : NULL;
	if (record)
		read_nodes(record, used, total);
	json_object_put(record);
	free(text);
	free(bytes);
	return *used > 0;
}

bool p4d_jobstats_is_built(void)
{
	return true;
}
#else
bool p4d_jobstats_read(const char *comment, double *used, double *total)
{
	(void)comment;
	*used = *total = 0;
	return false;
}

bool p4d_jobstats_is_built(void)
{
	return false;
}
#endif
