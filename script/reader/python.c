/* SPDX-License-Identifier: Apache-2.0 */
/* The Python that runs a program: which release of transformers it has, where its files can be read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/reader_internal.h"

enum { FIRST_MINOR = 9, LAST_MINOR = 14, BEGINNING = 16 << 10, FIRST_RELEASE = 3, LAST_RELEASE = 99 };

/* DIRECTORY/bin/NAME: its directory; false: it is no such path. */
static bool in_bin(const char *path, const char *name, char *directory, size_t size)
{
	const size_t length = strlen(path), tail = strlen("/bin/") + strlen(name);

	if (length <= tail || length - tail >= size || strcmp(path + length - strlen(name), name) != 0 ||
	    memcmp(path + length - tail, "/bin/", 5) != 0)
		return false;
	snprintf(directory, size, "%.*s", (int)(length - tail), path);
	return true;
}

static void take_directory(p4d_read_python *python, const char *directory)
{
	if (*python->directory && strcmp(python->directory, directory) != 0)
		python->unknown = true; /* which one depends on what p4d does not see */
	snprintf(python->directory, sizeof(python->directory), "%s", directory);
}

void p4d_reader__python_file(p4d_read_python *python, const char *path)
{
	char directory[sizeof(python->directory)];

	if (in_bin(path, "activate", directory, sizeof(directory)))
		take_directory(python, directory);
}

void p4d_reader__python_command(p4d_read_python *python, const p4d_value *words, size_t count)
{
	static const char *const others[] = {"conda", "mamba", "micromamba", "module", "ml", "spack"};
	enum { CONDAS = 3, OTHERS = sizeof(others) / sizeof(*others) };
	char path[sizeof(python->directory)];
	size_t which = 0;

	while (count && which < OTHERS && !p4d_value_is(words[0], others[which]))
		which++;
	if (!count || which == OTHERS)
		return;
	python->changed = true; /* what sbatch's own environment has may not run */
	if (count < 3 || which >= CONDAS || !p4d_value_is(words[1], "activate"))
		return;
	if (words[2].length < sizeof(path) && !p4d_value_unknown(words[2]) &&
	    *p4d_value_text(words[2], path, sizeof(path)) == '/')
		take_directory(python, path);
	else
		python->unknown = true;
}

/* pip install, uv pip install, python -m pip install */
static bool installs(const p4d_value *words, size_t count)
{
	static const char *const names[] = {"pip", "pip3", "uv", "python", "python3"};
	enum { NAMES = sizeof(names) / sizeof(*names), OF_PYTHON = 3 };
	char path[256];
	bool pip = false;

	if (!count || p4d_value_unknown(words[0]) || words[0].length >= sizeof(path))
		return false;
	p4d_value_text(words[0], path, sizeof(path));
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t which = 0;
	while (which < NAMES && strcmp(name, names[which]) != 0)
		which++;
	if (which == NAMES)
		return false;
	for (size_t i = 1; i < count; i++) {
		pip = pip || p4d_value_is(words[i], "pip");
		if (p4d_value_is(words[i], "install"))
			return which < OF_PYTHON || pip;
	}
	return false;
}

/* What a requirement says of transformers: "==4.57.1", ">=4.50", "" any; NULL: it is about something else. */
static const char *wanted_release(const char *requirement)
{
	static const char name[] = "transformers";
	const char *rest = requirement + strlen(name);

	if (strstr(requirement, "/transformers")) /* a repository or a folder */
		return "";
	if (strncmp(requirement, name, strlen(name)) != 0 || (*rest && !strchr("[=<>!~@ ", *rest)))
		return NULL;
	if (*rest == '[')
		rest = strchr(rest, ']') ? strchr(rest, ']') + 1 : "";
	return rest;
}

void p4d_reader__python_install(p4d_read_python *python, const p4d_shell *shell, const p4d_value *words,
				size_t count, bool certain)
{
	char text[96], *end;

	for (size_t i = installs(words, count) ? 1 : count; i < count; i++) {
		const char *release = wanted_release(p4d_value_text(words[i], text, sizeof(text)));
		p4d_read_given given = {.name = "transformers"};
		if (!release)
			continue;
		python->pinned.major = 0;
		python->reinstalled = true;
		if (!certain || p4d_value_unknown(words[i]) || strncmp(release, "==", 2) != 0)
			continue;
		p4d_reader__place(shell, words[i], &given);
		python->pinned = (p4d_read_release){.place = {.file = given.file, .line = given.line}};
		python->pinned.major = strtoul(release + 2, &end, 10);
		python->pinned.minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	}
}

/* The program that starts it, /opt/venv/bin/torchrun, is of an environment, too. */
static bool of_program(const p4d_launch *launch, const p4d_value *words, char *directory, size_t size)
{
	static const char *const names[] = {"python", "python3", "torchrun", "accelerate", "deepspeed"};
	char path[256];

	for (const p4d_value *word = words; word < launch->words; word++) {
		if (p4d_value_unknown(*word) || word->length >= sizeof(path) ||
		    *p4d_value_text(*word, path, sizeof(path)) != '/')
			continue;
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			if (in_bin(path, names[i], directory, size))
				return true;
	}
	return false;
}

/* What was active where sbatch was typed, and still is in the job. */
static bool of_environment(p4d_shell *shell, const p4d_read_python *python, char *directory, size_t size)
{
	static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
	p4d_value value;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !python->changed; i++)
		if (p4d_shell_variable(shell, names[i], &value) && value.length && value.length < size &&
		    !p4d_value_unknown(value)) {
			p4d_value_text(value, directory, size);
			return true;
		}
	return false;
}

/* `__version__ = "5.23.0"`: the release, and its line. */
static p4d_read_release release_of(const char *text, size_t length)
{
	static const char name[] = "\n__version__ = \"";
	p4d_read_release found = {.place.line = 2};
	char number[8] = "", *end;
	const char *at;

	length = length < BEGINNING ? length : BEGINNING;
	at = memmem(text, length, name, strlen(name));
	if (!at)
		return found;
	for (const char *c = text; c < at; c++)
		found.place.line += *c == '\n';
	at += strlen(name);
	const size_t rest = (size_t)(text + length - at);
	memcpy(number, at, rest < sizeof(number) ? rest : sizeof(number) - 1);
	found.major = strtoul(number, &end, 10);
	found.minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	return found;
}

static void put_release(p4d_reading *r, const p4d_read_release *release)
{
	const bool own = !strcmp(r->reader->framework, "trainer") || !strcmp(r->reader->framework, "trl");
	const bool ddp = p4d_reader__is(&r->value[P4D_FRAMEWORK], "ddp");

	p4d_reader__put(r, P4D_TRANSFORMERS, &release->place, "%lu.%lu", release->major, release->minor);
	/* others say a type whatever the release, and DDP alone keeps the one that weights were loaded in */
	if (ddp && !own && release->major < 5 && !p4d_reader__set(&r->value[P4D_PARAM_DTYPE]) &&
	    p4d_reader__is(&r->value[P4D_PRECISION], "bf16"))
		p4d_reader__put_default(r, P4D_PARAM_DTYPE, "bf16");
}

/* The directory of the environment that runs the program; false: it is not known. */
static bool find_environment(p4d_shell *shell, const p4d_reader_host *host, const p4d_read_python *python,
			     const p4d_launch *launch, const p4d_value *words, char *directory, size_t size)
{
	if (!host->shell.file || launch->container)
		return false;
	if (of_program(launch, words, directory, size))
		return true;
	if (python->unknown)
		return false;
	if (*python->directory)
		return snprintf(directory, size, "%s", python->directory) > 0;
	return of_environment(shell, python, directory, size);
}

bool p4d_reader__python_directory(p4d_shell *shell, const p4d_reader_host *host,
				  const p4d_read_python *python, const p4d_launch *launch,
				  const p4d_value *words, char *directory, size_t size)
{
	return find_environment(shell, host, python, launch, words, directory, size);
}

/* A file of a package in the environment; NULL: it has none. place: says where. */
static const char *package_file(p4d_shell *shell, const p4d_reader_host *host, const char *directory,
				const char *name, size_t *length, p4d_read_value *place)
{
	char path[sizeof(((p4d_read_python *)0)->directory) + 64];

	for (int minor = LAST_MINOR; minor >= FIRST_MINOR; minor--) {
		snprintf(path, sizeof(path), "%s/lib/python3.%d/site-packages/%s", directory, minor, name);
		const char *text = host->shell.file(host->shell.context, path, length);
		if (!text)
			continue;
		place->file = p4d_shell_keep(shell, path);
		return place->file ? text : NULL;
	}
	return NULL;
}

static p4d_read_release find_release(p4d_shell *shell, const p4d_reader_host *host, const char *directory)
{
	const p4d_read_release none = {.major = 0};
	p4d_read_value place = {.file = NULL};
	size_t length;
	const char *text = package_file(shell, host, directory, "transformers/__init__.py", &length, &place);

	if (!text)
		return none;
	p4d_read_release found = release_of(text, length);
	found.place.file = place.file;
	return found.major >= FIRST_RELEASE && found.major <= LAST_RELEASE ? found : none;
}

static void find_trl(p4d_reading *r, p4d_shell *shell, const p4d_reader_host *host, const char *directory)
{
	/* the first that its documentation has; releases are told apart by it, as no file has their number */
	static const struct {
		const char *words;
		p4d_read_trl trl;
	} signs[] = {{"deprecated alias of `\"nll\"`", P4D_READ_TRL_FUSED},
		     {"defaults to `\"chunked_nll\"`", P4D_READ_TRL_CHUNKED},
		     {"`\"chunked_nll\"`", P4D_READ_TRL_OFFERS},
		     {"class SFTConfig", P4D_READ_TRL_LOGITS}};
	p4d_read_value place = {.file = NULL};
	size_t length = 0;
	const char *text = package_file(shell, host, directory, "trl/trainer/sft_config.py", &length, &place);

	length = length < BEGINNING ? length : BEGINNING;
	for (size_t i = 0; text && i < sizeof(signs) / sizeof(*signs); i++) {
		const char *at = memmem(text, length, signs[i].words, strlen(signs[i].words));
		if (!at)
			continue;
		place.line = 1;
		for (const char *c = text; c < at; c++)
			place.line += *c == '\n';
		r->reader->trl(r, signs[i].trl, &place);
		return;
	}
}

void p4d_reader__python_release(p4d_reading *r, p4d_shell *shell, const p4d_reader_host *host,
				const p4d_read_python *python, const p4d_launch *launch,
				const p4d_value *words)
{
	const bool fsdp = p4d_reader__is(&r->value[P4D_FRAMEWORK], "fsdp") && r->reader->released;
	p4d_read_release release = {.major = 0};
	char directory[sizeof(python->directory)];

	if (!p4d_reader__is(&r->value[P4D_MODEL_CODE], "transformers"))
		return;
	const bool found = find_environment(shell, host, python, launch, words, directory, sizeof(directory));
	if (found && r->reader->trl)
		find_trl(r, shell, host, directory);
	if (python->reinstalled && !launch->container)
		release = python->pinned;
	else if (found)
		release = find_release(shell, host, directory);
	if (fsdp)
		r->reader->released(r, &release);
	if (release.major >= FIRST_RELEASE && release.major <= LAST_RELEASE &&
	    release.minor < P4D_RELEASE_LAST)
		put_release(r, &release);
}
