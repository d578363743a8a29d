/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "shell/shell.h"

/* Memory that lives as long as the rehearsal. Zero before use. */
typedef struct p4d_words_memory {
	void **block;
	size_t count, room;
	bool spent; /* there was not enough memory */
} p4d_words_memory;

/* NULL: no memory. */
void *p4d_words__take(p4d_words_memory *memory, size_t size);
char *p4d_words__copy(p4d_words_memory *memory, const char *text, size_t length);
char *p4d_words__print(p4d_words_memory *memory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void p4d_words__free(p4d_words_memory *memory);

/* A word of a command. The memory owns text and reason. */
typedef struct p4d_word {
	char *text;
	const char *unknown; /* why a part of the text is unknown, such as "$DATA is not set"; NULL: no
			      * part is unknown */
	p4d_value value;     /* the same word in the form that readers use */
} p4d_word;

/* A command: its words, and the differences of its environment from this process's. */
typedef struct p4d_words {
	p4d_words_memory *memory;
	p4d_word *at;
	size_t count, room;
	char **variable; /* "NAME=VALUE"; "NAME": unset. The last entry of a name counts. */
	size_t variables, variables_room;
	char *directory; /* NULL: the directory of this process */
} p4d_words;

/* shell: knows why a part of the value is unknown; NULL: all of it is known. */
void p4d_words__add_value(p4d_words *words, p4d_shell *shell, p4d_value value);
void p4d_words__add(p4d_words *words, const char *text);
void p4d_words__set(p4d_words *words, const char *name, const char *value);
void p4d_words__assign(p4d_words *words, const char *assignment); /* "NAME=VALUE" */
void p4d_words__unset(p4d_words *words, const char *name);
/* The variables that an --export list sets: "ALL,MODEL=7b". */
void p4d_words__export(p4d_words *words, const char *list);

/* A variable in the command's environment; NULL: unset. */
const char *p4d_words__variable(const p4d_words *words, const char *name);

/* The words, NULL-terminated, for execvp. NULL: no memory. */
char **p4d_words__list(const p4d_words *words);
