/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearsals/rehearsals.h"

/*
 * rehearsals_digest.c: hashes that detect editing, not malice. Whoever can write the files can also write the
 * record.
 */
typedef struct p4d_rehearsals_hash {
	uint64_t half[2];
} p4d_rehearsals_hash;

p4d_rehearsals_hash p4d_rehearsals__hash_begin(void);
void p4d_rehearsals__hash_add(p4d_rehearsals_hash *hash, const void *bytes, size_t length);

/* Identity of a file. For a large file, size and time replace the hash of the content. */
enum { P4D_REHEARSALS_CONTENT = 1 << 20 };
typedef struct p4d_rehearsals_file {
	uint64_t size, changed_ns;
	p4d_rehearsals_hash hash;
} p4d_rehearsals_file;

/* False: it is no regular file, or it cannot be read. content: also hash the content. */
bool p4d_rehearsals__file(const char *path, bool content, p4d_rehearsals_file *file);

/* Copies the path, below the directory unless it is absolute. False: too long. */
bool p4d_rehearsals__path(const char *directory, const char *path, char *buf, size_t size);

/* rehearsals_record.c: the text of a record, read line by line. */
enum { P4D_REHEARSALS_BYTES = 96 << 10 };
#define P4D_REHEARSALS_TITLE "p4d-rehearsal 2"
extern const char *const p4d_rehearsals__verdicts[P4D_REHEARSAL_VERDICTS];

typedef struct p4d_rehearsals_record {
	char *text; /* owned; cut into lines in place */
	const char *python;
	unsigned files, runs;
	struct {
		const char *path; /* absolute, or relative to the directory in which the program starts */
		p4d_rehearsals_file file;
	} file[P4D_REHEARSALS_FILES];
	p4d_rehearsal run[P4D_REHEARSALS_RUNS];
} p4d_rehearsals_record;

/* Parses a text in place. False: p4d did not write this text. */
bool p4d_rehearsals__parse(char *text, size_t length, p4d_rehearsals_record *record);

/* Opens and parses the record of a key. False: there is none, or it cannot be trusted. The caller frees
 * record->text in both cases. */
bool p4d_rehearsals__open(const char *key, p4d_rehearsals_record *record);

/*
 * Whether all files of the record are unchanged. p4d reads a file again if its time is another one, and adds
 * its bytes to *reread. Above P4D_REHEARSALS_REREAD bytes the record counts as outdated, so that sbatch does
 * not wait.
 */
enum { P4D_REHEARSALS_REREAD = 4 << 20 };
bool p4d_rehearsals__is_current(const p4d_rehearsals_record *record, const char *directory, uint64_t *reread);
