/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/script_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *p4d_guard__on_line(const p4d_reading *r, const char *argument, const char *value, char *buf,
			       size_t size)
{
	static const char launcher[] = "--accelerate.";
	const bool launched = !strncmp(argument, launcher, sizeof(launcher) - 1);
	const bool bare = !*value || !strcmp(value, "true");

	if (launched)
		snprintf(buf, size, "--%s%s%s", argument + sizeof(launcher) - 1, bare ? "" : " ",
			 bare ? "" : value);
	else if (p4d_reading_assigns(r))
		snprintf(buf, size, "%s%s%s", argument + strspn(argument, "-"), *value ? "=" : "", value);
	else
		snprintf(buf, size, "%s%s%s", argument, bare ? "" : " ", bare ? "" : value);
	return buf;
}

const char *p4d_guard__place_of(const p4d_read_value *v, char *buf, size_t size)
{
	const char *file = v->named_file ? v->named_file : v->file;
	const uint32_t line = v->named_file ? v->named_line : v->line;

	snprintf(buf, size, line ? "%.100s:%" PRIu32 : "%.100s", file, line);
	return buf;
}

/* Formats of configuration files, by the ending of the file's name. */
static const struct {
	const char *ending, *key_quote, *between;
	bool quotes;
} file_formats[P4D_FILE_FORMATS] = {[P4D_TOML] = {".toml", "", " = ", true},
				    [P4D_YAML] = {".yaml", "", ": ", false},
				    [P4D_YML] = {".yml", "", ": ", false},
				    [P4D_JSON] = {".json", "\"", ": ", true}};

int p4d_guard__format_of(const char *file, const char *argument)
{
	const size_t length = strlen(file);

	for (int i = 0; i < P4D_FILE_FORMATS; i++) {
		const size_t ending = strlen(file_formats[i].ending);
		if (length > ending && !strcmp(file + length - ending, file_formats[i].ending))
			return i;
	}
	if (!strncmp(argument, "--deepspeed.", 12))
		return P4D_JSON;
	return !strncmp(argument, "--accelerate.", 13) && strchr(argument + 13, '.') ? P4D_YAML : -1;
}

bool p4d_guard__write_in_file(const char *file, const char *argument, const char *value, char *buf,
			      size_t size)
{
	const int format = p4d_guard__format_of(file, argument);
	const char *dot = strrchr(argument, '.'), *key = dot ? dot + 1 : argument + strspn(argument, "-");

	if (format < 0)
		return false;
	const bool bare = !file_formats[format].quotes || !strcmp(value, "true") || !strcmp(value, "false") ||
			  !value[strspn(value, "0123456789.")];
	const char *quote = bare ? "" : "\"", *around = file_formats[format].key_quote;
	snprintf(buf, size, "%s%s%s%s%s%s%s", around, key, around, file_formats[format].between, quote, value,
		 quote);
	return true;
}

/*
 * Writes the argument or variable that sets the number of processes: "--nproc_per_node 4",
 * "NPROC_PER_NODE=4". False: p4d knows no such argument.
 */
static bool write_count(const p4d_reading *r, const char *number, char *buf, size_t size)
{
	const p4d_read_value *v = &r->value[P4D_GPUS_PER_NODE];
	const char *argument = r->processes[0] ? r->processes : v->argument,
		   *variable = p4d_reading_processes(r);

	if (!argument)
		return false;
	if (p4d_guard__write_in_file(v->file, argument, number, buf, size))
		return true;
	if (r->processes[0])
		snprintf(buf, size, "%s %s", argument, number);
	else if (variable)
		snprintf(buf, size, "%s=%s", variable, number);
	else
		p4d_guard__on_line(r, argument, number, buf, size);
	return true;
}

bool p4d_guard__write_processes(const p4d_reading *r, uint32_t nodes, uint32_t gpus_per_node, char *buf,
				size_t size)
{
	const p4d_read_value *v = &r->value[P4D_GPUS_PER_NODE];
	char number[24], words[96], place[128];

	snprintf(number, sizeof(number), "%" PRIu64,
		 (uint64_t)gpus_per_node * (r->processes_of_all ? nodes : 1));
	if (!v->file || !(v->line || v->named_file) || r->by_default[P4D_GPUS_PER_NODE] || r->names_gpus ||
	    !write_count(r, number, words, sizeof(words)))
		return false;
	snprintf(buf, size, "%s: %s", p4d_guard__place_of(v, place, sizeof(place)), words);
	return true;
}
