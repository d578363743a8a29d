/* SPDX-License-Identifier: Apache-2.0 */
/* Reads memory from logs of training programs, with one function per format. */
#include "measure/memory_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"

enum { MOST_LINE = 64 * 1024 };
static const double MIB = 1.0 / 1024, BYTES = 1.0 / (1 << 30);

static void take(double *to, double value)
{
	if (isfinite(value) && value > *to)
		*to = value;
}

/* The number after a word; 0: the line has no such word or number. */
static double number_after(const char *line, const char *word)
{
	const char *at = strstr(line, word);
	char *end;

	if (!at)
		return 0;
	at += strlen(word);
	const double value = strtod(at, &end);
	return end > at && isfinite(value) && value > 0 ? value : 0;
}

/*
 * Reads "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: ... |
 * max reserved: 3.0"
 */
static bool read_megatron(p4d_memory_log *log, char *line)
{
	const double allocated = number_after(line, "max allocated:"),
		     reserved = number_after(line, "max reserved:");

	if (!strstr(line, "memory (MB)") || !(allocated > 0))
		return false;
	take(&log->allocated, allocated * MIB);
	take(&log->reserved, reserved * MIB);
	return true;
}

/* Copies a line without a terminal's colours: ESC [ ... m */
static void strip_colours(char *line)
{
	char *to = line;

	for (const char *at = line; *at; at++) {
		if (at[0] == '\033' && at[1] == '[') {
			at += 2 + strspn(at + 2, "0123456789;");
			if (!*at)
				break;
		} else {
			*to++ = *at;
		}
	}
	*to = '\0';
}

/* Reads "step: 10 loss: 7.9 memory: 41.05GiB(51.84%) tps: 1,234", which has the peak of reserved memory. */
static bool read_torchtitan(p4d_memory_log *log, char *line)
{
	const char *at = strstr(line, "memory:");
	double gib, percent;

	if (!at || !strstr(line, "step:") || sscanf(at, "memory: %lfGiB(%lf%%)", &gib, &percent) != 2 ||
	    !(gib > 0))
		return false;
	take(&log->reserved, gib);
	if (percent > 0 && percent <= 100)
		log->total = 100 * gib / percent;
	return true;
}

static double member(struct json_object *object, const char *name, double unit)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) &&
		       (json_object_is_type(value, json_type_int) ||
			json_object_is_type(value, json_type_double))
		   ? json_object_get_double(value) * unit
		   : 0;
}

static bool has_member(struct json_object *object, const char *name, const char *text)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) &&
	       json_object_is_type(value, json_type_string) &&
	       (!text || !strcmp(json_object_get_string(value), text));
}

static struct json_object *parse_line(const char *line)
{
	p4d_error none;

	return *line == '{' ? p4d_json_parse(line, strlen(line), "a log", &none) : NULL;
}

/*
 * Reads {"event":"step","memory_bytes":N}: the arena;
 * {"event":"memory","device_bytes":N,"device_total_bytes":N}
 */
static bool read_p4d_train(p4d_memory_log *log, char *line)
{
	struct json_object *object = strstr(line, "\"event\"") ? parse_line(line) : NULL;
	const bool step = object && has_member(object, "event", "step"),
		   memory = object && has_member(object, "event", "memory");
	const double allocated = step ? member(object, "memory_bytes", BYTES) : 0,
		     device = memory ? member(object, "device_bytes", BYTES) : 0;

	if (memory)
		take(&log->total, member(object, "device_total_bytes", BYTES));
	json_object_put(object);
	take(&log->allocated, allocated);
	take(&log->device, device);
	return allocated > 0 || device > 0;
}

/* Reads {"phase": "backward", "step": 1, "allocated": N, "reserved": N, ...}. */
static bool read_rehearsal_phase(p4d_memory_log *log, char *line)
{
	struct json_object *object = strstr(line, "\"phase\"") ? parse_line(line) : NULL;
	const bool is_phase = object && has_member(object, "phase", NULL);
	const double allocated = is_phase ? member(object, "allocated", BYTES) : 0;

	if (is_phase)
		take(&log->reserved, member(object, "reserved", BYTES));
	json_object_put(object);
	take(&log->allocated, allocated);
	return allocated > 0;
}

/* Reads a rehearsal's record: "run 1 8 8 h100-80gb pass 1700000000 DEVICE_BYTES USABLE_BYTES ...". */
static bool read_rehearsal_record(p4d_memory_log *log, char *line)
{
	unsigned long long device, usable;
	char verdict[8];

	if (sscanf(line, "run %*u %*u %*u %*47s %7s %*u %llu %llu", verdict, &device, &usable) != 3 ||
	    !device || (strcmp(verdict, "pass") != 0 && strcmp(verdict, "warn") != 0))
		return false;
	take(&log->device, (double)device * BYTES);
	take(&log->total, (double)usable * BYTES);
	return true;
}

static const struct {
	const char *name;
	bool (*read)(p4d_memory_log *log, char *line);
} formats[] = {
    {"Megatron-LM", read_megatron},          {"torchtitan", read_torchtitan},
    {"p4d-train", read_p4d_train},           {"p4d rehearse", read_rehearsal_phase},
    {"p4d rehearse", read_rehearsal_record},
};

bool p4d_memory_log__line(p4d_memory_log *log, char *line)
{
	strip_colours(line);
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (formats[i].read(log, line)) {
			log->format = log->format ? log->format : formats[i].name;
			log->lines++;
			return true;
		}
	return false;
}

int p4d_memory_log_read(p4d_memory_log *log, const char *path, p4d_error *err)
{
	FILE *from = fopen(path, "re");
	size_t room = 0;
	ssize_t length;
	char *line = NULL;

	*log = (p4d_memory_log){.format = NULL};
	if (!from)
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
	while ((length = getline(&line, &room, from)) > 0) {
		line[length - (line[length - 1] == '\n')] = '\0';
		if (length <= MOST_LINE)
			p4d_memory_log__line(log, line);
	}
	const int why = ferror(from) ? errno : 0;
	free(line);
	fclose(from);
	if (why)
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path, strerror(why));
	if (log->format)
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "%.300s: no line has the memory of a GPU in the form of Megatron-LM, torchtitan, p4d-train "
		 "or p4d rehearse",
		 path);
	return p4d_fix(err, "Megatron-LM: --log-memory-interval 100; torchtitan: the log of its metrics");
}

double p4d_memory_log_gib(const p4d_memory_log *log, const char **what)
{
	*what = log->device > 0 ? "device" : log->reserved > 0 ? "reserved" : "allocated";
	return log->device > 0 ? log->device : log->reserved > 0 ? log->reserved : log->allocated;
}
