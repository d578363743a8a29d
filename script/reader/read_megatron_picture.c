/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-LM's --pipeline-model-parallel-layout: a picture of the pipeline, "Et*5|t*6|t*5L". */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "reader/read_megatron.h"

/* Layers of the chunk at *at, which goes on to what ends it. 0: it has none, or something else than layers,
 * an embedding at the start of the model and a loss at its end. */
static uint64_t layers_of_chunk(const char **at, bool first)
{
	uint64_t layers = 0;
	const char *c = *at;

	c += first && *c == 'E';
	while (*c == 't') {
		char *end = (char *)++c;
		const uint64_t times = *c == '*' ? strtoull(c + 1, &end, 10) : 1;
		if (times > UINT16_MAX)
			return 0;
		layers += times;
		c = end;
	}
	c += *c == 'L' && !c[1];
	*at = c;
	return layers;
}

/* Layers of each chunk, separated by commas; returns how many there are, 0: it is no picture of this kind. */
static uint64_t read_picture(const char *picture, p4d_text *split)
{
	uint64_t chunks = 0;

	for (const char *at = picture;; at++) {
		const uint64_t layers = layers_of_chunk(&at, !chunks);
		if (!layers || (*at && *at != '|'))
			return 0;
		p4d_text_entry(split, ",", "%" PRIu64, layers);
		chunks++;
		if (!*at)
			return split->truncated ? 0 : chunks;
	}
}

void p4d_megatron__finish_picture(p4d_reading *r)
{
	const p4d_read_value *picture = &r->extra[P4D_MEGATRON_PICTURE - (int)P4D_OPTIONS];
	const uint64_t pp = p4d_reader__number(&r->value[P4D_PP]);
	char text[sizeof(picture->text)];
	p4d_text split = p4d_text_in(text, sizeof(text));

	if (!p4d_reader__set(picture) && !picture->unknown)
		return;
	p4d_reader__forget(r, P4D_PIPELINE_SPLIT);
	if (picture->unknown)
		return;
	const uint64_t chunks =
	    strlen(picture->text) + 1 < sizeof(picture->text) ? read_picture(picture->text, &split) : 0;
	if (!chunks || !pp || chunks % pp) {
		p4d_reader__unknown(r, "pipeline-split",
				    "--pipeline-model-parallel-layout %.60s is not modelled", picture->text);
		return;
	}
	p4d_reader__put(r, P4D_PIPELINE_SPLIT, picture, "%s", text);
	if (chunks > pp)
		p4d_reader__put(r, P4D_VPP, picture, "%" PRIu64, chunks / pp);
}
