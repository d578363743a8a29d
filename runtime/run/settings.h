/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config_tree.h"
#include "request/request.h"
#include "run/learning_rate.h"

enum { P4D_RESUME_AUTO, P4D_RESUME_MUST, P4D_RESUME_NEVER };
enum { P4D_SEQUENCES_CUT, P4D_SEQUENCES_PACKED };
enum { P4D_DEVICE_AUTO, P4D_DEVICE_CPU, P4D_DEVICE_CUDA };

enum { P4D_SETTING_TEXTS = 16 }; /* entries of an option that may be repeated, with the NULL at the end */

/* Who gave an option. */
typedef enum p4d_setting_source {
	P4D_SETTING_DEFAULT,
	P4D_SETTING_TYPED,
	P4D_SETTING_FILE /* the file of --config */
} p4d_setting_source;

/* The rows of settings.def. */
typedef enum p4d_setting {
#define INTEGER(field, ...) P4D_SETTING_##field,
#define DECIMAL(field, ...) P4D_SETTING_##field,
#define TEXT(field, ...) P4D_SETTING_##field,
#define TEXTS(field, ...) P4D_SETTING_##field,
#define SWITCH(field, ...) P4D_SETTING_##field,
#define CHOICE(field, ...) P4D_SETTING_##field,
#include "run/settings.def"
#undef INTEGER
#undef DECIMAL
#undef TEXT
#undef TEXTS
#undef SWITCH
#undef CHOICE
	P4D_SETTINGS
} p4d_setting;

/* The options of p4d-train. Texts point into argv and into `file`; NULL: not given. */
typedef struct p4d_settings {
	p4d_request request; /* options of options.def, as the user gave them */
	uint8_t source[P4D_SETTINGS];
	bool in_file[P4D_OPTIONS]; /* --config sets this option of the request */
	p4d_config file;
	/* number of sequences in one pass over --data; 0: unknown, because only --epochs needs it */
	uint64_t epoch_samples;
	bool help, version;
	const char *completion; /* the shell for which --completion prints; NULL: none */
	bool launched;          /* torchrun or mpirun started the process: ranks of a node share its cores */
	/* names an option that was given twice with different values; code 0: none was */
	p4d_error twice;
#define INTEGER(field, name, argument, least, most, otherwise, help) uint64_t field;
#define DECIMAL(field, name, argument, least, most, otherwise, help) double field;
#define TEXT(field, name, argument, help) const char *field;
#define TEXTS(field, name, argument, help) const char *field[P4D_SETTING_TEXTS];
#define SWITCH(field, name, help) uint64_t field;
#define CHOICE(field, name, list, otherwise, help) int64_t field;
#include "run/settings.def"
#undef INTEGER
#undef DECIMAL
#undef TEXT
#undef TEXTS
#undef SWITCH
#undef CHOICE
} p4d_settings;

/*
 * Reads a command line, and the file of --config, whose keys have the names of options. Typed options replace
 * options of the file. Fills in defaults that follow from other settings (min-lr, warmup, decay-steps). With
 * --epochs, p4d_settings_put_steps does that later. Errors: USAGE (also if --data or --steps is missing),
 * VALUE, IO; for the file with its line.
 */
int p4d_settings_parse(p4d_settings *settings, int argc, char *argv[], p4d_error *err);
/* Frees the file's values; texts from it are then invalid. */
void p4d_settings_close(p4d_settings *settings);

/* Sets the number of steps of --epochs, and the defaults that follow from it. Errors: VALUE. */
int p4d_settings_put_steps(p4d_settings *settings, uint64_t steps, p4d_error *err);

p4d_rate p4d_settings_rate(const p4d_settings *settings);

/*
 * The settings that decide how weights are updated, for checkpoints: "--lr=0.0003 --min-lr=3e-05 ...". A user
 * may change them when a run continues. Returns buf.
 */
const char *p4d_settings_update(const p4d_settings *settings, char *buf, size_t size);

/* A hash, below 2^52, of all settings that must be equal on all ranks, in addition to the plan. */
uint64_t p4d_settings_hash(const p4d_settings *settings);

/* Prints the text of --help. */
void p4d_settings_help(void);

/* Prints what a shell reads to complete options. Errors: USAGE (not bash, zsh or fish). */
int p4d_settings_completion(const char *shell, p4d_error *err);

/* The rows of settings.def. The next function: an option's default as users type it; "" if it has none. */
const p4d_option_info *p4d_settings_table(size_t *count);
const char *p4d_settings_default(const p4d_option_info *info, char *buf, size_t size);
