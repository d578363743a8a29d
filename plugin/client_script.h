/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The batch script, which is read with the user's rights. */
typedef struct p4d_client_script {
	char *text; /* NULL: there is no script (salloc), or the script came through a pipe, from which
		     * sbatch has already read it */
	size_t length;
	char *name; /* name for messages */
	bool is_file;
	size_t rest; /* length of all arguments, each with a blank before it */
	size_t words_length;
	char *words;            /* the command line, which contains the script's arguments */
	const char **arguments; /* NULL-terminated; NULL: they cannot be determined */
} p4d_client_script;

/* Reads only the text of the script. */
void p4d_client_script_open(p4d_client_script *script);
/* For srun: treats its command line as a script of one line. False: it cannot be read. */
bool p4d_client_script_of_srun(p4d_client_script *script);
/* Whether a p4d option may be among the script's arguments. */
bool p4d_client_script_has_option(const p4d_client_script *script);
/* Finds the script's name and arguments. */
void p4d_client_script_name(p4d_client_script *script);
void p4d_client_script_free(p4d_client_script *script);
