/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader.h"

/*
 * An argument of a program. what: the option of p4d that means the same, P4D_READ_EXTRA(i) for the reader
 * itself, or P4D_READ_NOT_MODELLED. value: what a switch means, NULL if it is followed by its value. words:
 * pairs of the program's word and p4d's, where they differ; a word that is not among them is not known.
 */
typedef struct p4d_read_argument {
	const char *name;
	int what;
	const char *value;
	const char *const *words;
} p4d_read_argument;

enum { P4D_READ_NOT_MODELLED = -1 };
#define P4D_READ_EXTRA(i) (P4D_OPTIONS + (i))

typedef struct p4d_read_default {
	p4d_option option;
	const char *value;
} p4d_read_default;

/* One training program. */
typedef struct p4d_reader {
	const char *framework;          /* as in --framework, or as p4d names what it does not model yet */
	const char *programs[8];        /* file names or modules, with wildcards; NULL-terminated */
	const char *arguments_alone[4]; /* one of these means the same, whatever the program's name is */
	const p4d_read_argument *arguments; /* last: name NULL */
	const p4d_read_default *defaults;   /* last: value NULL; NULL: none */
	/* turns what was read into options: products, what several arguments say together. NULL: nothing to
	 * do */
	void (*finish)(p4d_reading *reading);
} p4d_reader;

extern const p4d_reader p4d_reader__megatron, p4d_reader__trainer;

/* reader.c, for finish: */
bool p4d_reader__set(const p4d_read_value *value);
/* The number a value is; 0: not read, or none. */
uint64_t p4d_reader__number(const p4d_read_value *value);
/* An option that follows from another value, which was written in the same place. */
void p4d_reader__put(p4d_reading *reading, p4d_option option, const p4d_read_value *place, const char *format,
		     ...) __attribute__((format(printf, 4, 5)));
/* An option that is given, but p4d cannot tell how. */
void p4d_reader__forget(p4d_reading *reading, p4d_option option);
/* What the framework does if nothing is said. */
void p4d_reader__put_default(p4d_reading *reading, p4d_option option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void p4d_reader__unknown(p4d_reading *reading, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* launch.c: what starts a program, and the program. */
typedef struct p4d_launch {
	const p4d_value *words; /* [0]: the program, script or module */
	size_t count;
	bool shell_script;              /* words are those of a script for a shell */
	bool shell_text;                /* words[0] is text for one */
	p4d_value nodes, gpus_per_node; /* as a launcher was told; length 0: not */
} p4d_launch;

/* Takes off srun, torchrun, python and their like. words must outlive the launch. */
p4d_launch p4d_reader__launch(const p4d_value *words, size_t count);
