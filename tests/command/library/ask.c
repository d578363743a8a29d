/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries libp4d.so as another program would, using only its header.
 *
 *     ask [--script FILE] [--directory DIR] [--environment NAME=VALUE] [--get POINTER] COMMAND [WORD...]
 *
 * prints the JSON of the reply, or the member of it that --get names. The text of FILE replaces the last word
 * of the command line. The exit status is the command's.
 */
#include <p4d.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[8 << 20];

/* Reads a file that ends before the limit. */
static size_t read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	size_t length = file ? fread(text, 1, sizeof(text), file) : 0;

	if (!file) {
		perror(path);
		exit(126);
	}
	fclose(file);
	return length;
}

static int print_member(const p4d_reply *reply, const char *pointer)
{
	const char *word = p4d_reply_text(reply, pointer);
	double number;

	if (word)
		return puts(word) < 0;
	if (p4d_reply_number(reply, pointer, &number) == 0)
		return printf("%.17g\n", number) < 0;
	return puts("(none)") < 0;
}

int main(int argc, char *argv[])
{
	const char *script = NULL, *directory = NULL, *variables[2] = {NULL, NULL}, *pointer = NULL;
	int at = 1, failed = 0;

	for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2)
		if (!strcmp(argv[at], "--script"))
			script = argv[at + 1];
		else if (!strcmp(argv[at], "--directory"))
			directory = argv[at + 1];
		else if (!strcmp(argv[at], "--environment"))
			variables[0] = argv[at + 1];
		else
			pointer = argv[at + 1];
	p4d_query *query = p4d_query_new(argv[at]);
	while (++at < argc)
		failed |= p4d_query_word(query, argv[at]);
	if (script)
		failed |= p4d_query_script(query, script, text, read_file(script));
	if (directory)
		failed |= p4d_query_directory(query, directory);
	if (variables[0])
		failed |= p4d_query_environment(query, variables);
	p4d_reply *reply = p4d_query_run(query), *again = p4d_query_run(query);
	if (failed || !reply || !again || strcmp(p4d_reply_json(reply), p4d_reply_json(again)) != 0)
		return 125;
	if (pointer)
		print_member(reply, pointer);
	else
		puts(p4d_reply_json(reply));
	const int code = p4d_reply_code(reply);
	p4d_reply_free(reply);
	p4d_reply_free(again);
	p4d_query_free(query);
	return code;
}
