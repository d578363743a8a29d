/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader_internal.h"

/*
 * Many people name their own program sft.py or train_gpt.py. The reader's table marks such a name with
 * P4D_READ_COMMON. It identifies the program only together with the program's arguments. One argument that
 * the program's parser does not know disproves it, unless the name has a folder ("~examples/scripts/sft.py"):
 * then the program may be of a newer release, and p4d only advises.
 */
#define P4D_READ_COMMON '~'

/* known_arguments.c: lists of names separated by blanks; NULL after the last list. */
extern const char *const p4d_reader__of_trl[], *const p4d_reader__of_trl_rl[],
						   *const p4d_reader__of_examples[];

/* Updates the evidence with the name of an argument: "--name", or "--table.name" from a file. */
void p4d_reader__weigh(p4d_read_evidence *evidence, const p4d_reader *reader, const char *name);
/*
 * Weighs the arguments on a command line, starting at words[first], and the variables that replace
 * arguments. *left: number of words that may still be weighed in this script. If the command has more
 * words than that, its arguments prove nothing.
 */
p4d_read_evidence p4d_reader__weigh_command(p4d_shell *shell, const p4d_launch *launch,
					    const p4d_reader *reader, size_t first, unsigned *left);

/*
 * Whether the arguments are proven to be the program's own, or may become so by the program's configuration
 * file.
 */
static inline bool p4d_reader__may_be_proven(const p4d_read_evidence *evidence)
{
	return (evidence->typical || evidence->file) && !*evidence->foreign;
}
