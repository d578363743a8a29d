/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/arguments.h"
#include "run/settings.h"

extern const p4d_option_info p4d_settings__table[P4D_SETTINGS];

int64_t p4d_settings__default(const p4d_option_info *info);
/* Whether p4d-train accepts an option of options.def. */
bool p4d_settings__takes(p4d_option option);

/* Returns a setting's value as 64 bits, whatever its type. */
int64_t p4d_settings__get(const p4d_settings *settings, p4d_setting setting);
void p4d_settings__put(p4d_settings *settings, p4d_setting setting, int64_t value);

/*
 * Sets an option from a text. prefix: what messages print before the option's name. Stores the pointer of a
 * text, not a copy. Errors: VALUE; USAGE: a text that may be given several times was given too often.
 */
int p4d_settings__set(p4d_settings *settings, p4d_setting setting, const char *prefix, const char *text,
		      p4d_error *err);

/* Sets the options that were not typed from the file of --config. Errors: USAGE, VALUE, IO. */
int p4d_settings__read_file(p4d_settings *settings, p4d_error *err);

/* Fills defaults, and checks which options go together. Errors: USAGE, VALUE. */
int p4d_settings__complete(p4d_settings *settings, p4d_error *err);
/* Returns what a setting requires to have an effect; NULL: it has one. */
const char *p4d_settings__lacks(const p4d_settings *settings, p4d_setting setting);

/*
 * Returns p4d-train's option for a word of another trainer, as "--lr F", or what p4d-train has instead of an
 * option. NULL: the word is unknown. name: without dashes.
 */
const char *p4d_settings__other_word(const char *name);
