/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Model names as people type them. Case and the separators "-_. " never count. If no preset has the name as
 * typed, p4d also drops an organization ("Qwen/") and words for a variant of the same shape ("-Instruct",
 * "-it", "-Base", "-hf", "-Chat", "-pt") or for quantized weights ("-AWQ", "-GPTQ-Int8", "-FP8",
 * "-bnb-4bit").
 */
typedef struct p4d_hub_name {
	const char *whole, *base; /* the typed name; base: the part after the organization */
	char plain[128];          /* base without variant words; "" if it has none */
	char variant[128];        /* base without words for quantized weights; "" if it has none */
	int stored;               /* storage of the weights according to the words: P4D_STORED_*; -1: no
				   * such word */
} p4d_hub_name;

/* Splits a name. The result points into name. */
p4d_hub_name p4d_model__hub_name(const char *name);

/*
 * How well the best of these comma-separated names fits, from worst to best: it does not fit; it fits without
 * variant words; without words for quantized weights; without the organization; as typed; as typed including
 * the dots (1.3B is not 13B).
 *
 * A name may end in "=N", the tokens of its context length if that differs from the preset's. *max_seq_len
 * (may be NULL) gets the N of the name that fits best; 0: it has none. If no name fits, *max_seq_len is
 * unchanged.
 */
enum {
	P4D_HUB_NAME_NO,
	P4D_HUB_NAME_PLAIN,
	P4D_HUB_NAME_VARIANT,
	P4D_HUB_NAME_BASE,
	P4D_HUB_NAME_WHOLE,
	P4D_HUB_NAME_DOTTED
};
int p4d_model__hub_name_fits(const p4d_hub_name *name, const char *names, int64_t *max_seq_len);
