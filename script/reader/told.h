/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader_internal.h"

/*
 * What users and sites say of a script's training. An option that is typed comes first, then a comment of the
 * script, "# p4d: program=trl finetune=lora", then p4d.conf, then what p4d reads.
 */
typedef struct p4d_read_told {
	const char
	    *program; /* as in request/programs.def, from an option or a comment; NULL: neither has it */
} p4d_read_told;

/* What an option or a comment says of the program. */
void p4d_reader__told(p4d_read_told *told, const p4d_reader_host *host, const char *text, size_t length);

/* How certainly a command is the training that is meant: its program only may be, a launcher starts it on all
 * GPUs, it has arguments of that program, or p4d or the site knows it. */
enum { P4D_TOLD_MAY_BE = 1, P4D_TOLD_LAUNCHED, P4D_TOLD_ARGUMENTS, P4D_TOLD_KNOWN };

/* Puts the program that the user or the site names in place of one that p4d does not know. Returns the
 * certainty; 0: nobody named one for this command. */
int p4d_reader__tell(const p4d_read_told *told, const p4d_reader_host *host, p4d_shell *shell,
		     const p4d_launch *launch, unsigned *left, p4d_read_program *program);

/* Puts the values of the script's comments in place of those that were read; name: the script's. */
void p4d_reader__take_comments(p4d_reading *reading, const p4d_reader_host *host, const char *name,
			       const char *text, size_t length);
