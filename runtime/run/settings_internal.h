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
 * Sets an option from a text. prefix: before its name in messages. For a text option, the pointer is stored.
 * Errors: VALUE; USAGE: a text that may be given several times was given too often.
 */
int p4d_settings__set(p4d_settings *settings, p4d_setting setting, const char *prefix, const char *text,
		      p4d_error *err);

/* Sets options that were not typed from the file of --config. Errors: USAGE, VALUE, IO. */
int p4d_settings__read_file(p4d_settings *settings, p4d_error *err);

/* Fills defaults, and checks which options go together. Errors: USAGE, VALUE. */
int p4d_settings__complete(p4d_settings *settings, p4d_error *err);
/* NULL: the setting has an effect; else what it requires to have one. */
const char *p4d_settings__lacks(const p4d_settings *settings, p4d_setting setting);

/*
 * p4d-train's option for another trainer's word, or what it has instead of an option: "--lr F". NULL: the
 * word is unknown. name: without dashes.
 */
const char *p4d_settings__other_word(const char *name);
