/* SPDX-License-Identifier: Apache-2.0 */
/* Prints gpu_table.c for a gpus.json. Run by make. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_file.h"
#include "gpu/gpu.h"

enum { MAX_FILE = 1024 * 1024 };

/* A member as a string literal; octal escapes for what could end or change the literal. */
static void print_text(const char *name, const char *text)
{
	printf("\n\t .%s = \"", name);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?')
			printf("\\%03o", c);
		else
			putchar(c);
	}
	printf("\",");
}

static void print_gpu(const p4d_gpu *gpu)
{
	printf("\t{");
	print_text("name", gpu->name);
	print_text("label", gpu->label);
	print_text("aliases", gpu->aliases);
	print_text("source", gpu->source);
	print_text("status", gpu->status);
	printf("\n\t .usable_bytes = %" PRIu64 "u, .reported_bytes = %" PRIu64 "u, .nominal_bytes = %" PRIu64
	       "u,",
	       gpu->usable_bytes, gpu->reported_bytes, gpu->nominal_bytes);
#define RATE(member, name, most, unit) printf("\n\t ." #member " = %.17g,", gpu->member);
	P4D_GPU_RATES(RATE)
#undef RATE
	printf("\n\t .multiprocessors = %d, .sm = %d},\n", gpu->multiprocessors, gpu->sm);
}

int main(int argc, char **argv)
{
	p4d_gpus gpus;
	p4d_error err;
	size_t length;

	if (argc != 2) {
		fprintf(stderr, "usage: gputable GPUS.JSON\n");
		return 1;
	}
	char *text = p4d_text_read(argv[1], MAX_FILE, &length, &err);
	if (!text || p4d_gpus__parse(&gpus, text, length, argv[1], &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		free(text);
		return 1;
	}
	printf("/* Made from gpus.json. */\n#include \"gpu/gpu_table.h\"\n\nconst p4d_gpu p4d_gpu_table[] = "
	       "{\n");
	for (size_t i = 0; i < gpus.count; i++)
		print_gpu(&gpus.gpu[i]);
	printf("};\nconst size_t p4d_gpu_table_count = sizeof(p4d_gpu_table) / sizeof(*p4d_gpu_table);\n");
	p4d_gpus_free(&gpus);
	free(text);
	return fflush(stdout) == 0 ? 0 : 1;
}
