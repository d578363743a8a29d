/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a job from random options and lines, and puts them into the places where sbatch reads them. */
#include "job.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aspects.h"

/* Other spellings of sbatch's options, and sbatch's variables for them. */
static const struct {
	const char *option;
	char letter;
	const char *variable;
} spellings[] = {
    {"account", 'A', "SBATCH_ACCOUNT"},
    {"array", 'a', NULL},
    {"constraint", 'C', "SBATCH_CONSTRAINT"},
    {"cpus-per-task", 'c', NULL},
    {"exclude", 'x', NULL},
    {"gpus", 'G', "SBATCH_GPUS"},
    {"gpus-per-node", 0, "SBATCH_GPUS_PER_NODE"},
    {"gpus-per-task", 0, "SBATCH_GPUS_PER_TASK"},
    {"gres", 0, "SBATCH_GRES"},
    {"job-name", 'J', NULL},
    {"mem", 0, "SBATCH_MEM_PER_NODE"},
    {"mem-per-cpu", 0, "SBATCH_MEM_PER_CPU"},
    {"mem-per-gpu", 0, "SBATCH_MEM_PER_GPU"},
    {"nodelist", 'w', NULL},
    {"nodes", 'N', NULL},
    {"ntasks", 'n', NULL},
    {"partition", 'p', "SBATCH_PARTITION"},
    {"qos", 'q', "SBATCH_QOS"},
    {"time", 't', "SBATCH_TIMELIMIT"},
};

static uint64_t chance_state;

static unsigned chance(unsigned below)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return (unsigned)((chance_state * 0x2545f4914f6cdd1dull >> 33) % below);
}

void seed_job(uint64_t seed, uint64_t number)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15ull + number * 0xbf58476d1ce4e5b9ull + 1;

	z = (z ^ z >> 30) * 0x94d049bb133111ebull;
	chance_state = z ^ z >> 31 ? z ^ z >> 31 : 1;
	for (int i = 0; i < 8; i++)
		chance(2);
}

void add_piece(job *j, place where, unsigned component, const char *text, size_t length)
{
	piece *p = &j->piece[j->pieces];

	if (j->pieces == MAX_PIECES || length >= sizeof(p->text))
		abort();
	*p = (piece){.place = where, .component = component};
	memcpy(p->text, text, length);
	j->pieces++;
}

/* Rewrites --NAME=VALUE as VARIABLE=VALUE. Returns false if sbatch has no such variable. */
static bool to_variable(piece *p)
{
	char text[sizeof(p->text)];
	const char *value = strchr(p->text, '=');
	size_t length = value ? (size_t)(value - p->text) - 2 : 0;

	if (value && !strncmp(p->text, "--p4d-", 6)) {
		int n = snprintf(text, sizeof(text), "SBATCH_%s", p->text + 2);
		for (char *at = text; *at != '='; at++)
			*at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
		memcpy(p->text, text, (size_t)n + 1);
		return true;
	}
	for (size_t i = 0; value && i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (spellings[i].variable && strlen(spellings[i].option) == length &&
		    !strncmp(spellings[i].option, p->text + 2, length)) {
			snprintf(text, sizeof(text), "%s%s", spellings[i].variable, value);
			snprintf(p->text, sizeof(p->text), "%s", text);
			return true;
		}
	return false;
}

/* Rewrites --NAME=VALUE as -LVALUE, if the option has a letter. */
static void to_letter(piece *p)
{
	char text[sizeof(p->text)];
	const char *value = strchr(p->text, '=');
	size_t length = value ? (size_t)(value - p->text) - 2 : 0;

	for (size_t i = 0; value && i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (spellings[i].letter && strlen(spellings[i].option) == length &&
		    !strncmp(spellings[i].option, p->text + 2, length)) {
			snprintf(text, sizeof(text), "-%c%s", spellings[i].letter, value + 1);
			snprintf(p->text, sizeof(p->text), "%s", text);
			return;
		}
}

/* Adds an aspect in one of its ways. Each of its options goes to a place of its own. */
static void add_options(job *j, unsigned component, const char *way)
{
	while (way) {
		const char *next = strstr(way, " --");
		add_piece(j, TYPED, component, way, next ? (size_t)(next - way) : strlen(way));
		way = next ? next + 1 : NULL;
		piece *p = &j->piece[j->pieces - 1];
		unsigned where = chance(100);
		if (where < 12 && to_variable(p)) {
			p->place = VARIABLE;
			continue;
		}
		if (where < 45 && j->source != FROM_WRAP && !(component && j->typed_colon))
			p->place = LINE;
		else if (component && !j->typed_colon)
			p->place = LINE;
		if (chance(3) == 0)
			to_letter(p);
	}
}

static const char *one_way(const aspect *a)
{
	unsigned ways = 0;

	while (ways < MAX_WAYS && a->ways[ways])
		ways++;
	return a->ways[chance(ways)];
}

static void add_aspects(job *j, unsigned component, const aspect_list *aspects)
{
	for (size_t i = 0; i < aspects->count; i++)
		while (chance(100) < aspects->at[i].percent) {
			add_options(j, component, one_way(&aspects->at[i]));
			if (chance(100) >= 6) /* a job seldom has an aspect in two ways */
				break;
		}
}

static void add_lines(job *j, const aspect_list *aspects)
{
	for (size_t i = 0; i < aspects->count; i++)
		if (chance(100) < aspects->at[i].percent) {
			const char *text = one_way(&aspects->at[i]);
			add_piece(j, BODY, 0, text, strlen(text));
		}
}

void generate(job *j)
{
	*j = (job){.source = chance(100) < 70 ? FROM_FILE
			     : chance(2)      ? FROM_STDIN
					      : FROM_WRAP,
		   .components = 1};
	if (chance(100) < 12) {
		j->components = COMPONENTS;
		j->typed_colon = j->source == FROM_WRAP || chance(2);
	}
	const unsigned kind = chance(100);
	const aspect_list *lines = kind < 30   ? &megatron_aspects
				   : kind < 60 ? &program_aspects
					       : &body_aspects;
	const bool reads = lines != &body_aspects;
	for (unsigned c = 0; c < j->components; c++) {
		add_aspects(j, c, &slurm_aspects);
		if (chance(100) < (reads ? 60 : 88))
			add_aspects(j, c, reads && chance(100) < 80 ? &typed_aspects : &p4d_aspects);
	}
	add_lines(j, lines);
}

void write_script(const job *j)
{
	FILE *f = fopen("job.sh", "we");

	if (!f)
		abort();
	fputs("#!/bin/sh\n", f);
	for (unsigned c = 0; c < j->components; c++) {
		if (c && !j->typed_colon)
			fputs("#SBATCH hetjob\n", f);
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == LINE && j->piece[i].component == c)
				/* the value begins with a blank */
				fprintf(f,
					strchr(j->piece[i].text, ' ') ? "#SBATCH \"%s\"\n" : "#SBATCH %s\n",
					j->piece[i].text);
	}
	for (unsigned i = 0; i < j->pieces; i++)
		if (j->piece[i].place == BODY)
			fprintf(f, "%s\n", j->piece[i].text);
	fclose(f);
}

void command_line(const job *j, char **words, unsigned at, char *buffer, size_t size)
{
	size_t used = (size_t)snprintf(buffer, size, "--wrap=");

	if (j->source == FROM_WRAP) {
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == BODY && j->piece[i].text[0] != '#' && used < size)
				used += (size_t)snprintf(buffer + used, size - used, "%s%s",
							 used > 7 ? "; " : "", j->piece[i].text);
		words[at++] = buffer;
	}
	for (unsigned c = 0; c < j->components; c++) {
		if (c && j->typed_colon)
			words[at++] = ":";
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == TYPED && j->piece[i].component == c)
				words[at++] = (char *)j->piece[i].text;
	}
	if (j->source == FROM_FILE)
		words[at++] = j->script ? j->script : "job.sh";
	words[at] = NULL;
}
