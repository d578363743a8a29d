/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/nvidia_smi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { MIB = 1 << 20, MOST = 64 };

typedef struct {
	const char *name;          /* of the model */
	uint64_t count;            /* number of GPUs */
	uint64_t total, sm;        /* bytes of each; compute capability times 10 */
	uint64_t used[MOST];       /* bytes */
	const char *query, *which; /* --query-gpu; -i, NULL: all GPUs */
	bool names, units, lists;  /* names of fields, units of their values; -L */
	const char *rows;          /* the name of another --query-... option, for which no rows are printed */
} smi;

static uint64_t variable(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

/* Reads the memory in use on each GPU. The rehearsed process wrote it to a file before it started this
 * process. */
static void read_used(smi *s)
{
	const char *report = getenv("P4D_REHEARSAL_REPORT");
	char path[4096];

	if (!report || snprintf(path, sizeof(path), "%s.used", report) >= (int)sizeof(path))
		return;
	FILE *in = fopen(path, "re");
	for (uint64_t i = 0; in && i < s->count && fscanf(in, "%" SCNu64, &s->used[i]) == 1;)
		i++;
	if (in)
		fclose(in);
}

/* The GPU's number in LIST ("0,2"); an identifier instead of a number means no GPU. */
static bool is_asked_for(const smi *s, uint64_t gpu)
{
	char digits[24];
	const size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, gpu);

	for (const char *at = s->which; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == length && !strncmp(at, digits, length))
			return true;
	return !s->which;
}

static void print_uuid(uint64_t gpu)
{
	const unsigned b = (unsigned)gpu + 1; /* as in NVML's stand-in */

	printf("GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b, b, b, b, b, b,
	       b, b, b, b, b, b, b, b, b, b);
}

typedef enum { NAME, INDEX, COUNT, UUID, BUS, TOTAL, USED, FREE, PERCENT, DRIVER, CAPABILITY } smi_value;

static const struct {
	const char *field;
	smi_value value;
	const char *unit;
} fields[] = {
    {"name", NAME, ""},
    {"gpu_name", NAME, ""},
    {"index", INDEX, ""},
    {"count", COUNT, ""},
    {"uuid", UUID, ""},
    {"gpu_uuid", UUID, ""},
    {"pci.bus_id", BUS, ""},
    {"gpu_bus_id", BUS, ""},
    {"memory.total", TOTAL, "MiB"},
    {"memory.used", USED, "MiB"},
    {"memory.free", FREE, "MiB"},
    {"utilization.gpu", PERCENT, "%"},
    {"utilization.memory", PERCENT, "%"},
    {"driver_version", DRIVER, ""},
    {"compute_cap", CAPABILITY, ""},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]), UNKNOWN = FIELDS };

static int field_of(const char *text, size_t length)
{
	int i = 0;

	while (i < FIELDS &&
	       (strlen(fields[i].field) != length || strncmp(fields[i].field, text, length) != 0))
		i++;
	return i;
}

static void print_value(const smi *s, uint64_t gpu, smi_value value)
{
	const uint64_t used = s->used[gpu] < s->total ? s->used[gpu] : s->total;

	switch (value) {
	case NAME:
		printf("%s", s->name);
		break;
	case INDEX:
		printf("%" PRIu64, gpu);
		break;
	case COUNT:
		printf("%" PRIu64, s->count);
		break;
	case UUID:
		print_uuid(gpu);
		break;
	case BUS:
		printf("00000000:%02X:00.0", (unsigned)gpu + 1);
		break;
	case TOTAL:
		printf("%" PRIu64, s->total / MIB);
		break;
	case USED:
		printf("%" PRIu64, used / MIB);
		break;
	case FREE:
		printf("%" PRIu64, s->total / MIB - used / MIB);
		break;
	case PERCENT:
		printf("0"); /* kernels take no time */
		break;
	case DRIVER:
		printf("595.45.04");
		break;
	case CAPABILITY:
		printf("%" PRIu64 ".%" PRIu64, s->sm / 10, s->sm % 10);
		break;
	}
}

/* A line of --query-gpu: the names of the fields, or the values of a GPU. */
static void print_line(const smi *s, const uint64_t *gpu)
{
	const char *comma = "";

	for (const char *at = s->query; *at; at += strcspn(at, ","), at += *at == ',') {
		at += strspn(at, " ");
		const size_t length = strcspn(at, ", ");
		const int i = field_of(at, length);
		const char *unit = i < UNKNOWN && s->units ? fields[i].unit : "";
		fputs(comma, stdout);
		if (!gpu)
			printf(*unit ? "%.*s [%s]" : "%.*s", (int)length, at, unit);
		else if (i == UNKNOWN)
			printf("[N/A]");
		else
			print_value(s, *gpu, fields[i].value);
		if (gpu && *unit)
			printf(" %s", unit);
		comma = ", ";
	}
	putchar('\n');
}

static void print_table(const smi *s)
{
	printf(
	    "+-----------------------------------------------------------------------------------------+\n"
	    "| NVIDIA-SMI 595.45.04              Driver Version: 595.45.04      CUDA Version: 13.2     |\n"
	    "|-----------------------------------------+------------------------+----------------------|\n"
	    "| GPU  Name                               |           Memory-Usage | GPU-Util             |\n"
	    "|=========================================+========================+======================|\n");
	for (uint64_t i = 0; i < s->count; i++)
		if (is_asked_for(s, i))
			printf("| %3" PRIu64 "  %-34.34s | %8" PRIu64 "MiB /%7" PRIu64
			       "MiB |       0%%             |\n",
			       i, s->name, s->used[i] / MIB, s->total / MIB);
	printf(
	    "+-----------------------------------------+------------------------+----------------------+\n");
}

/* The value of an option: after "=" in the same word, or the next word. NULL: this is another option. */
static const char *value_of(const char *option, char *argv[], int *at)
{
	const size_t length = strlen(option);

	if (strncmp(argv[*at], option, length) != 0)
		return NULL;
	if (argv[*at][length] == '=')
		return argv[*at] + length + 1;
	return argv[*at][length] || !argv[*at + 1] ? NULL : argv[++*at];
}

static void take_options(smi *s, int argc, char *argv[])
{
	for (int i = 1; i < argc; i++) {
		const char *value;
		if (!strcmp(argv[i], "-L") || !strcmp(argv[i], "--list-gpus"))
			s->lists = true;
		else if ((value = value_of("--query-gpu", argv, &i)))
			s->query = value;
		else if ((value = value_of("-i", argv, &i)) || (value = value_of("--id", argv, &i)))
			s->which = value;
		else if ((value = value_of("--format", argv, &i)))
			s->names = !strstr(value, "noheader"), s->units = !strstr(value, "nounits");
		else if (!strncmp(argv[i], "--query-", strlen("--query-")))
			s->rows = argv[i];
	}
}

bool p4d_nvidia_smi_is(int argc, char *argv[], int *status)
{
	const char *name = getenv("P4D_REHEARSAL_NAME");

	if (!name || !argc || strcmp(p4d_file_name(argv[0]), "nvidia-smi") != 0)
		return false;
	smi s = {.name = name,
		 .count = variable("P4D_REHEARSAL_GPUS"),
		 .total = variable("P4D_REHEARSAL_BYTES"),
		 .sm = variable("P4D_REHEARSAL_SM"),
		 .names = true,
		 .units = true};
	s.count = s.count < MOST ? s.count : MOST;
	read_used(&s);
	take_options(&s, argc, argv);
	if (s.query && s.names)
		print_line(&s, NULL);
	for (uint64_t i = 0; i < s.count; i++)
		if (s.query && is_asked_for(&s, i))
			print_line(&s, &i);
		else if (s.lists) {
			printf("GPU %" PRIu64 ": %s (UUID: ", i, name);
			print_uuid(i);
			puts(")");
		}
	if (!s.query && !s.lists && !s.rows)
		print_table(&s);
	*status = fflush(stdout) ? 1 : 0;
	return true;
}
