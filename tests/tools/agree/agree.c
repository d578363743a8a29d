/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree [--seed=N] [--first=N] [--count=N]
 *
 * Generates jobs with random options on the command line, in #SBATCH lines and in the environment. Submits
 * each job (held) with sbatch, runs `p4d check` on it, and compares verdict, codes and completed plan. If
 * a job is refused, agree applies the fix. If sbatch and `p4d check` disagree about a job, agree makes the
 * job as small as possible and prints it. The seed and the number of a job determine the job. Works in the
 * current folder, where `hosts` is a list of nodes; sites keep plans with `admin_comment = plan`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "answer.h"
#include "fix.h"
#include "slurm_compat.h"

typedef enum difference {
	AGREED,
	BY_SLURM, /* Slurm itself refused the job, which p4d does not predict */
	NO_ANSWER,
	VERDICT,
	CODES,
	PLAN,
	ERROR_LINE, /* sbatch printed "error" although the job passed; other tools would take this for a
		     * failure */
	FIX,
} difference;

static const char *const differences[] = {
    [NO_ANSWER] = "one of them gave no answer",
    [VERDICT] = "the verdicts differ",
    [CODES] = "the codes differ",
    [PLAN] = "the plans differ",
    [ERROR_LINE] = "the job passed, and sbatch printed an error",
    [FIX] = "the fix, pasted, is refused",
};

typedef struct trial {
	job tried;
	output sbatch, check;
	verdict did, said;
} trial;

static difference compare(const job *j, trial *t)
{
	t->tried = *j;
	write_script(j);
	submit(j, &t->sbatch);
	check(j, "--json", &t->check);
	if (!of_sbatch(&t->sbatch, &t->did) || !of_check(&t->check, &t->said))
		return NO_ANSWER;
	if (t->did.by_slurm)
		return BY_SLURM;
	if (t->did.refused != t->said.refused)
		return VERDICT;
	/* sbatch reports only the first component that is refused */
	if (!(t->did.refused && j->components > 1) &&
	    memcmp(t->did.codes, t->said.codes, sizeof(t->did.codes)) != 0)
		return CODES;
	for (int i = 0; !t->did.refused && i < COMPONENTS; i++)
		if (strcmp(t->did.plan[i], t->said.plan[i]) != 0)
			return PLAN;
	return !t->did.refused && strstr(t->sbatch.err, "error") ? ERROR_LINE : AGREED;
}

/* Applies the fix of a refused job, and the next fix if p4d refuses the fixed job again. */
static difference paste_fixes(job *fixed, trial *t)
{
	for (int tries = 0; tries < 6 && t->did.refused && !t->did.by_slurm; tries++) {
		if (strchr(t->said.fix, '"') || strchr(t->said.fix, '\'') || !paste(fixed, t->said.fix))
			return AGREED; /* there is no fix */
		difference d = compare(fixed, t);
		if (d != AGREED && d != BY_SLURM)
			return d;
	}
	return t->did.refused && !t->did.by_slurm ? FIX : AGREED;
}

static difference try(const job *j, trial *t)
{
	difference d = compare(j, t);
	job fixed = *j;

	return d == AGREED && t->did.refused && j->components == 1 ? paste_fixes(&fixed, t) : d;
}

/* Removes the parts of a job without which sbatch and p4d still disagree. */
static void shrink(job *j, difference wanted, trial *t)
{
	job smaller;

	for (bool smaller_still = true; smaller_still;) {
		smaller_still = false;
		for (unsigned i = j->pieces; i-- > 0;) {
			smaller = *j;
			smaller.pieces--;
			memmove(&smaller.piece[i], &smaller.piece[i + 1],
				(smaller.pieces - i) * sizeof(piece));
			if (try(&smaller, t) != wanted)
				continue;
			*j = smaller;
			smaller_still = true;
		}
	}
	smaller = *j;
	smaller.source = FROM_FILE;
	if (try(&smaller, t) == wanted)
		*j = smaller;
	try(j, t);
}

static void print_word(const char *word)
{
	if (strpbrk(word, " $'|[]&;*\"#"))
		printf(" \"%s\"", word);
	else
		printf(" %s", word);
}

static void print_trial(uint64_t seed, unsigned long number, difference d, trial *t)
{
	const job *j = &t->tried;
	char wrap[1024], script[TEXT_MAX], *words[MAX_WORDS];

	printf("--- job %lu of seed %lu: %s\n%%", number, (unsigned long)seed, differences[d]);
	for (unsigned i = 0; i < j->pieces; i++)
		if (j->piece[i].place == VARIABLE)
			print_word(j->piece[i].text);
	printf(" sbatch -H");
	command_line(j, words, 0, wrap, sizeof(wrap));
	for (char **word = words; *word; word++)
		print_word(*word);
	puts(j->source == FROM_STDIN ? " <job.sh" : "");
	if (j->source != FROM_WRAP) {
		write_script(j);
		read_text("job.sh", script);
		printf("job.sh:\n%s", script);
	}
	printf("sbatch, status %d: %s%s", WEXITSTATUS(t->sbatch.status), t->sbatch.out, t->sbatch.err);
	check(j, NULL, &t->check);
	printf("p4d check, status %d: %s%s", WEXITSTATUS(t->check.status), t->check.err, t->check.out);
	for (int i = 0; d == PLAN && i < COMPONENTS; i++)
		printf("sbatch: %s\ncheck:  %s\n", t->did.plan[i], t->said.plan[i]);
	fflush(stdout);
}

static bool number_of(const char *argument, const char *name, unsigned long *value)
{
	size_t length = strlen(name);
	char *end;

	if (strncmp(argument, name, length) != 0)
		return false;
	*value = strtoul(argument + length, &end, 10);
	return end > argument + length && !*end;
}

int main(int argc, char **argv)
{
	unsigned long seed = 1, first = 0, count = 200, passed = 0, refused = 0, by_slurm = 0, different = 0;
	static trial t;
	job j;

	for (int i = 1; i < argc; i++)
		if (!number_of(argv[i], "--seed=", &seed) && !number_of(argv[i], "--first=", &first) &&
		    !number_of(argv[i], "--count=", &count)) {
			fprintf(stderr, "agree: cannot use %s\n", argv[i]);
			return 2;
		}
	slurm_init(NULL);
	for (unsigned long i = first; i < first + count; i++) {
		seed_job(seed, i);
		generate(&j);
		difference d = try(&j, &t);
		if (d > BY_SLURM) {
			different++;
			shrink(&j, d, &t);
			print_trial(seed, i, d, &t);
		} else if (d == BY_SLURM) {
			by_slurm++;
		} else if (t.said.refused) {
			refused++;
		} else {
			passed++;
		}
	}
	printf("%lu jobs: %lu passed, %lu refused, %lu refused by Slurm itself, %lu different\n", count,
	       passed, refused, by_slurm, different);
	return different != 0;
}
