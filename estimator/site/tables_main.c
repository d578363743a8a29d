/* SPDX-License-Identifier: Apache-2.0 */
/* Prints tables.c, p4d's built-in data: GPUs and presets. make runs this. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "model/presets.h"

/* Prints a string literal, with octal escapes for characters that could end or change it. */
static void print_literal(const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?')
			printf("\\%03o", c);
		else
			putchar(c);
	}
}

/* Prints a member that is a text. */
static void print_text(const char *name, const char *text)
{
	printf("\n\t .%s = \"", name);
	print_literal(text);
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
	printf("\n\t .multiprocessors = %d, .nvlink_domain = %d, .gpus_per_node = %d, .sm = %d},\n",
	       gpu->multiprocessors, gpu->nvlink_domain, gpu->gpus_per_node, gpu->sm);
}

static int print_gpus(const char *path, p4d_error *err)
{
	p4d_gpus gpus;

	if (p4d_gpus_read(&gpus, path, err) < 0)
		return -1;
	printf("\nconst p4d_gpu p4d_gpu_table[] = {\n");
	for (size_t i = 0; i < gpus.count; i++)
		print_gpu(&gpus.gpu[i]);
	printf("};\nconst size_t p4d_gpu_table_count = %zu;\n", gpus.count);
	p4d_gpus_free(&gpus);
	return 0;
}

/*
 * Appends a text with its NUL to the block of texts. An empty text comes first, because many members are
 * empty.
 */
static uint32_t add_text(uint32_t *used, const char *text)
{
	const uint32_t at = *used;

	if (!*text)
		return 0;
	printf("\t\"");
	print_literal(text);
	printf("\\000\"\n");
	*used += (uint32_t)strlen(text) + 1;
	return at;
}

/* Prints names before all other texts, because every search reads all names. */
static void print_texts(const p4d_presets_row *row, p4d_presets_packed *packed, int count)
{
	uint32_t used = 1;

	printf("\nconst char p4d_presets_texts[] =\n\t\"\\000\"\n");
	for (int i = 0; i < count; i++)
		packed[i].name = add_text(&used, row[i].preset.name);
	for (int i = 0; i < count; i++)
		packed[i].aliases = add_text(&used, row[i].preset.aliases);
	for (int i = 0; i < count; i++) {
		packed[i].source = add_text(&used, row[i].preset.source);
		packed[i].rope_scaling = add_text(&used, row[i].model.rope_scaling);
		packed[i].layer_pattern = add_text(&used, row[i].model.layer_pattern);
		packed[i].judged_part = add_text(&used, row[i].model.judged_part);
	}
	printf("\t;\n");
}

static void print_values(const p4d_presets_row *row, p4d_presets_packed *packed, int count)
{
	uint32_t used = 0;

	printf("\nconst uint8_t p4d_presets_options[] = {\n");
	for (int i = 0; i < count; i++) {
		packed[i].first = used;
		for (int o = 0; o < P4D_OPTIONS; o++)
			if (p4d_is_set(&row[i].model, (p4d_option)o))
				used += (uint32_t)(printf("%d,", o) > 0);
		packed[i].count = used - packed[i].first;
		printf("\n");
	}
	printf("};\nconst int64_t p4d_presets_values[] = {\n");
	for (int i = 0; i < count; i++) {
		for (int o = 0; o < P4D_OPTIONS; o++)
			if (p4d_is_set(&row[i].model, (p4d_option)o))
				printf("%" PRId64 ",", row[i].model.value[o]);
		printf("\n");
	}
	printf("};\n");
}

static void print_packed(const p4d_preset *preset, const p4d_presets_packed *at)
{
	printf("\t{%u, %u, %u, %u, %u, %u, %u, %u, %" PRIu32 "u, %" PRIu32 "u, %" PRIu64 "u, %" PRIu64
	       "u, %" PRIu64 "u},\n",
	       at->name, at->aliases, at->source, at->rope_scaling, at->layer_pattern, at->judged_part,
	       at->first, at->count, preset->global_batch, preset->seq_len, preset->parameters, preset->exact,
	       preset->rounding);
}

static int print_presets(char **paths, int count, p4d_error *err)
{
	p4d_presets_row *row = calloc((size_t)count, sizeof(*row));
	p4d_presets_packed *packed = calloc((size_t)count, sizeof(*packed));
	int rc = row && packed ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %d presets", count);

	_Static_assert(P4D_OPTIONS <= UINT8_MAX, "options are bytes in the table");
	for (int i = 0; rc == 0 && i < count; i++)
		rc = p4d_model_file_read(paths[i], &row[i], err);
	if (rc == 0) {
		print_texts(row, packed, count);
		print_values(row, packed, count);
		printf("\nconst p4d_presets_packed p4d_presets_table[] = {\n");
		for (int i = 0; i < count; i++)
			print_packed(&row[i].preset, &packed[i]);
		printf("};\nconst size_t p4d_presets_table_count = %d;\n", count);
	}
	free(packed);
	free(row);
	return rc;
}

int main(int argc, char **argv)
{
	p4d_error err;

	if (argc < 3) {
		fprintf(stderr, "usage: tables GPUS.JSON PRESET.JSON...\n");
		return 1;
	}
	printf("/* Made from gpus.json and models/. */\n#include \"gpu/gpu_table.h\"\n"
	       "#include \"model/presets.h\"\n");
	if (print_gpus(argv[1], &err) < 0 || print_presets(argv + 2, argc - 2, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
