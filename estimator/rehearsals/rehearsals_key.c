/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearsals/rehearsals_key.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "rehearsals/rehearsals_internal.h"

#define NO_MEMORY(name)
#define NO_MEMORY_PATH(name)
#define NO_MEMORY_SWITCH(name)
#define NO_MEMORY_VARIABLE(name)

static const char *const options[] = {
#undef NO_MEMORY
#define NO_MEMORY(name) name,
#include "rehearsals/rehearsals_words.def"
#undef NO_MEMORY
#define NO_MEMORY(name)
};

static const char *const paths[] = {
#undef NO_MEMORY_PATH
#define NO_MEMORY_PATH(name) name,
#include "rehearsals/rehearsals_words.def"
#undef NO_MEMORY_PATH
#define NO_MEMORY_PATH(name)
};

static const char *const switches[] = {
#undef NO_MEMORY_SWITCH
#define NO_MEMORY_SWITCH(name) name,
#include "rehearsals/rehearsals_words.def"
#undef NO_MEMORY_SWITCH
#define NO_MEMORY_SWITCH(name)
};

static const char *const variables[] = {
#undef NO_MEMORY_VARIABLE
#define NO_MEMORY_VARIABLE(name) name,
#include "rehearsals/rehearsals_words.def"
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

const char *const p4d_rehearsals_variables[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
						"PYTORCH_NO_CUDA_MEMORY_CACHING",
						"PYTHONPATH", /* decides which code runs */
						NULL};

static void add(uint64_t half[2], const char *text, size_t length)
{
	p4d_rehearsals_hash hash = {{half[0], half[1]}};

	p4d_rehearsals__hash_add(&hash, text, length);
	memcpy(half, hash.half, sizeof(hash.half));
}

void p4d_rehearsals_key_begin(p4d_rehearsals_key *key)
{
	*key = (p4d_rehearsals_key){.skips = false};
	memcpy(key->words, p4d_rehearsals__hash_begin().half, sizeof(key->words));
}

/*
 * The name of an option ("training.output-dir=x", "--output-dir"): the part after its last dot, in lower case
 * and with _. False: the word is no option.
 */
static bool take_name(const char *word, char name[64])
{
	const char *from = word + strspn(word, "-+");
	const size_t length = strcspn(from, "=");
	size_t count = 0;

	if (from == word && !from[length])
		return false;
	for (size_t i = 0; i < length; i++) {
		if (from[i] == '.')
			count = 0;
		else if (count < 63)
			name[count++] = from[i] == '-' ? '_' : (char)tolower((unsigned char)from[i]);
	}
	name[count] = '\0';
	return true;
}

static bool is_among(const char *const *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(table[i], name))
			return true;
	return false;
}

bool p4d_rehearsals_key_file(const char *directory, const char *program, bool module, char *path, size_t size)
{
	char name[PATH_MAX];
	struct stat st;

	if (!module)
		return p4d_rehearsals__path(directory, program, path, size) && !stat(path, &st) &&
		       S_ISREG(st.st_mode);
	if (snprintf(name, sizeof(name), "%s", program) >= (int)sizeof(name))
		return false;
	for (char *dot = name; (dot = strchr(dot, '.'));)
		*dot = '/';
	for (int i = 0; i < 2; i++) {
		const int length =
		    snprintf(path, size, "%s/%s%s", directory, name, i ? "/__main__.py" : ".py");
		if (length > 0 && (size_t)length < size && !stat(path, &st) && S_ISREG(st.st_mode))
			return true;
	}
	return false;
}

void p4d_rehearsals_key_program(p4d_rehearsals_key *key, const char *directory, const char *program,
				bool module)
{
	const char *name = module ? program : p4d_file_name(program);
	char path[PATH_MAX];
	p4d_rehearsals_file file;

	add(key->words, name, strlen(name));
	if (p4d_rehearsals_key_file(directory, program, module, path, sizeof(path)) &&
	    p4d_rehearsals__file(path, true, &file))
		add(key->words, (const char *)file.hash.half, sizeof(file.hash.half));
}

void p4d_rehearsals_key_word(p4d_rehearsals_key *key, const char *word, bool known)
{
	const bool skipped = key->skips && word[0] != '-' && (!key->skips_path || strchr(word, '/'));
	char name[64];

	key->skips = false;
	if (skipped)
		return;
	if (take_name(word, name)) {
		key->skips_path = is_among(paths, COUNT(paths), name);
		const bool decides_nothing = key->skips_path || is_among(options, COUNT(options), name);
		if (is_among(switches, COUNT(switches), name))
			return;
		key->skips = decides_nothing && !strchr(word, '=');
		if (decides_nothing)
			return;
	}
	key->unknown = key->unknown || !known;
	add(key->words, word, strlen(word));
}

void p4d_rehearsals_key_option(p4d_rehearsals_key *key, const char *name, const char *value, bool known)
{
	char plain[64];

	if (!take_name(name, plain) && snprintf(plain, sizeof(plain), "%s", name) < 0)
		return;
	for (char *c = plain; *c; c++)
		*c = *c == '-' ? '_' : (char)tolower((unsigned char)*c);
	if (is_among(options, COUNT(options), plain) || is_among(switches, COUNT(switches), plain))
		return;
	key->unknown = key->unknown || !known;
	add(key->words, "launcher", strlen("launcher"));
	add(key->words, plain, strlen(plain));
	add(key->words, value, strlen(value));
}

static bool decides_nothing(const char *name)
{
	for (size_t i = 0; i < COUNT(variables); i++) {
		const size_t length = strlen(variables[i]);
		const bool prefix = variables[i][length - 1] == '_';
		if (prefix ? !strncmp(name, variables[i], length) : !strcmp(name, variables[i]))
			return true;
	}
	return false;
}

/* srun's --export as an environment variable, which may set other variables. */
static const char of_srun[] = "SLURM_EXPORT_ENV";

static p4d_rehearsals_hash hash_of(const char *name)
{
	p4d_rehearsals_hash hash = p4d_rehearsals__hash_begin();

	p4d_rehearsals__hash_add(&hash, name, strlen(name));
	return hash;
}

/* Whether a word before the program sets the variable. *same: the word sets it to this value. */
static bool is_launched(const p4d_rehearsals_key *key, uint64_t name, uint64_t whole, bool *same)
{
	for (unsigned i = 0; i < key->launched_count; i++)
		if (key->launched[i][0] == name) {
			*same = key->launched[i][1] == whole;
			return true;
		}
	return false;
}

void p4d_rehearsals_key_variable(p4d_rehearsals_key *key, const char *name, const char *value)
{
	p4d_rehearsals_hash hash = hash_of(name);
	const uint64_t of_name = hash.half[0];
	bool same;

	if (!strcmp(name, of_srun))
		p4d_rehearsals_key_export(key, value, false);
	if (decides_nothing(name))
		return;
	p4d_rehearsals__hash_add(&hash, value, strlen(value));
	if (is_launched(key, of_name, hash.half[0], &same)) {
		if (!same)
			p4d_rehearsals_key_unknown_variable(key, name);
		return;
	}
	for (int i = 0; i < 2; i++)
		key->variables[i] += hash.half[i];
}

void p4d_rehearsals__key_launched(p4d_rehearsals_key *key, const char *name, const char *value)
{
	p4d_rehearsals_hash hash = hash_of(name);
	const uint64_t of_name = hash.half[0];

	p4d_rehearsals_key_variable(key, name, value);
	if (decides_nothing(name))
		return;
	if (key->launched_count == P4D_REHEARSALS_LAUNCHED) {
		p4d_rehearsals_key_unknown_variable(key, "");
		return;
	}
	p4d_rehearsals__hash_add(&hash, value, strlen(value));
	key->launched[key->launched_count][0] = of_name;
	key->launched[key->launched_count++][1] = hash.half[0];
}

void p4d_rehearsals_key_unknown_variable(p4d_rehearsals_key *key, const char *name)
{
	const p4d_rehearsals_hash hash = hash_of(name);

	if (decides_nothing(name) && strcmp(name, of_srun) != 0)
		return;
	for (int i = 0; i < 2; i++)
		key->unknown_variables[i] += hash.half[i];
}

static bool has_unknown_variables(const p4d_rehearsals_key *key)
{
	return key->unknown_variables[0] || key->unknown_variables[1];
}

static bool write_text(const p4d_rehearsals_key *key, bool all, char text[P4D_REHEARSALS_KEY_TEXT])
{
	p4d_rehearsals_hash hash = {{key->words[0], key->words[1]}};

	p4d_rehearsals__hash_add(&hash, key->variables, sizeof(key->variables));
	if (all && has_unknown_variables(key))
		p4d_rehearsals__hash_add(&hash, key->unknown_variables, sizeof(key->unknown_variables));
	snprintf(text, P4D_REHEARSALS_KEY_TEXT, "%016" PRIx64 "%016" PRIx64, hash.half[0], hash.half[1]);
	return !key->unknown;
}

bool p4d_rehearsals_key_text(const p4d_rehearsals_key *key, char text[P4D_REHEARSALS_KEY_TEXT])
{
	return write_text(key, true, text);
}

bool p4d_rehearsals_key_of_known(const p4d_rehearsals_key *key, char text[P4D_REHEARSALS_KEY_TEXT])
{
	return write_text(key, false, text) && has_unknown_variables(key);
}
