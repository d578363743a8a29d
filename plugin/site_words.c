/* SPDX-License-Identifier: Apache-2.0 */
#include "site_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "client_option.h"
#include "slurm_compat.h"

enum { MOST = 1 << 18, PATH = 4096 };

static char *read_text(const char *path, size_t *length)
{
	const int fd = p4d_file_open(path);
	char *text = fd < 0 ? NULL : p4d_file_read(fd, MOST, length);

	if (fd >= 0)
		close(fd);
	return text;
}

/* Reads p4d.conf from where p4d_site_file_load looks for it. */
static char *read_conf(int argc, char **argv, size_t *length)
{
	const slurm_conf_t *conf = p4d_client_slurm_conf();
	const char *slurm_conf = conf && conf->slurm_conf ? conf->slurm_conf : getenv("SLURM_CONF");
	const char *slash = slurm_conf ? strrchr(slurm_conf, '/') : NULL;
	char path[PATH];

	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "conf=", 5))
			return read_text(argv[i] + 5, length);
	if (slash) {
		snprintf(path, sizeof(path), "%.*s/p4d.conf", (int)(slash - slurm_conf), slurm_conf);
		char *text = read_text(path, length);
		if (text || (errno != ENOENT && errno != ENOTDIR))
			return text;
	}
	return read_text(P4D_SYSCONFDIR "/p4d.conf", length);
}

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static const char *skip_spaces(const char *at, const char *end)
{
	while (at < end && isspace((unsigned char)*at))
		at++;
	return at;
}

/* Whether an unquoted word ends here. */
static bool ends_word(char c)
{
	return isspace((unsigned char)c) || strchr("\"'={}()+,#", c);
}

/* Whether this word begins the section of a program that is named in the script. Its name may be quoted. */
static bool names(const char *word, const char *end, const char *script, size_t length)
{
	const char *from = skip_spaces(word + strlen("program"), end);
	const char quote = from < end && (*from == '"' || *from == '\'') ? *from++ : '\0';
	const char *to = from;

	while (to < end && (quote ? *to != quote : !ends_word(*to)))
		to++;
	const char *slash = memrchr(from, '/', (size_t)(to - from));
	from = slash ? slash + 1 : from;
	return to > from && memmem(script, length, from, (size_t)(to - from));
}

/* Whether this is include("FILE"), with blanks or without. */
static bool includes(const char *text, const char *end)
{
	static const char word[] = "include";

	for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, strlen(word)));) {
		at = skip_spaces(at + strlen(word), end);
		if (at < end && *at == '(')
			return true;
	}
	return false;
}

/* Whether this is a section of a program named in the script, or includes a file that may have one. */
static bool has_words(const char *text, size_t size, const char *script, size_t length)
{
	const char *end = text + size;

	if (includes(text, end))
		return true;
	for (const char *at = text; (at = memmem(at, (size_t)(end - at), "program", strlen("program"))); at++)
		if ((at == text || !is_of_word(at[-1])) && names(at, end, script, length))
			return true;
	return false;
}

bool p4d_site_words_in(int argc, char **argv, const char *script, size_t length)
{
	size_t size;
	char *text = read_conf(argc, argv, &size);
	const bool found = text && has_words(text, size, script, length);

	free(text);
	return found;
}
