/* SPDX-License-Identifier: Apache-2.0 */
#include "job/sbatch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "base/suggest.h"

enum { LONG = 256 }; /* value of the first long option for getopt_long; it is above every letter */

/* sbatch's environment variables, for the options that have one. */
static const struct {
	const char *name;
	p4d_sbatch_field field;
} variables[] = {
    {"SBATCH_ACCOUNT", P4D_SBATCH_ACCOUNT},
    {"SBATCH_ARRAY_INX", P4D_SBATCH_ARRAY},
    {"SBATCH_CLUSTERS", P4D_SBATCH_CLUSTERS},
    {"SLURM_CLUSTERS", P4D_SBATCH_CLUSTERS},
    {"SBATCH_CONSTRAINT", P4D_SBATCH_CONSTRAINT},
    {"SBATCH_CPUS_PER_GPU", P4D_SBATCH_CPUS_PER_GPU},
    {"SBATCH_EXCLUSIVE", P4D_SBATCH_EXCLUSIVE},
    {"SBATCH_EXPORT", P4D_SBATCH_EXPORT},
    {"SBATCH_GET_USER_ENV", P4D_SBATCH_GET_USER_ENV},
    {"SBATCH_GPUS", P4D_SBATCH_GPUS},
    {"SBATCH_GPUS_PER_NODE", P4D_SBATCH_GPUS_PER_NODE},
    {"SBATCH_GPUS_PER_SOCKET", P4D_SBATCH_GPUS_PER_SOCKET},
    {"SBATCH_GPUS_PER_TASK", P4D_SBATCH_GPUS_PER_TASK},
    {"SBATCH_GRES", P4D_SBATCH_GRES},
    {"SBATCH_HINT", P4D_SBATCH_HINT},
    {"SLURM_HINT", P4D_SBATCH_HINT},
    {"SBATCH_MEM_PER_CPU", P4D_SBATCH_MEM_PER_CPU},
    {"SBATCH_MEM_PER_GPU", P4D_SBATCH_MEM_PER_GPU},
    {"SBATCH_MEM_PER_NODE", P4D_SBATCH_MEM},
    {"SBATCH_OVERCOMMIT", P4D_SBATCH_OVERCOMMIT},
    {"SBATCH_PARTITION", P4D_SBATCH_PARTITION},
    {"SBATCH_QOS", P4D_SBATCH_QOS},
    {"SBATCH_RESERVATION", P4D_SBATCH_RESERVATION},
    {"SBATCH_THREADS_PER_CORE", P4D_SBATCH_THREADS_PER_CORE},
    {"SBATCH_TRES_PER_TASK", P4D_SBATCH_TRES_PER_TASK},
};

static const struct {
	char letter;
	p4d_sbatch_field field;
} rows[] = {
#define OPTION(name, letter, kind, field) {letter, P4D_SBATCH_##field},
#include "job/sbatch_options.def"
#undef OPTION
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char *const prefixed[P4D_OPTIONS] = {
#define INTEGER(id, name, ...) [P4D_##id] = "p4d-" name,
#define DECIMAL(id, name, ...) [P4D_##id] = "p4d-" name,
#define CHOICE(id, name, ...) [P4D_##id] = "p4d-" name,
#define TEXT(id, name, ...) [P4D_##id] = "p4d-" name,
#define SWITCH(id, name, ...) [P4D_##id] = "p4d-" name,
#include "request/options.def"
#undef INTEGER
#undef DECIMAL
#undef CHOICE
#undef TEXT
#undef SWITCH
};

static bool for_slurm(int option)
{
	return p4d_request_option_info((p4d_option)option)->where & P4D_WHERE_SLURM;
}

/* The tables of getopt_long: every option of sbatch, then p4d's. Values are LONG + row, and LONG + ROWS +
 * p4d_option. */
typedef struct option_tables {
	struct option options[ROWS + P4D_OPTIONS + 1];
	char letters[3 * ROWS + 3];
} option_tables;

/* tables: must be zeroed before the call. */
static void fill_tables(option_tables *tables)
{
	struct option *at = tables->options;
	char *letter = tables->letters;
	int value = LONG;

	*letter++ = '+';
	*letter++ = ':';
#define OPTION(name, short_name, kind, field) *at++ = (struct option){name, kind, NULL, value++};
#include "job/sbatch_options.def"
#undef OPTION
	for (int row = 0; row < ROWS; row++) {
		if (!rows[row].letter)
			continue;
		*letter++ = rows[row].letter;
		for (int colons = tables->options[row].has_arg; colons > 0; colons--)
			*letter++ = ':';
	}
	for (int i = 0; i < P4D_OPTIONS; i++, value++)
		if (for_slurm(i)) {
			bool is_switch = p4d_request_option_info((p4d_option)i)->kind == P4D_SWITCH_KIND;
			*at++ = (struct option){prefixed[i], is_switch ? no_argument : required_argument,
						NULL, value};
		}
}

/* Converts what p4d_arguments_next returned to an index into p4d_sbatch.value. */
static int value_index(int which)
{
	if (which >= LONG + ROWS)
		return P4D_SBATCH_FIELDS + which - LONG - ROWS;
	if (which >= LONG)
		return (int)rows[which - LONG].field;
	for (int row = 0; row < ROWS; row++)
		if (rows[row].letter == which)
			return (int)rows[row].field;
	return P4D_SBATCH_NONE;
}

static int put(p4d_sbatch *sbatch, int index, const char *text, p4d_sbatch_source source, p4d_error *err)
{
	if (index == P4D_SBATCH_NONE)
		return 0;
	static const char *const of_check[] = {"conf", "json", "elsewhere", "strict", "skip-unknown", "gpu"};
	if (index == P4D_SBATCH_P4D_GPU) {
		p4d_fail(err, P4D_E_USAGE,
			 "there is no option --p4d-gpu: sbatch takes the GPU of the job's nodes");
		return p4d_fix(err, "--gpus-per-node=%.40s:N, or p4d check --gpu=%.40s", text, text);
	}
	if (source != P4D_FROM_COMMAND_LINE && index >= P4D_SBATCH_CONF && index <= P4D_SBATCH_GPU)
		return p4d_fail(err, P4D_E_USAGE, "--%s is an option of `p4d check`, not of sbatch",
				of_check[index - P4D_SBATCH_CONF]);
	if (sbatch->value[index] && sbatch->source[index] > source)
		return 0;
	char *copy = strdup(text);
	if (!copy)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for an option of %zu characters",
				strlen(text));
	free(sbatch->value[index]);
	sbatch->value[index] = copy;
	sbatch->source[index] = (uint8_t)source;
	return 0;
}

/* The known option whose name shares more than half of this name, which may be a misspelling of it; NULL:
 * none. */
static const char *find_alike(const char *word, const struct option *options)
{
	char name[64];
	p4d_suggest alike = {.wanted = name};

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	for (; options->name; options++)
		p4d_suggest_offer(&alike, options->name);
	return 2 * alike.shared > strlen(name) ? alike.name[0] : NULL;
}

/*
 * Skips an option that may belong to another SPANK plugin of the site. Also skips the next word unless that
 * is an option, because p4d does not know whether the first option has a value. False: it cannot be such an
 * option, and p4d reported an error.
 */
static bool skip_foreign(p4d_sbatch *sbatch, int argc, char *const argv[], const struct option *options)
{
	const char *word = argv[optind - 1];

	if (!p4d_arguments_unknown(word, options) || !strncmp(word, "--p4d", 5))
		return false;
	if (!strchr(word, '=') && optind < argc && argv[optind][0] != '-')
		optind++;
	if (sbatch->foreigns++)
		return true;
	sbatch->alike = find_alike(word + 2, options);
	sbatch->foreign = strndup(word, strcspn(word, "="));
	return sbatch->foreign;
}

static int read_arguments(p4d_sbatch *sbatch, int argc, char *const argv[], p4d_sbatch_source source,
			  int *operand, p4d_error *err)
{
	bool skips = source == P4D_FROM_SCRIPT || sbatch->skips_foreign;
	option_tables tables = {0};
	p4d_error unknown = {0};
	int which, more;

	fill_tables(&tables);
	optind = 0;
	while ((more = p4d_arguments_next(argc, argv, tables.letters, tables.options, &which, &unknown)) !=
	       0) {
		if (more < 0 && skips && skip_foreign(sbatch, argc, argv, tables.options))
			continue;
		if (more < 0 && err)
			*err = unknown;
		if (more < 0 || put(sbatch, value_index(which), optarg ? optarg : "", source, err) < 0)
			return -1;
		skips = skips || sbatch->value[P4D_SBATCH_SKIP_UNKNOWN];
	}
	*operand = optind;
	return 0;
}

int p4d_sbatch_arguments(p4d_sbatch *sbatch, int argc, char *const argv[], int *operand, p4d_error *err)
{
	int at;

	if (read_arguments(sbatch, argc, argv, P4D_FROM_COMMAND_LINE, &at, err) < 0)
		return -1;
	*operand = at;
	return 0;
}

/*
 * True if `entry` is SBATCH_ + the option's name ("p4d-micro-batch": SBATCH_P4D_MICRO_BATCH) + "="; *value
 * follows it.
 */
static bool is_variable_of(const char *entry, const char *name, const char **value)
{
	if (strncmp(entry, "SBATCH_", 7) != 0)
		return false;
	for (entry += 7; *name; entry++, name++)
		if (*entry != (*name == '-' ? '_' : toupper((unsigned char)*name)))
			return false;
	*value = entry + 1;
	return *entry == '=';
}

/* An empty variable counts as unset: `SBATCH_PARTITION= sbatch` turns a variable off. */
int p4d_sbatch_environment(p4d_sbatch *sbatch, char *const environment[], p4d_error *err)
{
	const char *value;

	sbatch->job.expandable = p4d_job_is_expandable(environment);
	for (; *environment; environment++) {
		for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
			size_t length = strlen(variables[i].name);
			if (strncmp(*environment, variables[i].name, length) != 0 ||
			    (*environment)[length] != '=')
				continue;
			value = *environment + length + 1;
			if ((*value || variables[i].field == P4D_SBATCH_EXCLUSIVE) &&
			    put(sbatch, (int)variables[i].field, value, P4D_FROM_ENVIRONMENT, err) < 0)
				return -1;
		}
		for (int i = 0; i < P4D_OPTIONS; i++)
			if (for_slurm(i) && is_variable_of(*environment, prefixed[i], &value) && *value &&
			    put(sbatch, P4D_SBATCH_FIELDS + i, value, P4D_FROM_ENVIRONMENT, err) < 0)
				return -1;
	}
	return 0;
}

/* Stores the value of one variable of sbatch's environment. */
static int take_variable(p4d_sbatch *sbatch, int index, const char *value, p4d_error *err)
{
	if (!value || (!*value && index != P4D_SBATCH_EXCLUSIVE))
		return 0;
	return put(sbatch, index, value, P4D_FROM_ENVIRONMENT, err);
}

int p4d_sbatch_variables(p4d_sbatch *sbatch, const char *(*variable)(void *context, const char *name),
			 void *context, p4d_error *err)
{
	char name[64];

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (strncmp(variables[i].name, "SLURM_", 6) !=
			0 && /* an enclosing job sets these variables for itself */
		    take_variable(sbatch, (int)variables[i].field, variable(context, variables[i].name),
				  err) < 0)
			return -1;
	for (int i = 0; i < P4D_OPTIONS; i++) {
		if (!for_slurm(i))
			continue;
		snprintf(name, sizeof(name), "SBATCH_%s", prefixed[i]);
		for (char *c = name; *c; c++)
			*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
		if (take_variable(sbatch, P4D_SBATCH_FIELDS + i, variable(context, name), err) < 0)
			return -1;
	}
	return 0;
}

/*
 * Splits the rest of an #SBATCH line into words, in place, as sbatch does: quotes and backslashes are
 * removed, an unquoted # starts a comment. Returns the number of words, -1 for an unterminated quote.
 */
static int cut_words(char *line, char **words)
{
	int count = 0;

	for (;;) {
		while (isspace((unsigned char)*line))
			line++;
		if (!*line || *line == '#')
			return count;
		char quote = '\0', *out = words[count++] = line;
		for (; *line && (quote || (!isspace((unsigned char)*line) && *line != '#')); line++) {
			if (*line == '\\' && line[1] && (quote || !isspace((unsigned char)line[1])))
				*out++ = *++line;
			else if (quote ? *line == quote : *line == '"' || *line == '\'')
				quote = quote ? '\0' : *line;
			else
				*out++ = *line;
		}
		if (quote)
			return -1;
		bool comment = *line == '#', last = !*line;
		*out = '\0';
		if (comment || last)
			return count;
		line++;
	}
}

/* Checks for scripts that sbatch itself would refuse. */
static int check_script(const char *text, size_t length, p4d_error *err)
{
	if (!length)
		return p4d_fail(err, P4D_E_USAGE, "the batch script is empty");
	if (memchr(text, '\0', length))
		return p4d_fail(err, P4D_E_USAGE,
				"the batch script contains a NUL byte, so this is not a text file");
	if (length < 2 || text[0] != '#' || text[1] != '!')
		return p4d_fail(
		    err, P4D_E_USAGE,
		    "the first line of the batch script does not start with #! (for instance #!/bin/sh)");
	if (memmem(text, length, "\r\n", 2))
		return p4d_fail(
		    err, P4D_E_USAGE,
		    "the batch script has DOS line breaks; convert the script, for instance with dos2unix");
	return 0;
}

static bool is_command(const char *line, size_t length)
{
	size_t i = 0;

	while (i < length && isspace((unsigned char)line[i]))
		i++;
	return i < length && line[i] != '#';
}

/* Reads one #SBATCH line without its marker. words has room for length / 2 + 2 pointers. */
static int read_directive(p4d_sbatch *sbatch, char *line, char **words, unsigned component, unsigned *current,
			  p4d_error *err)
{
	int operand;
	int count = cut_words(line, words + 1);

	if (count < 0)
		return p4d_fail(err, P4D_E_USAGE, "unterminated quote");
	if (count > 0 && (!strcmp(words[1], "hetjob") || !strcmp(words[1], "packjob"))) {
		++*current;
		return 0;
	}
	if (*current != component)
		return 0;
	words[0] = words[count + 1] = NULL;
	if (read_arguments(sbatch, count + 1, words, P4D_FROM_SCRIPT, &operand, err) < 0)
		return -1;
	if (operand <= count)
		return p4d_fail(err, P4D_E_USAGE, "\"%.64s\" is not an option", words[operand]);
	return 0;
}

/*
 * Returns the end of the here-document that a line begins ("cat <<EOF"); otherwise the end of the line.
 * lines: number of lines that may still be examined, because many here-documents may have no end.
 */
static const char *behind_here_document(const char *line, const char *next, const char *end, unsigned *lines)
{
	const char *at = memmem(line, (size_t)(next - line), "<<", 2);
	const char *hash = memchr(line, '#', (size_t)(next - line));
	char word[64];
	size_t length = 0;

	if (!at || (hash && hash < at) || at + 2 >= next || at[2] == '<')
		return next;
	const bool strips = at[2] == '-';
	for (at += 2 + strips; at < next && (isblank((unsigned char)*at) || strchr("'\"\\", *at)); at++)
		;
	for (; at < next && (isalnum((unsigned char)*at) || *at == '_') && length < sizeof(word); at++)
		word[length++] = *at;
	for (const char *body = next, *after; length && body < end && *lines; body = after, (*lines)--) {
		const char *newline = memchr(body, '\n', (size_t)(end - body));
		after = newline ? newline + 1 : end;
		while (strips && body < after && *body == '\t')
			body++;
		if ((size_t)((newline ? newline : end) - body) == length && !memcmp(body, word, length))
			return after;
	}
	return next; /* << was a shift, or the here-document has no end */
}

unsigned p4d_sbatch_late_line(const char *text, size_t length, unsigned *count)
{
	const char *end = text + length;
	unsigned lines = 1 << 20; /* bound for the search for ends of here-documents */
	unsigned number = 0, first = 0;
	bool command = false;

	*count = 0;
	for (const char *line = text, *next; line < end; line = next) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const size_t size = (size_t)((newline ? newline : end) - line);
		next = newline ? newline + 1 : end;
		number++;
		command = command || is_command(line, size);
		if (command && size > 7 && !memcmp(line, "#SBATCH", 7) && !(*count)++)
			first = number;
		const char *const after = command ? behind_here_document(line, next, end, &lines) : next;
		for (; next < after; next++)
			number += *next == '\n';
	}
	return first;
}

int p4d_sbatch_script(p4d_sbatch *sbatch, const char *text, size_t length, unsigned component,
		      unsigned *components, p4d_error *err)
{
	static const char marker[] = "#SBATCH";
	const char *end = text + length;
	unsigned current = 0, number = 0;

	if (check_script(text, length, err) < 0)
		return -1;
	for (const char *line = text, *next; line < end; line = next) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t size = (size_t)((newline ? newline : end) - line);
		next = newline ? newline + 1 : end;
		number++;
		if (is_command(line, size))
			break;
		if (size < sizeof(marker) - 1 || memcmp(line, marker, sizeof(marker) - 1) != 0)
			continue;
		size -= sizeof(marker) - 1;
		char *copy = strndup(line + sizeof(marker) - 1, size);
		char **words = calloc(size / 2 + 4, sizeof(*words));
		int result = copy && words
				 ? read_directive(sbatch, copy, words, component, &current, err)
				 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu characters", size);
		free(copy);
		free(words);
		if (result < 0) {
			if (err) {
				p4d_error inner = *err;
				p4d_fail(err, inner.code, "line %u of the batch script: %.400s", number,
					 inner.text);
				p4d_fix(err, "%s", inner.fix);
			}
			return -1;
		}
	}
	*components = current + 1;
	return 0;
}
