/* SPDX-License-Identifier: Apache-2.0 */
/* p4d conf, for administrators: checks whether p4d.conf is valid, prints what it means, and compares it
 * with the cluster. */
#include <fnmatch.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/choice.h"
#include "base/text.h"
#include "command.h"
#include "report/margins.h"
#include "report/report.h"
#include "report/table.h"
#include "request/framework.h"

enum { NOTES = 256 };

/* Differences between p4d.conf and the cluster, which are notes and never errors. */
typedef struct notes {
	unsigned count;
	char text[NOTES][256];
} notes;

__attribute__((format(printf, 2, 3))) static void note(notes *n, const char *format, ...)
{
	va_list args;

	if (n->count == NOTES)
		return;
	va_start(args, format);
	vsnprintf(n->text[n->count++], sizeof(n->text[0]), format, args);
	va_end(args);
}

static const char *gpu_names(const p4d_site_partition *partition, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);

	for (unsigned i = 0; partition && i < partition->gpus; i++)
		p4d_text_entry(&text, ",", "%s", partition->gpu[i]->name);
	return text.length ? buf : "-";
}

/* A row of the output: jobs of a partition, or the job that was asked for. */
typedef struct subject {
	p4d_site_job job;
	const p4d_site_partition *partition; /* the partition's section in p4d.conf; NULL: none */
	p4d_policy policy;
} subject;

/* The row for all partitions that no section names. Patterns of p4d.conf also match this name. */
static const char others[] = "(others)";

static subject subject_of(const p4d_site *site, const p4d_site_job *job)
{
	subject s = {.job = *job};
	char first[64];

	if (job->partition) {
		snprintf(first, sizeof(first), "%.*s", (int)strcspn(job->partition, ","), job->partition);
		s.partition = p4d_site_partition_of(site, first);
	}
	const p4d_gpu *gpu = p4d_site_least_gpu(s.partition);
	s.job.gpu = gpu ? gpu->name : NULL;
	s.policy = p4d_site_policy(site, &s.job);
	return s;
}

/* The mode as text: "observe", "observe (enforce from 2026-12-01)", "exempt". */
static const char *mode_text(const p4d_policy *policy, char *buf, size_t size)
{
	const time_t from = (time_t)policy->from;
	struct tm day;

	if (policy->exempt)
		snprintf(buf, size, "exempt");
	else if (!policy->from || !localtime_r(&from, &day))
		snprintf(buf, size, "%s", p4d_site_mode_name(policy->mode));
	else
		snprintf(buf, size, "%s (%s from %04d-%02d-%02d)", p4d_site_mode_name(policy->mode),
			 p4d_site_mode_name(policy->later), day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
	return buf;
}

static const char *rewrite_name(p4d_rewrite rewrite)
{
	static const char *const names[] = {"off", "unset", "all"};

	return names[rewrite];
}

static const char *scripts_name(p4d_scripts scripts)
{
	static const char *const names[] = {"ignore", "advise", "judge"};

	return names[scripts];
}

static void add_row(p4d_table *table, const subject *s)
{
	const p4d_site_partition *partition = s->partition;
	const p4d_policy *policy = &s->policy;
	const p4d_gpu *gpu = p4d_site_least_gpu(partition);
	char names[256], size[P4D_SIZE_TEXT];

	p4d_table_cell(table, P4D_PLAIN, "%s%s", s->job.partition ? s->job.partition : others,
		       partition && partition->is_default ? " *" : "");
	p4d_table_cell(table, P4D_PLAIN, "%s", gpu_names(partition, names, sizeof(names)));
	p4d_table_cell(table, P4D_PLAIN, "%s", gpu ? p4d_report_gib(gpu->usable_bytes, size) : "-");
	if (partition && partition->gpus_per_node)
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu32, partition->gpus_per_node);
	else
		p4d_table_cell(table, P4D_PLAIN, "-");
	p4d_table_cell(table, P4D_PLAIN, "%s", mode_text(policy, names, sizeof(names)));
	p4d_table_cell(table, P4D_PLAIN, "%s", scripts_name(policy->scripts));
	p4d_table_cell(table, P4D_PLAIN, "%.2f", policy->safe);
	for (int i = P4D_FRAMEWORKS; i-- > 0;)
		p4d_table_cell(table, P4D_PLAIN, "%.2f", p4d_site_policy_limit(policy, i));
	p4d_table_cell(table, P4D_PLAIN, "%s", rewrite_name(policy->rewrite));
	p4d_table_cell(table, P4D_PLAIN, "%s", policy->require_plan ? "yes" : "no");
}

static bool asks_for_a_job(const p4d_site_job *job)
{
	return job->partition || job->qos || job->account || job->user || job->reservation;
}

/* Iterates over the rows: the requested job, or every partition if no job was requested. Returns false if
 * there are no more rows. */
static bool next_subject(const p4d_site *site, const p4d_site_job *asked, unsigned i, subject *s)
{
	const p4d_site_partition *partition = p4d_site_partition_at(site, i);

	if (asks_for_a_job(asked)) {
		p4d_site_job job = *asked;
		const p4d_site_partition *usual = p4d_site_partition_of(site, NULL);
		if (!job.partition && usual)
			job.partition = usual->name;
		*s = subject_of(site, &job);
		return i == 0;
	}
	if (!partition && i && !p4d_site_partition_at(site, i - 1))
		return false;
	*s = subject_of(site, &(p4d_site_job){.partition = partition ? partition->name : others});
	return true;
}

static int print_policies(const p4d_site *site, const p4d_site_job *asked, p4d_error *err)
{
	char limit[P4D_FRAMEWORKS][32];
	p4d_table table = {0};
	subject s;

	p4d_table_columns(&table, {"partition", P4D_LEFT}, {"gpu", P4D_LEFT}, {"usable GiB", P4D_RIGHT},
			  {"gpus/node", P4D_RIGHT}, {"mode", P4D_LEFT}, {"scripts", P4D_LEFT},
			  {"safe", P4D_RIGHT});
	for (int i = P4D_FRAMEWORKS; i-- > 0;) {
		snprintf(limit[i], sizeof(limit[i]), "limit %s", p4d_frameworks[i]->name);
		p4d_table_column(&table, limit[i], P4D_RIGHT);
	}
	p4d_table_columns(&table, {"rewrite", P4D_LEFT}, {"require_plan", P4D_LEFT});
	for (unsigned i = 0; next_subject(site, asked, i, &s); i++)
		add_row(&table, &s);
	return p4d_table_print(&table, true, err);
}

/* Whether a GRES type can mean a GPU of the partition: "a100" is an alias of several GPUs. */
static bool can_be(const p4d_site_partition *partition, const p4d_gpu *gpu, const char *type)
{
	for (unsigned i = 0; i < partition->gpus; i++)
		if (!strcmp(partition->gpu[i]->name, gpu->name) ||
		    p4d_choice_index(partition->gpu[i]->aliases, ',', type, strlen(type)) >= 0)
			return true;
	return false;
}

/* Compares one row of the cluster with the section of its partition. */
static void compare_row(const p4d_site *site, const p4d_partition_facts *row, notes *n)
{
	const p4d_site_partition *partition = p4d_site_partition_of(site, row->partition);
	unsigned ambiguous = 1;
	const p4d_gpu *gpu = row->gpu_type[0] ? p4d_site_gpu(site, row->gpu_type, &ambiguous) : NULL;
	char names[128];

	if (!row->gpus_per_node)
		return;
	if (!partition || !partition->gpus) {
		if (!row->gpu_type[0])
			note(n,
			     "partition %s has GPUs without a type; without `partition %s { gpu = \"...\" }` "
			     "its jobs "
			     "cannot be checked",
			     row->partition, row->partition);
		else if (!gpu)
			note(n,
			     "partition %s has GPUs of the unknown type \"%s\"; add `partition %s { gpu = "
			     "\"...\" }`",
			     row->partition, row->gpu_type, row->partition);
		else
			note(n,
			     "partition %s has no gpu in p4d.conf; because of its GRES type \"%s\", p4d "
			     "assumes %s%s",
			     row->partition, row->gpu_type, gpu->name,
			     ambiguous > 1 ? ", which has the least memory of several GPUs; set gpu in the "
					     "partition's section"
					   : "");
		return;
	}
	if (gpu && !can_be(partition, gpu, row->gpu_type))
		note(n, "partition %s: p4d.conf says %s, the cluster's GRES type \"%s\" looks like %s",
		     row->partition, gpu_names(partition, names, sizeof(names)), row->gpu_type, gpu->name);
	if (partition->gpus_per_node && partition->gpus_per_node != row->gpus_per_node)
		note(n, "partition %s: p4d.conf says %" PRIu32 " GPUs per node, the cluster %" PRIu32,
		     row->partition, partition->gpus_per_node, row->gpus_per_node);
}

static bool in_cluster(const p4d_cluster *cluster, const char *partition, bool with_gpus)
{
	for (size_t i = 0; i < cluster->count; i++)
		if ((cluster->row[i].gpus_per_node || !with_gpus) &&
		    !fnmatch(partition, cluster->row[i].partition, 0))
			return true;
	return false;
}

static void compare_cluster(const p4d_site *site, const p4d_cluster *cluster, notes *n)
{
	const p4d_site_partition *partition;

	for (size_t i = 0; i < cluster->count; i++)
		compare_row(site, &cluster->row[i], n);
	for (unsigned i = 0; (partition = p4d_site_partition_at(site, i)); i++) {
		if (partition->gpus && !in_cluster(cluster, partition->name, true))
			note(n,
			     "partition %s: p4d.conf names a GPU for this partition, but the cluster has no "
			     "partition of this name with GPUs",
			     partition->name);
		else if (!in_cluster(cluster, partition->name, false))
			note(n,
			     "partition %s: p4d.conf has a section, but the cluster no nodes of a partition "
			     "of "
			     "that name",
			     partition->name);
	}
}

/*
 * slurmctld and sbatch refuse a file that others may write, with the reason in *err. Here that is a note and
 * not an error, because an owner may check a draft.
 */
static void compare_trust(const p4d_line *line, const char *path, notes *n, p4d_error *err)
{
	const struct passwd *slurm = getpwnam("slurm");
	const bool is_draft = line->operands || line->conf;
	struct stat st;
	p4d_error why;
	p4d_site *site =
	    p4d_site_load(path, p4d_line_data_directory(), true, slurm ? slurm->pw_uid : getuid(), &why);

	if (!site) {
		note(n, "slurmctld and sbatch will not use the file: %.200s", why.text);
		if (!is_draft || stat(path, &st) < 0 || st.st_uid != getuid() ||
		    st.st_mode & (S_IWGRP | S_IWOTH))
			*err = why;
	}
	p4d_site_free(site);
}

static bool one_is(p4d_site_named of, const char *in_conf, const char *known)
{
	char name[256];

	for (const char *at = known; *at; at += *at == '\n') {
		const size_t length = strcspn(at, "\n");
		snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1),
			 at);
		if (p4d_site_name_matches(of, in_conf, name))
			return true;
		at += length;
	}
	return false;
}

/* Notes names of one kind in p4d.conf that the cluster does not have. */
static void compare_names(const p4d_site *site, p4d_site_named of, const char *kind, const char *known,
			  notes *n)
{
	const char *name;

	for (size_t i = 0; known && (name = p4d_site_name_at(site, of, i)); i++)
		if (!one_is(of, name, known))
			note(n, "%s %s: p4d.conf names it, but the cluster has no %s of that name", kind,
			     name, kind);
}

static void compare_accounting(const p4d_site *site, notes *n)
{
	char *accounts = p4d_site_name_at(site, P4D_NAMED_ACCOUNTS, 0) ? p4d_live_names("account") : NULL;
	char *qoses = p4d_site_name_at(site, P4D_NAMED_QOSES, 0) ? p4d_live_names("qos") : NULL;

	compare_names(site, P4D_NAMED_ACCOUNTS, "account", accounts, n);
	compare_names(site, P4D_NAMED_QOSES, "QOS", qoses, n);
	free(accounts);
	free(qoses);
}

static void compare_users(const p4d_site *site, notes *n)
{
	const char *name;

	for (size_t i = 0; (name = p4d_site_user_at(site, i)); i++)
		if (!getpwnam(name))
			note(n, "user %s: p4d.conf names them, but this machine has no user of that name",
			     name);
}

/* Compares the partitions in require_plan with the cluster. Partitions with a section are compared
 * elsewhere. */
static void compare_required(const p4d_site *site, const p4d_cluster *cluster, notes *n)
{
	const char *name;

	for (size_t i = 0; (name = p4d_site_name_at(site, P4D_NAMED_PARTITIONS, i)); i++)
		if (strcmp(name, "true") && strcmp(name, "false") && !p4d_site_partition_of(site, name) &&
		    !in_cluster(cluster, name, false))
			note(n,
			     "partition %s: require_plan lists it, but the cluster has no nodes of a "
			     "partition of that name",
			     name);
}

static struct json_object *value_object(const p4d_site_value *value)
{
	switch (value->kind) {
	case P4D_VALUE_TEXT:
		return value->text ? json_object_new_string(value->text) : NULL;
	case P4D_VALUE_SWITCH:
		return json_object_new_boolean(value->number != 0);
	case P4D_VALUE_FRACTION:
		return p4d_report_json_fraction(value->number);
	case P4D_VALUE_NUMBER:
		break;
	}
	return json_object_new_int64((int64_t)value->number);
}

static bool has_network(const p4d_network *n)
{
	return n->nics || n->leaf_nodes || n->nic_bytes_per_s > 0 || n->step_seconds > 0 ||
	       n->oversubscription > 1;
}

/*
 * Prints a network: "network of h100: 8 interfaces, 50 GB/s each; leaf switches shared by 32 nodes, 2:1 above
 * them".
 */
static void print_network(const char *name, const p4d_network *n)
{
	char buf[256];
	p4d_text text = p4d_text_in(buf, sizeof(buf));

	if (n->nics)
		p4d_text_entry(&text, ", ", "%" PRIu32 " interfaces per node", n->nics);
	if (n->nic_bytes_per_s > 0)
		p4d_text_entry(&text, ", ", "%.6g GB/s per interface", n->nic_bytes_per_s / 1e9);
	if (n->step_seconds > 0)
		p4d_text_entry(&text, ", ", "%.6g us latency", n->step_seconds * 1e6);
	if (n->leaf_nodes)
		p4d_text_entry(&text, ", ", "%" PRIu32 " nodes below the same leaf switches", n->leaf_nodes);
	if (n->oversubscription > 1)
		p4d_text_entry(&text, ", ", "%.6g:1 oversubscribed between %s", n->oversubscription,
			       n->leaf_nodes ? "leaf switches" : "nodes");
	printf("Network of %s: %s\n", name, buf);
}

static void print_networks(const p4d_site *site)
{
	const p4d_site_partition *partition;

	for (unsigned i = 0; (partition = p4d_site_partition_at(site, i)); i++) {
		const p4d_network network = p4d_site_network(partition);
		if (has_network(&network))
			print_network(partition->name, &network);
	}
}

static struct json_object *count_or_null(uint32_t value)
{
	return value ? json_object_new_uint64(value) : NULL;
}

static struct json_object *rate_or_null(double value)
{
	return value > 0 ? p4d_report_json_fraction(value) : NULL;
}

/* The network as JSON. Values that p4d.conf does not have are null. */
static struct json_object *network_object(const p4d_network *n)
{
	if (!has_network(n))
		return NULL;
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "nics_per_node", count_or_null(n->nics));
	json_object_object_add(object, "nic_gb_per_s", rate_or_null(n->nic_bytes_per_s / 1e9));
	json_object_object_add(object, "net_latency_us", rate_or_null(n->step_seconds * 1e6));
	json_object_object_add(object, "leaf_nodes", count_or_null(n->leaf_nodes));
	json_object_object_add(object, "oversubscription", rate_or_null(n->oversubscription));
	return object;
}

static struct json_object *policy_object(const subject *s)
{
	const p4d_policy *policy = &s->policy;
	const p4d_site_partition *partition = s->partition;
	struct json_object *object = json_object_new_object(), *gpus = json_object_new_array();
	char name[32];

	for (unsigned i = 0; partition && i < partition->gpus; i++)
		json_object_array_add(gpus, json_object_new_string(partition->gpu[i]->name));
	const bool named = s->job.partition && s->job.partition != others;
	json_object_object_add(object, "partition", named ? json_object_new_string(s->job.partition) : NULL);
	json_object_object_add(object, "default",
			       json_object_new_boolean(partition && partition->is_default));
	json_object_object_add(object, "gpus", gpus);
	json_object_object_add(
	    object, "gpus_per_node",
	    partition && partition->gpus_per_node ? json_object_new_uint64(partition->gpus_per_node) : NULL);
	p4d_site_value value;
	for (unsigned i = 0; p4d_site_policy_next(policy, &i, &value);)
		json_object_object_add(object, value.name, value_object(&value));
	/* the date in `from` and the limit may be unset */
	if (!policy->from)
		json_object_object_add(object, "from", NULL);
	json_object_object_del(object, "limit");
	json_object_object_add(
	    object, "later", policy->from ? json_object_new_string(p4d_site_mode_name(policy->later)) : NULL);
	json_object_object_add(object, "exempt", json_object_new_boolean(policy->exempt));
	for (int i = P4D_FRAMEWORKS; i-- > 0;) {
		snprintf(name, sizeof(name), "limit_%s", p4d_frameworks[i]->name);
		json_object_object_add(object, name,
				       p4d_report_json_fraction(p4d_site_policy_limit(policy, i)));
	}
	const p4d_network network = p4d_site_network(partition);
	json_object_object_add(object, "network", network_object(&network));
	return object;
}

static int print_json(const p4d_site *site, const p4d_site_job *asked, const char *path, bool live,
		      const notes *n, p4d_error *err)
{
	struct json_object *object = json_object_new_object();
	struct json_object *partitions = json_object_new_array(), *list = json_object_new_array();
	struct json_object *programs = json_object_new_object();
	const char *name, *is;
	subject s;

	for (size_t i = 0; (name = p4d_site_program_at(site, i, &is)); i++)
		json_object_object_add(programs, name, json_object_new_string(is));
	for (unsigned i = 0; next_subject(site, asked, i, &s); i++)
		json_object_array_add(partitions, policy_object(&s));
	for (unsigned i = 0; i < n->count; i++)
		json_object_array_add(list, json_object_new_string(n->text[i]));
	json_object_object_add(object, "file", *path ? json_object_new_string(path) : NULL);
	json_object_object_add(object, "partitions", partitions);
	json_object_object_add(object, "programs", programs);
	json_object_object_add(object, "margins", p4d_margins_json(p4d_site_margins(site)));
	json_object_object_add(object, "cluster", json_object_new_boolean(live));
	json_object_object_add(object, "notes", list);
	return p4d_report_json_print(object, err);
}

static void print_programs(const p4d_site *site)
{
	const char *name, *is;

	for (size_t i = 0; (name = p4d_site_program_at(site, i, &is)); i++)
		printf("p4d reads scripts that start %s as if they started %s.\n", name, is);
}

/* Settings that have no column. */
static void print_details(const p4d_site *site, const p4d_site_job *asked)
{
	subject s;

	if (p4d_site_policy_depends_on_accounts(site))
		puts("slurmctld also applies sections of default and parent accounts and of default QOSes, "
		     "which this output does not show. Without accounting (slurmdbd), p4d cannot check the "
		     "accounts and QOSes that users type.");
	if (!asks_for_a_job(asked)) {
		puts("* default partition; (others) is every partition without a section.\n"
		     "Sections of QOSes, accounts, users and reservations may change this for their jobs: "
		     "--qos, --account, --user and --reservation show how.");
		return;
	}
	next_subject(site, asked, 0, &s);
	if (s.policy.min_gpus)
		printf("p4d does not check jobs with fewer than %" PRIu32 " GPUs.\n", s.policy.min_gpus);
	if (s.policy.message)
		printf("Refusals end with: %s\n", s.policy.message);
}

static int print_text(const p4d_site *site, const p4d_site_job *asked, const char *path, bool live,
		      const notes *n, p4d_error *err)
{
	if (*path)
		printf("%s: valid\n\n", path);
	else
		puts("No p4d.conf found; the built-in defaults apply.\n");
	if (print_policies(site, asked, err) < 0)
		return -1;
	putchar('\n');
	print_details(site, asked);
	print_networks(site);
	print_programs(site);
	p4d_margins_print(p4d_site_margins(site));
	puts(!live      ? "Not compared with a live cluster (sinfo did not answer)."
	     : n->count ? "Compared with the live cluster:"
			: "The live cluster agrees.");
	for (unsigned i = 0; i < n->count; i++)
		printf("note: %s\n", n->text[i]);
	return 0;
}

/* Checks that the presets in the directory `data` can be read. */
static int check_data(p4d_site *site, const char *path, p4d_error *err)
{
	p4d_error why;

	if (p4d_site_load_presets(site, &why) == 0)
		return 0;
	return p4d_fail(err, P4D_E_CONF_RANGE, "%.200s%sdata = %.100s: %.150s", path, *path ? ": " : "",
			p4d_site_datadir(site) ? p4d_site_datadir(site) : "", why.text);
}

int p4d_command_conf(const p4d_line *line, p4d_error *err)
{
	static notes n;
	char path[4096];

	if (line->operands && line->conf) {
		p4d_fail(err, P4D_E_USAGE, "both --conf %.64s and %.64s are given; leave one out", line->conf,
			 line->operand[0]);
		return -1;
	}
	if (p4d_line_find_conf(line->operands ? line->operand[0] : line->conf, path, sizeof(path), err) < 0)
		return -1;
	p4d_site *site = *path ? p4d_site_load(path, p4d_line_data_directory(), false, 0, err)
			       : p4d_site_default(p4d_line_data_directory(), P4D_MODE_OBSERVE, err);
	if (!site)
		return -1;
	const p4d_cluster *cluster = p4d_live_cluster(NULL);
	p4d_error distrust = {.code = P4D_OK};
	int rc = check_data(site, path, err);
	if (rc == 0 && *path)
		compare_trust(line, path, &n, &distrust);
	compare_users(site, &n);
	if (cluster) {
		compare_cluster(site, cluster, &n);
		compare_required(site, cluster, &n);
		compare_accounting(site, &n);
	}
	if (rc == 0)
		rc = (line->json ? print_json : print_text)(site, &line->job, path, cluster != NULL, &n, err);
	p4d_site_free(site);
	if (rc < 0 || !distrust.code)
		return rc;
	*err = distrust;
	return -1;
}
