/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_named.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "client_option.h"
#include "slurm_compat.h"

/* Maximum number of words, and of comments at the beginning of a script, that are examined. */
enum { WORDS_MAX = 4096, HEAD_MAX_BYTES = 32 << 10, LINE_MAX_BYTES = 1024 };

/* The command line. The C library passes it to each library that it loads. Reading it from /proc would
 * take five system calls. */
static char **words;

__attribute__((constructor)) static void take_command_line(int argc, char **argv)
{
	words = argc > 0 && argc <= WORDS_MAX ? argv : NULL;
}

/* sbatch's short options in all releases: these have no argument, those have one. */
static const char short_flags[] = "HOQVWsv", short_options[] = "ABCFGJLMNSabcdeimnopqtwx";

/*
 * Long options that people write without '='. After any other one, the next word may or may not be its
 * argument.
 */
static const char *const long_flags[] = {"contiguous", "exclusive",  "hold",    "no-requeue", "overcommit",
					 "parsable",   "quiet",      "requeue", "test-only",  "verbose",
					 "wait",       "spread-job", NULL};
static const char *const long_options[] = {
    "account",       "array",       "comment",  "constraint",  "cpus-per-gpu", "cpus-per-task",
    "dependency",    "error",       "exclude",  "export",      "gpus",         "gpus-per-node",
    "gpus-per-task", "gres",        "job-name", "mail-type",   "mail-user",    "mem",
    "mem-per-cpu",   "mem-per-gpu", "nodelist", "nodes",       "ntasks",       "ntasks-per-node",
    "output",        "partition",   "qos",      "reservation", "signal",       "time",
    "wrap",          NULL};

static bool is_among(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* Whether a word is this option's name or its beginning, because getopt_long accepts any prefix of a name. */
static bool begins(const char *name, const char *word, size_t length)
{
	return length && !strncmp(name, word, length);
}

/* Names the options that --help prints, since all options would fill pages. */
static void name_usual(bool *named)
{
#define PAGE(id, heading, usual, otherwise, example, text) named[P4D_##id] = named[P4D_##id] || (usual) == 2;
#include "request/options_page.def"
#undef PAGE
}

/* Names the options that a word may mean. False: the word lists all options. */
static bool take_word(bool *named, const char *word)
{
	const size_t length = strncmp(word, "--", 2) ? 0 : strcspn(word + 2, "=");
	const size_t common = length < 4 ? length : 4;

	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		name_usual(named);
	else if (!length)
		return word[0] != '-' || !strchr(word, 'h');
	if (!length || !strcmp(word, "--help"))
		return true;
	word += 2;
	if (begins("help", word, length))
		return false;
	if (!begins("p4d-", word, common))
		return true;
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (!strncmp(p4d_request_option_info((p4d_option)i)->name, word + common, length - common))
			named[i] = true;
	return true;
}

/*
 * Names the options in a line of a script. It may contain quotes and backslashes anywhere, even inside a
 * name.
 */
static bool take_line(bool *named, const char *line, size_t length)
{
	char plain[LINE_MAX_BYTES], *rest = plain;
	size_t used = 0;
	bool taken = true;

	if (length >= sizeof(plain))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!strchr("\"'\\", line[i]))
			plain[used++] = line[i];
	plain[used] = '\0';
	for (const char *word; taken && (word = strsep(&rest, " \t\r\v\f"));)
		taken = take_word(named, word);
	return taken;
}

/* Processes the lines of a script that contain options, up to the first command. Returns where they end;
 * NULL: it cannot tell. */
static const char *take_script(bool *named, const char *text)
{
	while (*text) {
		const size_t length = strcspn(text, "\n"), blank = strspn(text, " \t\r\v\f");
		const size_t magic = !strncmp(text, "#SBATCH", 7) ? 7 : !strncmp(text, "#SLURM", 6) ? 6 : 0;
		if (!magic && blank < length && text[blank] != '#')
			break;
		if (magic && !take_line(named, text + magic, length - magic))
			return NULL;
		text += length + (text[length] == '\n');
	}
	return text;
}

/* Names the options in a script that is a regular file, from the offset at which sbatch will read it. */
static bool take_open_script(bool *named, int fd)
{
	char text[HEAD_MAX_BYTES];
	struct stat status;
	const off_t from = lseek(fd, 0, SEEK_CUR);

	if (from < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	const ssize_t got = pread(fd, text, sizeof(text) - 1, from);
	if (got < 0 || memchr(text, '\0', (size_t)got))
		return false;
	text[got] = '\0';
	const char *end = take_script(named, text);
	return end && (*end || got < (ssize_t)sizeof(text) - 1);
}

/* Names the options in a script. If it is not in this directory, Slurm looks for it elsewhere. */
static bool take_script_file(bool *named, const char *path)
{
	struct stat status;

	/* not for a pipe: opening it would make this process its reader */
	if (stat(path, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	const int fd = p4d_file_open(path);
	if (fd < 0)
		return false;
	const bool taken = take_open_script(named, fd);
	close(fd);
	return taken;
}

/* State while sbatch's words are processed: where its script is. */
typedef struct sbatch_words {
	bool wrapped;  /* --wrap is the script, in which Slurm looks for no options */
	bool help;     /* the user typed --help; sbatch then reads no script */
	bool last;     /* "--" was read, after which no options follow */
	bool argument; /* the next word is the argument of an option */
} sbatch_words;

/* Processes "--NAME" or "--NAME=VALUE". */
static bool follow_long(sbatch_words *s, const char *name)
{
	const size_t length = strcspn(name, "=");
	const int own = strncmp(name, "p4d-", 4) ? -1 : p4d_request_option_find(name + 4);

	s->wrapped = s->wrapped || begins("wrap", name, length);
	s->help = s->help || !strcmp(name, "help");
	if (s->help)
		return true;
	if (begins("chdir", name, length))
		return false;
	if (name[length] || is_among(long_flags, name) ||
	    (own >= 0 && p4d_request_option_info((p4d_option)own)->kind == P4D_SWITCH_KIND))
		return true;
	s->argument = true;
	return own >= 0 || is_among(long_options, name);
}

/* Processes short options such as "-HN2". */
static bool follow_short(sbatch_words *s, const char *letters)
{
	s->help = s->help || !strcmp(letters, "h");
	if (s->help)
		return true;
	letters += strspn(letters, short_flags);
	if (!*letters)
		return true;
	s->argument = !letters[1];
	return strchr(short_options, *letters);
}

/* Processes one word; sets *script if that word is the script. False: it cannot tell. */
static bool follow(sbatch_words *s, const char *word, const char **script)
{
	const bool argument = s->argument;

	s->argument = false;
	if (argument)
		return true;
	if (s->last || word[0] != '-' || !word[1])
		*script = word;
	else if (!strcmp(word, "--"))
		s->last = true;
	else
		return word[1] == '-' ? follow_long(s, word + 2) : follow_short(s, word + 1);
	return true;
}

/* Processes sbatch's words up to its script, and the options in the script. */
static bool take_sbatch(bool *named, char *const *word)
{
	sbatch_words s = {false};
	const char *script = NULL;

	for (; *word && !script && !s.help; word++)
		/* Slurm searches for the script as if there were no components */
		if (strcmp(*word, ":") != 0 && !follow(&s, *word, &script))
			return false;
	if (script)
		return take_script_file(named, script);
	return s.wrapped || s.help || take_open_script(named, STDIN_FILENO);
}

/* Processes every word, whichever program it belongs to. */
static bool take_words(bool *named, char *const *word)
{
	bool taken = true;

	for (; *word && taken; word++)
		taken = take_word(named, *word);
	return taken;
}

bool p4d_spank_named(bool named[P4D_OPTIONS])
{
	const slurm_conf_t *conf = p4d_client_slurm_conf();
	const bool is_sbatch = !strcmp(program_invocation_short_name, "sbatch");

	/* scrontab reads its lines later; cli_filter plugins may list options */
	if ((!is_sbatch && !p4d_client_is_salloc() && strcmp(program_invocation_short_name, "srun") != 0) ||
	    !conf || (conf->cli_filter_plugins && *conf->cli_filter_plugins))
		return false;
	return words && take_words(named, words + 1) && (!is_sbatch || take_sbatch(named, words + 1));
}
