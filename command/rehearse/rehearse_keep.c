/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_keep.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json_file.h"
#include "base/text.h"
#include "reader/reader.h"
#include "rehearsals/rehearsals_key.h"

enum { FILE_BYTES = 4 << 20, MOST = 4096 };

/* A list of the files that decide what the program does; each file is in it once. */
typedef struct list {
	char *path[MOST];
	size_t count;
	char python[PATH_MAX], directory[PATH_MAX];
	bool full;
} list;

static void add(list *l, const char *path)
{
	char whole[PATH_MAX];
	struct stat st;
	const int length = path[0] == '/' ? snprintf(whole, sizeof(whole), "%s", path)
					  : snprintf(whole, sizeof(whole), "%s/%s", l->directory, path);

	if (length < 0 || (size_t)length >= sizeof(whole) || stat(whole, &st) || !S_ISREG(st.st_mode))
		return;
	char *copy = l->count < MOST ? strdup(whole) : NULL;
	l->full = l->full || !copy;
	if (copy)
		l->path[l->count++] = copy;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void keep_one_of_each(list *l)
{
	size_t kept = 0;

	qsort(l->path, l->count, sizeof(l->path[0]), by_name);
	for (size_t i = 0; i < l->count; i++) {
		if (kept && !strcmp(l->path[i], l->path[kept - 1]))
			free(l->path[i]);
		else
			l->path[kept++] = l->path[i];
	}
	l->count = kept;
}

/* Adds the files that Python listed for a rank: "python DIRECTORY", "file PATH". */
static void add_listed(list *l, const p4d_player *player, uint64_t rank)
{
	char path[P4D_PLAYER_PATH], *rest = NULL;
	size_t length;
	p4d_error err;

	p4d_player__file(player, "files", rank, path, sizeof(path));
	if (access(path, R_OK))
		return;
	char *text = p4d_text_read(path, FILE_BYTES, &length, &err);
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (!strncmp(line, "file ", 5))
			add(l, line + 5);
		else if (!strncmp(line, "python ", 7) && !l->python[0])
			snprintf(l->python, sizeof(l->python), "%s", line + 7);
	}
	free(text);
}

static bool is_configuration(const char *path)
{
	static const char *const endings[] = {".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".py"};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof(endings) / sizeof(endings[0]); i++)
		if (!strcmp(dot, endings[i]))
			return true;
	return false;
}

/* Adds the file of a word, or of the part after its "=", if it is a configuration file or a model's
 * folder. */
static void add_word(list *l, const char *word)
{
	const char *equals = strchr(word, '='), *path = equals ? equals + 1 : word;
	char config[PATH_MAX];

	if (is_configuration(path))
		add(l, path);
	if (*path && snprintf(config, sizeof(config), "%s/config.json", path) < (int)sizeof(config))
		add(l, config);
}

/* Adds the program's own file. A name without a slash is searched in PATH, as a shell does. */
static void add_program(list *l, const char *program, bool module)
{
	char path[PATH_MAX];

	if (p4d_rehearsals_key_file(l->directory, program, module, path, sizeof(path))) {
		add(l, path);
		return;
	}
	for (const char *at = getenv("PATH"); at && *at && !module && !strchr(program, '/');
	     at += strcspn(at, ":"), at += *at == ':')
		if (snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(at, ":"), at, program) <
			(int)sizeof(path) &&
		    !access(path, X_OK)) {
			add(l, path);
			return;
		}
}

/* A variable of the program: its value from the job script, else from this process's environment. */
static const char *variable_of(const p4d_player *player, const char *name)
{
	const size_t length = strlen(name);

	for (size_t i = player->variables; i-- > 0;) {
		const char *text = player->variable[i];
		if (!strncmp(text, name, length) && (text[length] == '=' || !text[length]))
			return text[length] ? text + length + 1 : NULL;
	}
	return getenv(name);
}

static bool is_among(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/*
 * Adds variables that words before the program set, as in "env MODEL=7b". The command no longer has these
 * words.
 */
static void add_variables(p4d_rehearsals_key *key, const p4d_player *player)
{
	char name[256];

	for (size_t i = 0; i < player->variables; i++) {
		const char *text = player->variable[i], *equals = strchr(text, '=');
		if (!equals)
			continue;
		if (snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text) >= (int)sizeof(name))
			p4d_rehearsals_key_unknown_variable(key, "");
		else if (!is_among(p4d_rehearsals_variables, name) &&
			 variable_of(player, name) ==
			     equals + 1) /* only if this is the last value of the name */
			p4d_rehearsals_key_variable(key, name, equals + 1);
	}
}

static bool make_key(const p4d_rehearse_answer *a, const char *directory, size_t first, bool module,
		     char text[P4D_REHEARSALS_KEY_TEXT])
{
	char *const *words = a->player->program + first;
	p4d_rehearsals_key key;

	p4d_rehearsals_key_begin(&key);
	p4d_rehearsals_key_program(&key, directory, words[0], module);
	p4d_rehearsals_key_launchers(&key);
	for (size_t i = 0; i < first; i++)
		p4d_rehearsals_key_launcher(&key, a->player->program[i], true);
	for (size_t i = 1; words[i]; i++)
		p4d_rehearsals_key_word(&key, words[i], true);
	for (const char *const *name = p4d_rehearsals_variables; *name; name++) {
		const char *value = variable_of(a->player, *name);
		if (value && *value)
			p4d_rehearsals_key_variable(&key, *name, value);
	}
	add_variables(&key, a->player);
	return p4d_rehearsals_key_text(&key, text);
}

static bool was_played(const p4d_rehearse_answer *a, uint64_t rank)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->rehearsed[i].played.rank == rank)
			return true;
	return false;
}

/* Lists the ranks that were rehearsed; "" if the first and the last are among them. */
static void list_ranks(const p4d_rehearse_answer *a, char *ranks, size_t size)
{
	p4d_text text = p4d_text_in(ranks, size);

	ranks[0] = '\0';
	if (was_played(a, 0) && was_played(a, p4d_player__world(a->player) - 1))
		return;
	for (unsigned i = 0; i < a->count; i++)
		p4d_text_print(&text, "%s%" PRIu64, i ? "," : "", a->rehearsed[i].played.rank);
	if (text.truncated)
		snprintf(ranks, size, "%" PRIu64 ",...", a->rehearsed[0].played.rank);
}

/* The phases in --phases as bits; 0 for an engine, which has none. */
static unsigned played_phases(const p4d_rehearse_answer *a)
{
	static const char *const name[] = {"train", "eval", "save"};
	unsigned phases = 0;

	if (p4d_rehearsed_serving__is_answer(&a->rehearsed[0].serving))
		return 0;
	for (unsigned i = 0; i < 3; i++)
		phases |= strstr(a->player->phases, name[i]) ? 1u << i : 0;
	return phases | P4D_REHEARSAL_TRAIN;
}

static p4d_rehearsal describe(const p4d_rehearse_answer *a, p4d_rehearsed_verdict verdict,
			      const p4d_rehearsed *worst, const char *reason)
{
	p4d_rehearsal run = {.nodes = (uint32_t)a->player->nodes,
			     .ranks_per_node = (uint32_t)a->player->ranks_per_node,
			     .gpus_per_node = (uint32_t)a->player->gpus_per_node,
			     .verdict = verdict == P4D_REHEARSED_PASS   ? P4D_REHEARSAL_PASS
					: verdict == P4D_REHEARSED_WARN ? P4D_REHEARSAL_WARN
									: P4D_REHEARSAL_REJECT,
			     .when = time(NULL),
			     .device_bytes = worst->device,
			     .usable_bytes = a->player->gpu->usable_bytes};

	snprintf(run.gpu, sizeof(run.gpu), "%s", a->player->gpu->name);
	list_ranks(a, run.ranks, sizeof(run.ranks));
	run.phases = played_phases(a);
	snprintf(run.reason, sizeof(run.reason), "%.*s", (int)sizeof(run.reason) - 1, reason);
	return run;
}

static bool find_directory(const p4d_player *player, list *l)
{
	if (!player->working)
		return getcwd(l->directory, sizeof(l->directory));
	return snprintf(l->directory, sizeof(l->directory), "%s", player->working) <
	       (int)sizeof(l->directory);
}

/* key: the key of the command in a job script; NULL: the program's words are the command. */
static int keep(const p4d_rehearse_answer *a, const p4d_rehearsal *run, const char *key, list *l,
		p4d_error *err)
{
	char own[P4D_REHEARSALS_KEY_TEXT];
	size_t count = 0;
	bool module;

	while (a->player->program[count])
		count++;
	const size_t first = p4d_reader_program(a->player->program, count, &module);
	if (first == count || !find_directory(a->player, l) ||
	    (!key && !make_key(a, l->directory, first, module, own)))
		return 0;
	const char *program = a->player->program[first];
	for (unsigned i = 0; i < a->count; i++)
		add_listed(l, a->player, a->rehearsed[i].played.rank);
	if (!l->python[0] && (module || is_configuration(program)))
		return p4d_fail(err, P4D_E_VALUE,
				"p4d ended %.200s, so it does not store the result of the rehearsal",
				program);
	add_program(l, program, module);
	for (size_t i = first + 1; i < count; i++)
		add_word(l, a->player->program[i]);
	keep_one_of_each(l);
	if (l->full)
		return p4d_fail(
		    err, P4D_E_VALUE,
		    "%.200s uses too many files, so p4d does not store the result of the rehearsal", program);
	return p4d_rehearsals_put(&(p4d_rehearsals_subject){.key = key ? key : own,
							    .program = program,
							    .directory = l->directory,
							    .python = l->python[0] ? l->python : NULL,
							    .files = (const char *const *)l->path,
							    .count = l->count},
				  run, err);
}

void p4d_rehearse__keep(const p4d_rehearse_answer *a, const char *key)
{
	const p4d_rehearsed *worst;
	char reason[P4D_REHEARSE_REASON];
	const p4d_rehearsed_verdict verdict = p4d_rehearse__judge(a, &worst, reason);
	p4d_error err;

	if (verdict == P4D_REHEARSED_INCOMPLETE)
		return;
	list *l = calloc(1, sizeof(*l));
	if (!l)
		return;
	const p4d_rehearsal run = describe(a, verdict, worst, reason);
	if (keep(a, &run, key, l, &err))
		fprintf(stderr, "p4d: %s\n", err.text);
	for (size_t i = 0; i < l->count; i++)
		free(l->path[i]);
	free(l);
}
