/* SPDX-License-Identifier: Apache-2.0 */
/* Passes the files and folders of the command line to a fuzz target, in builds without libFuzzer. With
 * libFuzzer (clang -fsanitize=fuzzer,address,undefined fuzz_X.c ...), leave this file out. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_LIMIT = 1024 * 1024 };

static unsigned replayed;

static int replay_file(const char *path)
{
	FILE *in = fopen(path, "rb");
	uint8_t *data = malloc(INPUT_LIMIT);

	if (!in || !data) {
		perror(path);
		free(data);
		if (in)
			fclose(in);
		return -1;
	}
	size_t size = fread(data, 1, INPUT_LIMIT, in);
	fclose(in);
	/* a block of exactly this size, so that sanitizers find reads beyond it */
	uint8_t *exact = malloc(size ? size : 1);
	if (exact) {
		memcpy(exact, data, size);
		/* also passes beginnings of the file */
		for (size_t part = 0; part <= 8; part++)
			LLVMFuzzerTestOneInput(exact, size * part / 8);
		replayed++;
	}
	free(exact);
	free(data);
	return exact ? 0 : -1;
}

static int replay(const char *path)
{
	struct stat status;
	int rc = 0;

	if (stat(path, &status) < 0) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(status.st_mode))
		return replay_file(path);
	DIR *dir = opendir(path);
	if (!dir) {
		perror(path);
		return -1;
	}
	for (struct dirent *entry; rc == 0 && (entry = readdir(dir));) {
		char name[4096];
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		rc = replay(name);
	}
	closedir(dir);
	return rc;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (replay(argv[i]) < 0)
			return 1;
	printf("%u inputs\n", replayed);
	return replayed == 0;
}
