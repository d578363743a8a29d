/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "request/request.h"
#include "run/learning_rate.h"

enum { P4D_RESUME_AUTO, P4D_RESUME_MUST, P4D_RESUME_NEVER };
enum { P4D_SEQUENCES_CUT, P4D_SEQUENCES_PACKED };
enum { P4D_DEVICE_AUTO, P4D_DEVICE_CPU, P4D_DEVICE_CUDA };

enum { P4D_SETTING_TEXTS = 16 }; /* that an option can be given; one more ends the list */

/* The command line of p4d-train. Texts point into argv; NULL: not given. */
typedef struct p4d_settings {
	p4d_request request; /* options.def, as typed */
	bool help, version;
	bool launched;   /* by torchrun or mpirun: ranks of a node share its cores */
	p4d_error twice; /* which were given twice with different values; code 0: none */
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
 * Reads a command line. Defaults that follow from other settings (min-lr, warmup, decay-steps) are filled in.
 * Errors: USAGE (also: --data or --steps is missing), VALUE.
 */
int p4d_settings_parse(p4d_settings *settings, int argc, char *argv[], p4d_error *err);

p4d_rate p4d_settings_rate(const p4d_settings *settings);

/* What all ranks must agree on besides the plan, as a number below 2^52. */
uint64_t p4d_settings_hash(const p4d_settings *settings);

/* Prints what --help says. */
void p4d_settings_help(void);

/* The rows of settings.def; a default as it would be typed, "" where there is none to name. */
const p4d_option_info *p4d_settings_table(size_t *count);
const char *p4d_settings_default(const p4d_option_info *info, char *buf, size_t size);
