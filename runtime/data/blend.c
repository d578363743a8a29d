/* SPDX-License-Identifier: Apache-2.0 */
#include "data/blend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char blanks[] = " \t\r\n";

static bool is_number(const char *word, double *number)
{
	char *end;

	*number = strtod(word, &end);
	return end != word && !*end;
}

static int take_word(p4d_blend *blend, char *word, bool weighted, bool *expects_path, p4d_error *err)
{
	double *weight = &blend->weight[blend->sources];

	if (blend->sources == P4D_BLEND_SOURCES)
		return p4d_fail(err, P4D_E_VALUE, "data: more than %d datasets", P4D_BLEND_SOURCES);
	if (weighted && !*expects_path) {
		if (!is_number(word, weight) || !(*weight > 0 && *weight <= 1e15))
			return p4d_fail(err, P4D_E_VALUE,
					"data: the weight \"%.100s\" is not a number above 0", word);
		*expects_path = true;
		return 0;
	}
	blend->path[blend->sources++] = word;
	*expects_path = false;
	return 0;
}

/* Whether the text is the path of a single file, with blanks in it. */
static bool is_one_path(const char *text)
{
	char path[4200];

	if (!strpbrk(text, blanks) || snprintf(path, sizeof(path), "%s.bin", text) >= (int)sizeof(path))
		return false;
	return access(text, F_OK) == 0 || access(path, F_OK) == 0;
}

int p4d_blend__parse(p4d_blend *blend, const char *text, p4d_error *err)
{
	p4d_blend made = {.text = strdup(text)};
	bool weighted = false, expects_path = false;
	char *save = NULL;
	double number;
	int rc = 0;

	if (!made.text)
		return p4d_fail(err, P4D_E_NO_MEMORY, "data: no memory for the list of datasets");
	if (is_one_path(text)) {
		made.path[made.sources++] = made.text;
		*blend = made;
		return 0;
	}
	char *word = strtok_r(made.text, blanks, &save);
	if (word)
		weighted = is_number(word, &number);
	for (; rc == 0 && word; word = strtok_r(NULL, blanks, &save))
		rc = take_word(&made, word, weighted, &expects_path, err);
	if (rc == 0 && expects_path)
		rc = p4d_fail(err, P4D_E_VALUE, "data: expected a path after the last weight");
	if (rc == 0 && !made.sources)
		rc = p4d_fail(err, P4D_E_VALUE, "data: no dataset given");
	if (rc < 0) {
		free(made.text);
		return -1;
	}
	made.weighted = weighted;
	*blend = made;
	return 0;
}

/* Returns the source whose number of places so far is furthest below its share. */
static unsigned most_behind(const p4d_blend *blend, double sum, uint32_t place)
{
	unsigned best = 0;
	double most = -HUGE_VAL;

	for (unsigned i = 0; i < blend->sources; i++) {
		double behind = blend->weight[i] / sum * (place + 1.0) - blend->share[i];
		if (behind > most) {
			most = behind;
			best = i;
		}
	}
	return best;
}

int p4d_blend__deal(p4d_blend *blend, p4d_error *err)
{
	double sum = 0;

	if (blend->sources == 1)
		return 0;
	for (unsigned i = 0; i < blend->sources; i++)
		sum += blend->weight[i];
	blend->source = calloc(P4D_BLEND_PERIOD, sizeof(*blend->source));
	blend->before = calloc(P4D_BLEND_PERIOD, sizeof(*blend->before));
	if (!blend->source || !blend->before)
		return p4d_fail(err, P4D_E_NO_MEMORY, "data: no memory to blend datasets");
	for (uint32_t place = 0; place < P4D_BLEND_PERIOD; place++) {
		unsigned source = most_behind(blend, sum, place);
		blend->source[place] = (uint8_t)source;
		blend->before[place] = blend->share[source]++;
	}
	for (unsigned i = 0; i < blend->sources; i++)
		if (!blend->share[i])
			return p4d_fail(err, P4D_E_VALUE,
					"data: the weight of %.200s is too small: less than 1 in %d samples",
					blend->path[i], P4D_BLEND_PERIOD);
	return 0;
}

unsigned p4d_blend__source(const p4d_blend *blend, uint64_t number, uint64_t *index)
{
	if (!blend->source) {
		*index = number;
		return 0;
	}
	uint32_t place = (uint32_t)(number % P4D_BLEND_PERIOD);
	unsigned source = blend->source[place];
	*index = number / P4D_BLEND_PERIOD * blend->share[source] + blend->before[place];
	return source;
}

void p4d_blend__free(p4d_blend *blend)
{
	free(blend->text);
	free(blend->source);
	free(blend->before);
	*blend = (p4d_blend){0};
}
