/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/player.h"
#include "rehearse/words.h"

/*
 * A real shell runs the job script. A directory at the start of PATH has links to this program under the
 * names srun, torchrun and so on. If such a launcher starts a training, it reports this to p4d, which ends
 * the script and rehearses the ranks. A launcher that starts any other program runs it once, unchanged.
 */

/* The command that runs a script with a shell: the one that the script's first line names, else bash. */
void p4d_shell_launch__words(p4d_words *words, const char *script, char *const *arguments);

/* Whether the command starts a shell. */
bool p4d_shell_launch__starts_shell(const p4d_words *words);

/* Creates the launchers in the player's directory, unless they exist, and puts that directory at the start
 * of the shell's PATH. Errors: IO, NO_MEMORY. */
int p4d_shell_launch__open(const p4d_player *player, p4d_words *words, p4d_error *err);
