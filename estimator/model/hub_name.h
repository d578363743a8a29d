/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Names of models as people type them. Case and the separators "-_. " never count. Beyond that an
 * organization
 * ("Qwen/"), and the words that name a variant of the same shape ("-Instruct", "-it", "-Base", "-hf",
 * "-Chat",
 * "-pt") or its quantized weights ("-AWQ", "-GPTQ-Int8", "-FP8", "-bnb-4bit") are dropped where nothing has
 * the name as it stands.
 */
typedef struct p4d_hub_name {
	const char *whole, *base; /* base: without organization */
	char plain[128];          /* base without such words; "" where there are none */
	char variant[128];        /* base without those of quantized weights alone; the same */
	int stored;               /* what the words say of the weights: P4D_STORED_*; -1: nothing */
} p4d_hub_name;

/* Points into name. */
p4d_hub_name p4d_model__hub_name(const char *name);

/*
 * How well one of these names (comma-separated) fits: 0 not, without words, without those of quantized
 * weights, without organization, as typed, and also with the dots as typed (1.3B is not 13B).
 *
 * A name may end in "=N", the tokens of its context length, if that is not the preset's. max_seq_len (may be
 * NULL) gets the N of the name that fits best; 0: it has none. It is left alone if nothing fits.
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
