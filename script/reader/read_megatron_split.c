/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How Megatron-LM splits layers over stages: by the numbers of layers of the first and last stage, or by a
 * drawing of the pipeline, --pipeline-model-parallel-layout "Et*5|t*6|t*5L".
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "reader/read_megatron.h"

/* Sets a split in which only the first and last stage differ from the others. */
static void finish_ends(p4d_reading *r)
{
	const p4d_read_value *first = p4d_reader__slot(r, P4D_MEGATRON_FIRST_STAGE),
			     *last = p4d_reader__slot(r, P4D_MEGATRON_LAST_STAGE),
			     *place = p4d_reader__set(first) ? first : last;
	const uint64_t layers = p4d_reader__number(&r->value[P4D_LAYERS]),
		       pp = p4d_reader__number(&r->value[P4D_PP]),
		       ends = p4d_reader__set(first) + p4d_reader__set(last),
		       taken = p4d_reader__number(first) + p4d_reader__number(last);
	char text[sizeof(place->text)];
	p4d_text split = p4d_text_in(text, sizeof(text));

	if (!p4d_reader__set(place) && !first->unknown && !last->unknown)
		return;
	p4d_reader__forget(r, P4D_PIPELINE_SPLIT);
	if (!pp || first->unknown || last->unknown)
		return;
	const uint64_t others = pp > ends ? pp - ends : 0;
	const bool divides = others ? layers > taken && (layers - taken) % others == 0 : layers == taken;
	if ((layers && !divides) || p4d_reader__set(p4d_reader__slot(r, P4D_MEGATRON_LAYERS_PER_CHUNK)) ||
	    p4d_reader__set(&r->value[P4D_VPP])) {
		p4d_reader__unknown(r, "pipeline-split", "%s layers over %s stages, %s of them in the %s",
				    layers ? r->value[P4D_LAYERS].text : "the model's", r->value[P4D_PP].text,
				    place->text, place == first ? "first" : "last");
		return;
	}
	for (uint64_t i = 0; i < pp && i < UINT16_MAX; i++)
		if (i == 0 && p4d_reader__set(first))
			p4d_text_entry(&split, ",", "%" PRIu64, p4d_reader__number(first));
		else if (i + 1 == pp && p4d_reader__set(last))
			p4d_text_entry(&split, ",", "%" PRIu64, p4d_reader__number(last));
		else if (layers)
			p4d_text_entry(&split, ",", "%" PRIu64, (layers - taken) / others);
		else
			p4d_text_entry(&split, ",", "-");
	if (!split.truncated)
		p4d_reader__put(r, P4D_PIPELINE_SPLIT, place, "%s", text);
}

/*
 * Number of layers of the chunk at *at; moves *at to the chunk's end. 0: the chunk has no layers, or
 * something other than layers, the embedding at the start of the model and the loss at its end.
 */
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

/*
 * Writes the number of layers of each chunk, separated by commas. Returns the number of chunks; 0: the
 * drawing has another form.
 */
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

static void finish_picture(p4d_reading *r)
{
	const p4d_read_value *picture = p4d_reader__slot(r, P4D_MEGATRON_PICTURE);
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

void p4d_megatron__finish_split(p4d_reading *r)
{
	finish_ends(r);
	finish_picture(r);
}
