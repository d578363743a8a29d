/* SPDX-License-Identifier: Apache-2.0 */
#include "doubles/slurm/plans.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/guard.h"
#include "guard/verdict.h"
#include "job/export.h"
#include "model/model.h"

static char directory[256];

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static const char *datadir(void)
{
	static char path[4096];
	const char *dir = getenv("P4D_TEST_DATADIR");

	if (!realpath(dir ? dir : "etc", path))
		die("set P4D_TEST_DATADIR to the directory with gpus.json");
	return path;
}

static const char *conf_path(void)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/p4d.conf", directory);
	return path;
}

#define SECTION(name, more) \
	"partition " name " {\n\tgpu = { \"h100-80gb\" }\n\tgpus_per_node = 8\n" more "}\n"

void site_write(const char *text)
{
	static const char usual[] = "mode = enforce\nlog = all\n" SECTION(
	    "h100", "\tdefault = true\n") "partition a100 {\n\tgpu = { \"a100-40gb\" }\n\tgpus_per_node = "
					  "8\n}\n" SECTION("warn", "\tmode = warn\n")
					      SECTION("observe",
						      "\tmode = observe\n") SECTION("off", "\tmode = off\n")
						  SECTION("strict", "\trequire_plan = true\n") SECTION(
						      "lenient", "\tallow_override = true\n") "version = 1\n";
	char next[320];

	/* replaces the file atomically, as editors do */
	snprintf(next, sizeof(next), "%s.next", conf_path());
	FILE *file = fopen(next, "w");
	if (!file)
		die("cannot write %s", next);
	if (text)
		fputs(text, file);
	else
		fprintf(file, "data = \"%s\"\n%s", datadir(), usual);
	fclose(file);
	chmod(next, 0644);
	if (rename(next, conf_path()) < 0)
		die("cannot replace %s", conf_path());
}

const char *site_make(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "%s/p4d-fakehost.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(directory))
		die("cannot create %s", directory);
	site_write(NULL);
	return directory;
}

void site_remove(void)
{
	char kept[320];

	unlink(conf_path());
	snprintf(kept, sizeof(kept), "%s.good", conf_path());
	unlink(kept);
	rmdir(directory);
}

job_desc_msg_t *job_plain(const char *partition)
{
	job_desc_msg_t *desc = fakehost_desc();

	fakehost_set(&desc->name, "job.sh");
	fakehost_set(&desc->partition, partition);
	fakehost_set(&desc->tres_per_node, "gres:gpu:8");
	fakehost_set(&desc->script, "#!/bin/sh\nsrun -n8 p4d-train\n");
	desc->min_nodes = desc->max_nodes = 1;
	fakehost_env(desc, "PATH", "/usr/bin:/bin");
	fakehost_env(desc, "SLURM_GET_USER_ENV", "1");
	return desc;
}

static void export_one(const char *name, const char *value, void *context)
{
	char copy[80];

	snprintf(copy, sizeof(copy), "SLURM_SPANK_%s", name);
	fakehost_env(context, name, value);
	fakehost_env(context, copy, value);
	fakehost_spank_env(context, name, value);
}

/* Sets an option in the three places where Slurm puts it. */
static void set_option(job_desc_msg_t *desc, const char *option, const char *value)
{
	char name[80], copy[100];

	snprintf(name, sizeof(name), "_SLURM_SPANK_OPTION_p4d_p4d_%s", option);
	for (char *at = name; *at; at++)
		*at = *at == '-' ? '_' : *at;
	snprintf(copy, sizeof(copy), "SLURM_SPANK_%s", name);
	fakehost_env(desc, name, value);
	fakehost_env(desc, copy, value);
	fakehost_spank_env(desc, name, value);
}

static void read_assignments(const char *assignments, p4d_request *request, job_desc_msg_t *desc)
{
	char text[512], *save = NULL;
	p4d_error err;

	snprintf(text, sizeof(text), "%s", assignments);
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(word, '=');
		*equals = '\0';
		int option = p4d_request_option_find(word);
		if (option < 0 ||
		    p4d_request_set(request, (p4d_option)option, equals + 1, P4D_BY_USER, &err) < 0)
			die("%s=%s is not an option", word, equals + 1);
		set_option(desc, word, equals + 1);
	}
}

static const p4d_cluster *no_cluster(void *unused)
{
	(void)unused;
	return NULL;
}

job_desc_msg_t *job_planned(const char *partition, const char *assignments)
{
	return job_planned_on(partition, 1, assignments);
}

job_desc_msg_t *job_planned_on(const char *partition, uint32_t nodes, const char *assignments)
{
	job_desc_msg_t *desc = job_plain(partition);
	p4d_request request = {0};
	p4d_preset preset = {.global_batch = 0};
	p4d_verdict verdict;
	p4d_error err = {.text = ""};
	p4d_job job = {.partition = "h100", .gres = "gpu:8", .min_nodes = nodes, .max_nodes = nodes};
	p4d_site *site = p4d_site_load(conf_path(), datadir(), false, 0, &err);

	desc->min_nodes = desc->max_nodes = nodes;

	if (!site)
		die("%s", err.text);
	read_assignments(assignments, &request, desc);
	if (p4d_model_resolve(&request, datadir(), &preset, &err) < 0)
		die("%s", err.text);
	p4d_guard__complete(site, &job, no_cluster, NULL, preset.global_batch, true, &request, &verdict);
	if (!verdict.plan[0])
		die("no plan for %s: %s", assignments, verdict.messages ? verdict.message[0].text : "");
	p4d_export(&request, &verdict.layout, verdict.plan, export_one, desc);
	p4d_site_free(site);
	return desc;
}
