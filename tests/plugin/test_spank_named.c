/* SPDX-License-Identifier: Apache-2.0 */
/* Which options p4d.so registers for a command line. This program starts itself under the names of sbatch,
 * srun and others. */
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank_named.h"
#include "slurm_compat.h"

/* symbols that Slurm's programs provide */
slurm_conf_t slurm_conf;
void slurm_xfree(void **pointer)
{
	free(*pointer);
}

static char self[4096], words_of_output[8192];

/* Runs as one of Slurm's programs. Prints the names of the registered options, or "all". */
static int named(void)
{
	bool taken[P4D_OPTIONS] = {false};

	slurm_conf.cli_filter_plugins = getenv("FILTER");
	if (!p4d_spank_named(taken))
		return printf("all") < 0;
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (taken[i])
			printf("%s ", p4d_request_option_info((p4d_option)i)->name);
	return 0;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Starts this program with these words, separated by blanks ('_' is a blank within a word), and with this
 * text on standard input. Returns its output. */
static const char *names(const char *line, const char *standard_input)
{
	char copy[512], *argv[32] = {NULL};
	int count = 0, ends[2], status;
	size_t used = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *at = copy, *word; (word = strsep(&at, " "));) {
		argv[count++] = word;
		for (; *word; word++)
			*word = *word == '_' ? ' ' : *word;
	}
	assert_int_equal(pipe(ends), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		const int in = open(standard_input, O_RDONLY);
		dup2(in, 0);
		dup2(ends[1], 1);
		execv(self, argv);
		_exit(127);
	}
	close(ends[1]);
	for (ssize_t got;
	     (got = read(ends[0], words_of_output + used, sizeof(words_of_output) - used - 1)) > 0;)
		used += (size_t)got;
	words_of_output[used] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return words_of_output;
}

/* Whether a list has a name that `text` begins with or, if whole is true, that equals it. A blank ends
 * each name. */
static bool has(const char *list, const char *text, bool whole)
{
	for (size_t length; *list; list += length + (list[length] == ' ')) {
		length = strcspn(list, " ");
		if (!strncmp(list, text, length) && (!whole || text[length] == ' ' || !text[length]))
			return true;
	}
	return false;
}

/* Expects that these options are registered, and all options whose names begin with one of them, because
 * getopt_long accepts abbreviations. */
static void check(const char *line, const char *standard_input, const char *expected)
{
	const char *got = names(line, standard_input);

	for (const char *at = expected; *at; at += strcspn(at, " "), at += *at == ' ')
		if (!has(got, at, true))
			fail_msg("%s: '%s' without one of '%s'", line, got, expected);
	for (const char *at = got; *at; at += strcspn(at, " "), at += *at == ' ')
		if (!has(expected, at, false))
			fail_msg("%s: '%s', expected '%s'", line, got, expected);
}

#define CHECK(line, expected) check(line, "/dev/null", expected)

/* The options in the output of --help. */
#define USUAL "model tp pp micro-batch seq-len recompute finetune framework override program fix verbose "

/* getopt_long accepts the beginning of a name, and calls it ambiguous if several names begin so. */
static void test_words(void **state)
{
	(void)state;
	CHECK("srun -N1 true", "");
	CHECK("srun -N1 --p4d-model=x --p4d-vpp 8 true", "model vpp ");
	CHECK("salloc --p4d-micro=1", "micro-batch ");
	assert_non_null(strstr(names("salloc --p4d-m=1", "/dev/null"), "model "));
	assert_non_null(strstr(names("salloc --p4d-m=1", "/dev/null"), "micro-batch "));
	assert_null(strstr(names("salloc --p4d-m=1", "/dev/null"), "vpp "));
	assert_non_null(strstr(names("srun --p", "/dev/null"), "verbose "));
	CHECK("srun --p4d-nothing true", "");
	CHECK("srun --partition=p4d true", "");
	/* commands that list options */
	CHECK("srun --help", USUAL);
	CHECK("srun --he", "all");
	CHECK("sbatch -h", USUAL);
	CHECK("sbatch --help", USUAL);
	CHECK("salloc --p4d-vpp=2 --help", USUAL "vpp ");
	CHECK("sbatch -vh", "all");
	CHECK("scrontab -e", "all");
	setenv("FILTER", "lua", 1);
	CHECK("srun true", "all");
	unsetenv("FILTER");
}

static void test_script(void **state)
{
	(void)state;
	write_file("named.sh", "#!/bin/sh\n#SBATCH --p4d-model=x -N1 # --p4d-pp\n\n \t# text\n#SLURM "
			       "--job-name=\"a b\" \"--p4d\"-vp\\p=8\n"
			       "true\n#SBATCH --p4d-pp=2\n");
	write_file("plain.sh", "#!/bin/sh\nsrun --p4d-model=x\n");
	CHECK("sbatch named.sh", "model pp vpp ");
	CHECK("sbatch plain.sh", "");
	CHECK("sbatch --p4d-pp=2 ./plain.sh --p4d-vpp=2", "pp vpp ");
	CHECK("sbatch -HN 1 -pa --hold --time 5 --p4d-fix --p4d-seq-len 8 plain.sh", "seq-len fix ");
	CHECK("sbatch -N1 : -N 1 plain.sh", "");
	CHECK("sbatch -N1 : -N1 named.sh", "model pp vpp ");
	CHECK("sbatch -- plain.sh", "");
	/* Slurm does not look for options in the value of an option */
	CHECK("sbatch --wrap true", "");
	CHECK("sbatch --wra=#SBATCH_--p4d-vpp=8", "");
	/* the script is on standard input; sbatch continues where another program has stopped reading */
	check("sbatch -N 1", "named.sh", "model pp vpp ");
	check("sbatch --output plain.sh", "named.sh", "model pp vpp ");
	check("sbatch plain.sh", "named.sh", "");
}

/* If p4d cannot read the script, it registers all options. */
static void test_unknown_script(void **state)
{
	static char text[64 << 10];

	(void)state;
	CHECK("sbatch -N1", "all"); /* standard input is not a file */
	CHECK("sbatch nowhere.sh", "all");
	CHECK("sbatch -D / plain.sh", "all");
	CHECK("sbatch --chd=/ plain.sh", "all");
	CHECK("sbatch --new-option plain.sh", "all");
	CHECK("sbatch -y plain.sh", "all");
	CHECK("sbatch .", "all");
	CHECK("sbatch /dev/null", "all");
	/* a pipe is not opened, because that would end the process that writes to it */
	assert_int_equal(mkfifo("named.fifo", 0600), 0);
	CHECK("sbatch named.fifo", "all");
	assert_int_equal(unlink("named.fifo"), 0);
	/* a script that asks for the list of options */
	write_file("named.sh", "#SBATCH -vh\n");
	CHECK("sbatch named.sh", "all");
	write_file("named.sh", "#SBATCH--hel\n");
	CHECK("sbatch named.sh", "all");
	/* a script that begins with endless comments */
	memset(text, '#', sizeof(text) - 1);
	for (size_t i = 99; i < sizeof(text) - 1; i += 100)
		text[i] = '\n';
	write_file("named.sh", text);
	CHECK("sbatch named.sh", "all");
	memcpy(text, "true\n", 5);
	write_file("named.sh", text);
	CHECK("sbatch named.sh", "");
	memset(text, ' ', 1100);
	memcpy(text, "#SBATCH", 7);
	text[1100] = '\n';
	write_file("named.sh", text);
	CHECK("sbatch named.sh", "all");
}

static int enter(void **state)
{
	static char directory[] = "/tmp/p4d.XXXXXX";

	*state = directory;
	return readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || !mkdtemp(directory) ||
	       chdir(directory);
}

static int leave(void **state)
{
	unlink("named.sh");
	unlink("plain.sh");
	return chdir("/") || rmdir(*state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_script),
	    cmocka_unit_test(test_unknown_script),
	};

	if (strncmp(program_invocation_short_name, "test_", 5) != 0 &&
	    strncmp(program_invocation_short_name, "lt-test_", 8) != 0)
		return named();
	return cmocka_run_group_tests(tests, enter, leave);
}
