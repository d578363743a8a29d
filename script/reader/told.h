/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader_internal.h"

/*
 * What users and sites state about a script's training. In order of priority: a typed option, a comment of
 * the script, "# p4d: program=trl finetune=lora", p4d.conf, and then what p4d reads itself.
 */
typedef struct p4d_read_told {
	const char *program; /* a name of request/programs.def, from an option or a comment; NULL: neither
			      * names one */
	bool adapts;         /* an option or a comment says finetune=lora or qlora */
} p4d_read_told;

/* Finds the program that an option or a comment names, and whether it trains adapters. */
void p4d_reader__told(p4d_read_told *told, const p4d_reader_host *host, const char *text, size_t length);

/*
 * How certain it is that a command is the training that the user named. MAY_BE: nothing contradicts it.
 * LAUNCHED: a launcher starts it on all GPUs. ARGUMENTS: it has arguments of that program. KNOWN: p4d or
 * the site knows its program.
 */
enum { P4D_TOLD_MAY_BE = 1, P4D_TOLD_LAUNCHED, P4D_TOLD_ARGUMENTS, P4D_TOLD_KNOWN };

/* The name that a user may give for a command with an unknown name, if its arguments are those of this
 * reader's programs. */
const char *p4d_reader__program_like(const p4d_reader *reader, const p4d_launch *launch);

/*
 * Replaces a program that p4d does not know by the one that the user or the site names. Returns the
 * certainty; 0: nobody named a program for this command.
 */
int p4d_reader__tell(const p4d_read_told *told, const p4d_reader_host *host, p4d_shell *shell,
		     const p4d_launch *launch, unsigned *left, p4d_read_program *program);

/* Replaces values that were read by those in the script's comments. name: the script's name. */
void p4d_reader__take_comments(p4d_reading *reading, const p4d_reader_host *host, const char *name,
			       const char *text, size_t length);
