/* SPDX-License-Identifier: Apache-2.0 */
/* Prints tables.c, what p4d knows without reading files: GPUs and presets. Run by make. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/gpu.h"
#include "model/presets.h"

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

static void print_preset(const p4d_preset *preset, const p4d_request *model)
{
	printf("\t{.preset = {");
	print_text("name", preset->name);
	print_text("aliases", preset->aliases);
	print_text("source", preset->source);
	printf("\n\t .parameters = %" PRIu64 "u, .exact = %" PRIu64 ", .rounding = %" PRIu64
	       "u, .global_batch = %" PRIu32 ", .seq_len = %" PRIu32 "},\n\t .model = {",
	       preset->parameters, preset->exact, preset->rounding, preset->global_batch, preset->seq_len);
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_is_set(model, (p4d_option)i))
			printf("\n\t .value[%d] = %" PRId64 ", .origin[%d] = %d,", i, model->value[i], i,
			       model->origin[i]);
	print_text("rope_scaling", model->rope_scaling);
	print_text("layer_pattern", model->layer_pattern);
	print_text("judged_part", model->judged_part);
	printf("}},\n");
}

static int print_presets(char **paths, int count, p4d_error *err)
{
	p4d_presets_row *row = calloc((size_t)count, sizeof(*row));
	int rc = row ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %d presets", count);

	for (int i = 0; rc == 0 && i < count; i++)
		rc = p4d_model_file_read(paths[i], &row[i], err);
	printf("\nconst p4d_presets_row p4d_presets_table[] = {\n");
	for (int i = 0; rc == 0 && i < count; i++)
		print_preset(&row[i].preset, &row[i].model);
	printf("};\nconst size_t p4d_presets_table_count = %d;\nconst char p4d_presets_names[][64] = {\n",
	       count);
	for (int i = 0; rc == 0 && i < count; i++)
		printf("\t\"%s\",\n", row[i].preset.name);
	printf("};\n");
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
