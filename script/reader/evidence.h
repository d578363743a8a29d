/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader_internal.h"

/*
 * Many people call their own program sft.py or train_gpt.py. Such a name, which has P4D_READ_COMMON before it
 * in the table of its reader, says which program it is only together with the program's arguments. One
 * argument that the program's parser does not know disproves it, unless the name has a folder,
 * "~examples/scripts/sft.py": then the program may be of a newer release, and p4d only advises.
 */
#define P4D_READ_COMMON '~'

/* known_arguments.c: lists of names between blanks, NULL after the last. */
extern const char *const p4d_reader__of_trl[], *const p4d_reader__of_trl_rl[],
						   *const p4d_reader__of_examples[];

/* Takes an argument into account, "--name" or "--table.name". */
void p4d_reader__weigh(p4d_read_evidence *evidence, const p4d_reader *reader, const char *name);
/*
 * The arguments on a command line, from words[first] on, and the variables that stand for some. *left: how
 * many words may still be weighed in this script; a command with more proves nothing.
 */
p4d_read_evidence p4d_reader__weigh_command(p4d_shell *shell, const p4d_launch *launch,
					    const p4d_reader *reader, size_t first, unsigned *left);

/* Whether the arguments are the program's own. */
static inline bool p4d_reader__is_proven(const p4d_read_evidence *evidence)
{
	return evidence->typical && !*evidence->foreign;
}

/* The same, or its configuration file may still say so. */
static inline bool p4d_reader__may_be_proven(const p4d_read_evidence *evidence)
{
	return (evidence->typical || evidence->file) && !*evidence->foreign;
}
