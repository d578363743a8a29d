/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of Megatron-LM for layers of several kinds: Mamba-2 and gated delta nets between attention
 * layers. */
#include <inttypes.h>
#include <string.h>

#include "reader/read_megatron.h"

enum {
	PATTERN = P4D_READ_EXTRA(32),
	VARIANT = P4D_READ_EXTRA(33),
	FREQUENCY = P4D_READ_EXTRA(34),
	OUTPUT_GATE = P4D_READ_EXTRA(35),
	MAMBA_STATE = P4D_READ_EXTRA(36), /* first of as many extra values as `mamba` has rows */
	DELTA_STATE = P4D_READ_EXTRA(40), /* first of as many extra values as `delta_nets` has rows */
	SPEC = P4D_READ_EXTRA(45),
};

const p4d_read_argument p4d_megatron__hybrid[] = {
    {"--hybrid-layer-pattern", PATTERN, NULL, NULL},
    {"--hybrid-override-pattern", PATTERN, NULL, NULL},
    {"--hybrid-attention-ratio", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--hybrid-mlp-ratio", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--mtp-hybrid-override-pattern", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--mamba-state-dim", MAMBA_STATE, NULL, NULL},
    {"--mamba-head-dim", MAMBA_STATE + 1, NULL, NULL},
    {"--mamba-num-groups", MAMBA_STATE + 2, NULL, NULL},
    {"--mamba-num-heads", MAMBA_STATE + 3, NULL, NULL},
    {"--experimental-attention-variant", VARIANT, NULL, NULL},
    {"--linear-attention-type", VARIANT, NULL, NULL},
    {"--linear-attention-freq", FREQUENCY, NULL, NULL},
    {"--attention-output-gate", OUTPUT_GATE, "on", NULL},
    {"--linear-key-head-dim", DELTA_STATE, NULL, NULL},
    {"--linear-value-head-dim", DELTA_STATE + 1, NULL, NULL},
    {"--linear-num-key-heads", DELTA_STATE + 2, NULL, NULL},
    {"--linear-num-value-heads", DELTA_STATE + 3, NULL, NULL},
    {"--linear-conv-kernel-dim", DELTA_STATE + 4, NULL, NULL},
    {"--spec", SPEC, NULL, p4d_reader__list},
    {NULL, 0, NULL, NULL},
};

/*
 * A size of a state-space layer, and its default (TransformerConfig); NULL: the default follows from other
 * sizes.
 */
typedef struct state_size {
	p4d_option option;
	const char *otherwise;
} state_size;
static const state_size mamba[] = {
    {P4D_STATE_SIZE, "128"}, {P4D_STATE_HEAD_DIM, "64"}, {P4D_STATE_GROUPS, "8"}, {P4D_STATE_HEADS, NULL}};
static const state_size delta_nets[] = {{P4D_STATE_SIZE, "128"},
					{P4D_STATE_HEAD_DIM, "128"},
					{P4D_STATE_GROUPS, "16"},
					{P4D_STATE_HEADS, "32"},
					{P4D_STATE_CONV, "4"}};

static void put_sizes(p4d_reading *r, int first, const state_size *sizes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const p4d_read_value *value = p4d_reader__slot(r, first + (int)i);
		if (p4d_reader__set(value))
			p4d_reader__put(r, sizes[i].option, value, "%s", value->text);
		else if (sizes[i].otherwise && !value->unknown)
			p4d_reader__put_default(r, sizes[i].option, "%s", sizes[i].otherwise);
	}
}

/* Sets Mamba-2's sizes. The inner width is twice the hidden size, and is divided into heads. */
static void finish_mamba(p4d_reading *r)
{
	const uint64_t hidden = p4d_reader__number(&r->value[P4D_HIDDEN]);

	put_sizes(r, MAMBA_STATE, mamba, sizeof(mamba) / sizeof(*mamba));
	const uint64_t head_dim = p4d_reader__number(&r->value[P4D_STATE_HEAD_DIM]);
	if (!p4d_reader__set(&r->value[P4D_STATE_HEADS]) && !p4d_reader__slot(r, MAMBA_STATE + 3)->unknown &&
	    hidden && hidden <= UINT32_MAX && head_dim && 2 * hidden % head_dim == 0)
		p4d_reader__put_default(r, P4D_STATE_HEADS, "%" PRIu64, 2 * hidden / head_dim);
}

/* "M-M*|M-M*": one letter per layer; | separates stages. The part after / is for multi-token prediction. */
static void finish_pattern(p4d_reading *r)
{
	static const char letters[] = "M*-E";
	const p4d_read_value *pattern = p4d_reader__slot(r, PATTERN);
	const size_t length = strlen(pattern->text), plain = strspn(pattern->text, letters);

	if (plain < length) {
		p4d_reader__forget(r, P4D_LAYER_PATTERN);
		p4d_reader__unknown(r, "layer-pattern", "'%c' of %.80s is not modelled", pattern->text[plain],
				    pattern->text);
		return;
	}
	p4d_reader__put(r, P4D_LAYER_PATTERN, pattern, "%s", pattern->text);
	p4d_reader__put(r, P4D_ARCHITECTURE, pattern, "nemotron-h");
	/* the length of the pattern wins over --num-layers */
	if (p4d_reader__number(&r->value[P4D_LAYERS]) != length)
		p4d_reader__put(r, P4D_LAYERS, pattern, "%zu", length);
	finish_mamba(r);
}

/* Sets the pattern of a model in which every Nth layer has attention, with Qwen3-Next's gate. */
static void finish_variant(p4d_reading *r)
{
	const p4d_read_value *variant = p4d_reader__slot(r, VARIANT),
			     *frequency = p4d_reader__slot(r, FREQUENCY);
	const uint64_t every = p4d_reader__number(frequency);
	char pattern[32];

	if (strcmp(variant->text, "gated_delta_net") != 0 || every < 2 || every > sizeof(pattern) - 1 ||
	    !p4d_reader__set(p4d_reader__slot(r, OUTPUT_GATE))) {
		p4d_reader__forget(r, P4D_LAYER_PATTERN);
		p4d_reader__unknown(r, "layer-pattern",
				    "p4d models %s %.40s only for gated_delta_net with "
				    "--linear-attention-freq N and --attention-output-gate",
				    variant->argument, variant->text);
		return;
	}
	memset(pattern, 'G', every);
	memcpy(pattern + every - 1, "*", 2);
	p4d_reader__put(r, P4D_LAYER_PATTERN, frequency, "%s", pattern);
	p4d_reader__put(r, P4D_ARCHITECTURE, variant, "qwen3-next");
	put_sizes(r, DELTA_STATE, delta_nets, sizeof(delta_nets) / sizeof(*delta_nets));
}

/* Checks --spec, which names custom modules. p4d knows only those of the programs for hybrid models. */
static void finish_spec(p4d_reading *r)
{
	const p4d_read_value *spec = p4d_reader__slot(r, SPEC);

	if (!p4d_reader__set(spec) ||
	    (p4d_reader__set(p4d_reader__slot(r, PATTERN)) &&
	     (strstr(spec->text, "mamba_stack_spec") || strstr(spec->text, "hybrid_stack_spec"))))
		return;
	p4d_reader__unknown(r, "spec", "--spec %.80s (%.40s:%u) is not modelled", spec->text, spec->file,
			    spec->line);
}

void p4d_megatron__finish_hybrid(p4d_reading *r)
{
	if (p4d_reader__slot(r, PATTERN)->unknown || p4d_reader__slot(r, VARIANT)->unknown)
		p4d_reader__forget(r, P4D_LAYER_PATTERN);
	if (p4d_reader__set(p4d_reader__slot(r, PATTERN)))
		finish_pattern(r);
	else if (p4d_reader__set(p4d_reader__slot(r, VARIANT)))
		finish_variant(r);
	else if (p4d_reader__set(p4d_reader__slot(r, OUTPUT_GATE)))
		p4d_reader__unknown(r, "architecture", "--attention-output-gate is not modelled");
	finish_spec(r);
}
