/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SubmitLine has the words of the command line without their quotes: `sbatch --comment=two words job.sh`.
 * p4d therefore uses the line only if its first operand may be the script. This is so if the operand is
 * the job's name (which sbatch takes from the script), or looks like a file name.
 */
#include <stdlib.h>
#include <string.h>

#include "backtest/backtest.h"
#include "base/file.h"
#include "job/sbatch.h"

static int count_words(const char *text)
{
	int count = 0;

	for (; *text; count++) {
		text += strcspn(text, " \t\n");
		text += strspn(text, " \t\n");
	}
	return count;
}

/* Whether the job may have another name than its script. */
static bool is_named(const p4d_backtest_line *line, int before, const p4d_backtest_case *c)
{
	for (int i = 1; i < before; i++)
		if (!strncmp(line->word[i], "-J", 2) || !strncmp(line->word[i], "--job-name", 10))
			return true;
	return strstr(c->script, "--job-name") || strstr(c->script, "#SBATCH -J") ||
	       (c->environment && strstr(c->environment, "SBATCH_JOB_NAME="));
}

/* Ends the command line before the text of --wrap, whose words are not separated reliably. */
static void find_wrap(p4d_backtest_line *line)
{
	for (int i = 1; i < line->words; i++)
		if (!strncmp(line->word[i], "--wrap", 6)) {
			line->wrap = true;
			line->words = line->script = i;
			return;
		}
}

static void find_script(p4d_backtest_line *line, const p4d_backtest_case *c)
{
	p4d_sbatch probe = {.skips_foreign = true};
	p4d_error err;
	int operand = line->words;

	if (p4d_sbatch_arguments(&probe, line->words, line->word, &operand, &err) < 0)
		operand = line->words;
	p4d_sbatch_free(&probe);
	if (operand >= line->words)
		return;
	const char *word = line->word[operand], *name = p4d_file_name(word), *dot = strrchr(name, '.');
	if (!strcmp(name, c->job->name) ||
	    (is_named(line, operand, c) && (strchr(word, '/') || (dot && dot != name))))
		line->script = operand;
}

bool p4d_backtest__line_read(p4d_backtest_line *line, const p4d_backtest_case *c)
{
	*line = (p4d_backtest_line){.text = strdup(c->job->submit_line)};
	line->word = line->text ? calloc((size_t)count_words(line->text) + 1, sizeof(line->word[0])) : NULL;
	if (!line->word) {
		p4d_backtest__line_free(line);
		return false;
	}
	char *save = NULL;
	for (char *word = strtok_r(line->text, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save))
		line->word[line->words++] = word;
	line->script = line->words;
	if (!line->words || strcmp(p4d_file_name(line->word[0]), "sbatch") != 0)
		return true;
	find_wrap(line);
	if (!line->wrap)
		find_script(line, c);
	return true;
}

void p4d_backtest__line_free(p4d_backtest_line *line)
{
	free(line->text);
	free(line->word);
	*line = (p4d_backtest_line){.text = NULL};
}
