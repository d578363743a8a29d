/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/player.h"
#include "rehearse/words.h"

/*
 * A job script that a shell runs for real: srun, torchrun and other launchers are then this program under
 * their names, in front of PATH. One that starts a training tells p4d, which ends the script and plays the
 * ranks; another program runs once, as itself.
 */

/* The words of the shell that runs a script: what its first line names, else bash. */
void p4d_shell_launch__words(p4d_words *words, const char *script, char *const *arguments);

/* Whether the words start a shell. */
bool p4d_shell_launch__starts_shell(const p4d_words *words);

/* Makes the launchers in the player's directory, unless they are there, and puts them in front of what the
 * words' shell finds. Errors: IO, NO_MEMORY. */
int p4d_shell_launch__open(const p4d_player *player, p4d_words *words, p4d_error *err);
