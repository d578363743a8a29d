/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of transformers that compute their own loss, in its releases 4.41 to 5.24. */
#include "request/class_loss.h"

#include <string.h>

#include "base/option.h"
#include "request/framework.h"

#define NUMBER(major, minor) (major * P4D_RELEASE_UNIT + minor)
#define NEVER INT64_MAX

/* A loss in a range of releases of transformers, both ends included. */
#define LOSS(name, major, minor, last_major, last_minor, ...) \
	{ \
		name "ForConditionalGeneration", NUMBER(major, minor), NUMBER(last_major, last_minor) + 1, \
		    __VA_ARGS__, \
		    .what = "with transformers " #major "." #minor " to " #last_major "." #last_minor \
			    ", whose " name \
			    "ForConditionalGeneration calculates its loss from copies of the logits" \
	}
/* A loss in all releases since one. */
#define ALWAYS(name, major, minor, ...) \
	{ \
		name "ForConditionalGeneration", NUMBER(major, minor), NEVER, __VA_ARGS__ \
	}

static const p4d_class_loss losses[] = {
    LOSS("Gemma3", 4, 50, 4, 51, .upcasts = true, .keeps = true, .masks = true),
    LOSS("Gemma3", 4, 52, 5, 16, .upcasts = true, .masks = true),
    LOSS("PaliGemma", 4, 41, 4, 51, .upcasts = true, .keeps = true, .masks = true),
    LOSS("Idefics2", 4, 41, 4, 51, .upcasts = true, .masks = true),
    LOSS("Idefics3", 4, 46, 4, 51, .upcasts = true, .masks = true),
    LOSS("SmolVLM", 4, 50, 4, 51, .upcasts = true, .masks = true),
    LOSS("Qwen2VL", 4, 45, 4, 51, .upcasts = true),
    LOSS("Qwen2_5_VL", 4, 49, 4, 51, .upcasts = true),
    LOSS("Llava", 4, 41, 4, 51, .masks = true),
    LOSS("LlavaNext", 4, 41, 4, 51, .masks = true),
    LOSS("LlavaNextVideo", 4, 42, 4, 51, .masks = true),
    LOSS("LlavaOnevision", 4, 45, 4, 51, .masks = true),
    LOSS("VideoLlava", 4, 41, 4, 51, .masks = true),
    LOSS("VipLlava", 4, 41, 4, 51, .masks = true),
    LOSS("AyaVision", 4, 50, 4, 51, .masks = true),
    LOSS("GotOcr2", 4, 49, 4, 51, .masks = true),
    LOSS("Mistral3", 4, 50, 4, 51, .masks = true),
    LOSS("Llama4", 4, 51, 5, 16, .masks = true),
    ALWAYS("Qwen2Audio", 4, 45, .masks = true),
    ALWAYS("GraniteSpeech", 4, 52, .masks = true),
};
enum { LOSSES = sizeof(losses) / sizeof(losses[0]) };

/* The class name in "the text part of CLASS", for a training with transformers' modules; otherwise NULL. */
static const char *class_of(const p4d_request *r)
{
	static const char part[] = "the text part of ";
	const bool trains = !p4d_is_set(r, P4D_WORKLOAD) || r->value[P4D_WORKLOAD] == P4D_WORKLOAD_TRAIN;

	if (!trains || !p4d_is_set(r, P4D_JUDGED_PART) || strncmp(r->judged_part, part, strlen(part)) != 0 ||
	    p4d_framework_value(r, P4D_MODEL_CODE) != P4D_MODEL_CODE_TRANSFORMERS ||
	    !p4d_framework_has(r, P4D_TRANSFORMERS))
		return NULL;
	return r->judged_part + strlen(part);
}

const p4d_class_loss *p4d_class_loss_of(const p4d_request *r)
{
	const int64_t release = p4d_is_set(r, P4D_TRANSFORMERS) ? r->value[P4D_TRANSFORMERS] : NEVER - 1;
	const char *name = class_of(r);

	for (int i = 0; name && i < LOSSES; i++)
		if (!strcmp(losses[i].class_name, name) && release >= losses[i].since &&
		    release < losses[i].before)
			return &losses[i];
	return NULL;
}

const p4d_class_loss *p4d_class_loss_other(const p4d_request *r, unsigned *at, int64_t *release)
{
	const bool told = p4d_is_set(r, P4D_TRANSFORMERS);
	const int64_t last = told ? r->value[P4D_TRANSFORMERS] : NEVER - 1;
	/* a major release alone leaves the minor release open */
	const int64_t first = !told                                         ? 0
			      : last % P4D_RELEASE_UNIT == P4D_RELEASE_LAST ? last - P4D_RELEASE_LAST
									    : last;
	const p4d_class_loss *now = p4d_class_loss_of(r);
	const char *name = class_of(r);

	while (name && *at < LOSSES) {
		const p4d_class_loss *other = &losses[(*at)++];
		if (other == now || strcmp(other->class_name, name) != 0 || other->since > last ||
		    other->before <= first)
			continue;
		*release = other->before - 1 < last ? other->before - 1 : last;
		return other;
	}
	return NULL;
}
