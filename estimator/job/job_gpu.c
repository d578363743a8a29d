/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/choice.h"
#include "job/hostlist.h"
#include "job/job_internal.h"

typedef p4d_job_candidate candidate;
typedef p4d_job_candidates candidates;

/* Maximum number of names in a constraint, and of comparisons of names with candidates. */
enum { MOST_FEATURES = 64, MOST_COMPARED = 1024 };

static int add(candidates *all, candidate one, p4d_error *err)
{
	if (all->count == P4D_JOB_CANDIDATES) {
		p4d_fail(err, P4D_E_GEOMETRY, "more than %d kinds of nodes are possible for this job",
			 P4D_JOB_CANDIDATES);
		return p4d_fix(err, "--partition=NAME");
	}
	all->at[all->count++] = one;
	return 0;
}

static bool has(const char *list, const char *entry, size_t length)
{
	return length && p4d_choice_index(list, ',', entry, length) >= 0;
}

/* The GPU of nodes whose GRES has no type: a feature of the nodes may name it. */
static const p4d_gpu *gpu_of_features(const p4d_site *site, const char *features, unsigned *ambiguous)
{
	char name[48];

	for (const char *at = features; p4d_job__next_name(&at, name, sizeof(name));) {
		const p4d_gpu *gpu = p4d_site_gpu(site, name, ambiguous);
		if (gpu)
			return gpu;
	}
	return NULL;
}

/* True if the partition is already among the candidates, because a list may name it more than once. */
static bool is_collected(const candidates *all, const char *name)
{
	const size_t length = strlen(name);

	for (size_t i = 0; i < all->count; i++) {
		const char *at = all->at[i].partition + strspn(all->at[i].partition, ", ");
		if (!strncmp(at, name, length) && (!at[length] || strchr(", ", at[length])))
			return true;
	}
	return false;
}

/*
 * Collects the candidates of one partition; name NULL: the default one. entry: the name's place in the job's
 * list.
 */
static int collect(const p4d_site *site, const char *name, const char *entry, p4d_job_lazy_cluster *lazy,
		   candidates *all, p4d_error *err)
{
	const p4d_site_partition *section = p4d_site_partition_of(site, name);

	if (section && !name) /* the section of the default partition has that partition's name */
		name = entry = section->name;
	for (unsigned i = 0; section && i < section->gpus; i++)
		if (add(all,
			(candidate){.gpu = section->gpu[i],
				    .type = "",
				    .features = "",
				    .partition = entry,
				    .gpus_per_node = section->gpus_per_node,
				    .ambiguous = section->ambiguous[i]},
			err) < 0)
			return -1;
	if (section && section->gpus)
		return 0;
	const p4d_cluster *cluster = p4d_job__lazy(lazy);
	for (size_t i = 0; cluster && i < cluster->count; i++) {
		const p4d_partition_facts *row = &cluster->row[i];
		if (!row->gpus_per_node || (name ? strcmp(row->partition, name) != 0 : !row->is_default))
			continue;
		candidate one = {.type = row->gpu_type,
				 .features = row->features,
				 .partition = row->partition,
				 .row = row,
				 .gpus_per_node = section ? section->gpus_per_node : 0,
				 .ambiguous = 1};
		one.gpu = row->gpu_type[0] ? p4d_site_gpu(site, row->gpu_type, &one.ambiguous)
					   : gpu_of_features(site, row->features, &one.ambiguous);
		if (add(all, one, err) < 0)
			return -1;
	}
	return 0;
}

/*
 * True if the name (a GRES type or a node feature) stands for this candidate. wanted: the GPU that has this
 * name in a section of p4d.conf; NULL: none.
 */
static bool means(const candidate *one, const char *name, const p4d_gpu *wanted)
{
	if (!strcasecmp(one->type, name) || has(one->features, name, strlen(name)))
		return true;
	/* an alias such as a100 may match several GPUs, and then stands for each of them */
	return one->gpu && (one->gpu == wanted || p4d_gpu_is_named(one->gpu, name));
}

const p4d_partition_facts *p4d_job__facts(const p4d_site *site, const candidate *one,
					  p4d_job_lazy_cluster *lazy)
{
	const p4d_cluster *cluster = one->row ? NULL : p4d_job__lazy(lazy);
	const char *at = one->partition;
	char name[64];

	if (!p4d_job__next_name(&at, name, sizeof(name)))
		return one->row;
	for (size_t i = 0; cluster && i < cluster->count; i++) {
		const p4d_partition_facts *row = &cluster->row[i];
		if (!row->gpus_per_node || strcmp(row->partition, name) != 0)
			continue;
		const char *type = row->gpu_type;
		if (*type ? means(one, type, p4d_site_gpu_of_section(site, type))
			  : one->gpu == gpu_of_features(site, row->features, &(unsigned){0}))
			return row;
	}
	return one->row;
}

/* Drops the candidates that are not marked as kept, unless none is marked. */
static void keep(candidates *all)
{
	size_t left = 0;

	for (size_t i = 0; i < all->count; i++)
		if (all->at[i].kept)
			all->at[left++] = all->at[i];
	if (left)
		all->count = left;
}

/* Marks the candidates that match a name; true when there are any. */
static bool match(const p4d_site *site, const char *name, candidates *all)
{
	const p4d_gpu *wanted = p4d_site_gpu_of_section(site, name);
	bool any = false;

	for (size_t i = 0; i < all->count; i++) {
		all->at[i].match = means(&all->at[i], name, wanted);
		any = any || all->at[i].match;
	}
	return any;
}

/* Keeps the candidates of a GRES type. False: there are none, and nothing changes. */
static bool restrict_to_type(const p4d_site *site, const char *type, candidates *all)
{
	if (!match(site, type, all))
		return false;
	for (size_t i = 0; i < all->count; i++)
		all->at[i].kept = all->at[i].match;
	keep(all);
	return true;
}

/*
 * Keeps the candidates that a constraint allows: groups joined by '|' of names joined by '&'. Counts,
 * brackets and parentheses are ignored. A name unrelated to GPUs excludes no candidate, and neither does a
 * constraint that is too long to compare. So the result may have too many candidates, never too few.
 */
static void restrict_to_constraint(const p4d_site *site, const char *constraint, candidates *all)
{
	size_t names = 1;

	for (const char *at = constraint; (at = strpbrk(at, "&|,")); at++)
		names++;
	if (names > MOST_FEATURES || names * all->count > MOST_COMPARED)
		return;
	for (size_t i = 0; i < all->count; i++) {
		all->at[i].group = true;
		all->at[i].kept = false;
	}
	for (const char *at = constraint;; at++) {
		at += strspn(at, "[]() ");
		size_t length = strcspn(at, "&|,*[]() ");
		char name[64] = "";
		if (length < sizeof(name))
			memcpy(name, at, length);
		if (name[0] && match(site, name, all))
			for (size_t i = 0; i < all->count; i++)
				all->at[i].group = all->at[i].group && all->at[i].match;
		at += length;
		at += strcspn(at, "&|,"); /* skips a count or a bracket */
		if (*at && *at != '|')
			continue;
		for (size_t i = 0; i < all->count; i++) {
			all->at[i].kept = all->at[i].kept || all->at[i].group;
			all->at[i].group = true;
		}
		if (!*at)
			break;
	}
	keep(all);
}

/* False if the job can get none of the nodes of this row. */
static bool possible(const p4d_job *job, const p4d_partition_facts *row, uint32_t *budget)
{
	if (!row || !row->nodes)
		return true;
	return (!job->nodelist || p4d_hostlist__overlap(job->nodelist, row->nodes, budget)) &&
	       (!job->exclude || !p4d_hostlist__within(row->nodes, job->exclude, budget));
}

void p4d_job__restrict_to_nodes(const p4d_site *site, const p4d_job *job, p4d_job_lazy_cluster *lazy,
				candidates *all, uint32_t *budget)
{
	if (!all->count || (!job->nodelist && !job->exclude))
		return;
	for (size_t i = 0; i < all->count; i++)
		all->at[i].kept = possible(job, p4d_job__facts(site, &all->at[i], lazy), budget);
	keep(all);
}

/* Whether p4d.conf has a section for the candidate's partition alone. */
static bool has_own_section(const p4d_site *site, const candidate *one)
{
	const char *at = one->partition;
	char name[64];

	if (one->row || !p4d_job__next_name(&at, name, sizeof(name)))
		return false;
	const p4d_site_partition *section = p4d_site_partition_of(site, name);
	return section && !strcmp(section->name, name);
}

/*
 * Whether p4d.conf names one GPU for the partitions of the job, and p4d does not know the GRES type. Then the
 * type can only mean this GPU. A section for several partitions proves nothing: the type may be that of one.
 */
static bool is_only_gpu(const p4d_site *site, const char *type, const candidates *all)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->at[i].gpu != all->at[0].gpu || !has_own_section(site, &all->at[i]))
			return false;
	return all->count && !p4d_site_gpu(site, type, &(unsigned){0});
}

int p4d_job__anywhere(const p4d_site *site, const p4d_job *job, const char *type, p4d_job_lazy_cluster *lazy,
		      candidates *all, p4d_error *err)
{
	char name[64];

	all->count = 0;
	all->believed = *type;
	if (job->clusters)
		return 0;
	if (!job->partition || !*job->partition) {
		if (collect(site, NULL, NULL, lazy, all, err) < 0)
			return -1;
	} else {
		for (const char *at = job->partition, *entry = at;
		     p4d_job__next_name(&at, name, sizeof(name)); entry = at)
			if (!is_collected(all, name) && collect(site, name, entry, lazy, all, err) < 0)
				return -1;
	}
	if (job->constraint && all->count)
		restrict_to_constraint(site, job->constraint, all);
	if (*type)
		all->believed = !restrict_to_type(site, type, all) && !is_only_gpu(site, type, all);
	return 0;
}

int p4d_job__candidates(const p4d_site *site, const p4d_job *job, const char *type,
			p4d_job_lazy_cluster *lazy, candidates *all)
{
	if (p4d_job__anywhere(site, job, type, lazy, all, NULL) < 0)
		return -1;
	p4d_job__restrict_to_nodes(site, job, lazy, all, &(uint32_t){P4D_HOSTLIST_BUDGET});
	return 0;
}

static int unknown_gpu(const char *name, p4d_error *err)
{
	p4d_fail(err, P4D_E_UNKNOWN_GPU, "GPU type `%.48s` is not in gpus.json, so its memory is unknown",
		 name);
	return p4d_fix(err, "p4d.conf: gpu %.48s { name = \"NAME\" }, with a NAME that `p4d gpus` lists",
		       name);
}

/* Finds out what the cluster knows about a partition: whether it exists, and whether it has GPUs. */
static bool in_cluster(const p4d_cluster *cluster, const char *partition, bool *gpus)
{
	bool found = false;

	*gpus = false;
	for (size_t i = 0; i < cluster->count; i++)
		if (!strcmp(cluster->row[i].partition, partition)) {
			found = true;
			*gpus = *gpus || cluster->row[i].gpus_per_node;
		}
	return found;
}

static int unknown_partition(const p4d_job *job, p4d_job_lazy_cluster *lazy, p4d_error *err)
{
	const p4d_cluster *cluster = job->clusters ? NULL : p4d_job__lazy(lazy);
	const char *at = job->partition ? job->partition : "";
	char name[64];
	bool gpus;

	if (job->clusters) {
		p4d_fail(err, P4D_E_GPU_OF_PARTITION,
			 "p4d does not know the GPUs of cluster `%.64s` on this host", job->clusters);
		return p4d_fix(err, "submit on that cluster, or name the GPU: --gres=gpu:TYPE:COUNT");
	}
	while (cluster && cluster->count && p4d_job__next_name(&at, name, sizeof(name))) {
		bool found = in_cluster(cluster, name, &gpus);
		if (found && gpus)
			continue;
		p4d_fail(err, P4D_E_GPU_OF_PARTITION,
			 found ? "the nodes of partition `%s` have no GPUs"
			       : "this cluster has no partition `%s`",
			 name);
		return p4d_fix(err, "--partition=NAME, with a NAME that `sinfo -o \"%%P %%G\"` lists%s",
			       found ? " with GPUs" : "");
	}
	if (job->partition)
		p4d_fail(err, P4D_E_GPU_OF_PARTITION,
			 "neither p4d.conf nor the cluster says which GPU partition `%.64s` has",
			 job->partition);
	else
		p4d_fail(err, P4D_E_GPU_OF_PARTITION,
			 "the job names no partition, and neither p4d.conf nor the cluster says which is the "
			 "default");
	return p4d_fix(err, "p4d.conf: partition %.64s { gpu = \"GPU\"%s }, with a GPU that `p4d gpus` lists",
		       job->partition ? job->partition : "NAME", job->partition ? "" : " default = true");
}

int p4d_job__gpu(const p4d_site *site, const p4d_job *job, const char *type, const candidates *all,
		 p4d_job_lazy_cluster *lazy, p4d_geometry *out, p4d_error *err)
{
	if (all->believed) {
		const p4d_gpu *gpu = p4d_site_gpu(site, type, &out->ambiguous);
		const char *first = all->count ? all->at[0].partition : job->partition ? job->partition : "";
		if (!gpu)
			return unknown_gpu(type, err);
		out->gpu = gpu;
		out->gpu_types = 1;
		p4d_job__next_name(&first, out->partition, sizeof(out->partition));
		return 0;
	}
	const bool assumes = job->assumed && !all->count;
	const p4d_cluster *cluster = assumes ? p4d_job__lazy(lazy) : NULL;
	if (assumes && !(cluster && cluster->count)) {
		out->gpu = job->assumed;
		out->gpu_types = 1;
		return 0;
	}
	if (!all->count)
		return unknown_partition(job, lazy, err);
	out->gpu_types = 0;
	for (size_t i = 0; i < all->count; i++) {
		const candidate *one = &all->at[i];
		if (!one->gpu)
			return one->type[0] ? unknown_gpu(one->type, err) : unknown_partition(job, lazy, err);
		bool seen = false;
		for (size_t j = 0; j < i; j++)
			seen = seen || all->at[j].gpu == one->gpu;
		out->gpu_types += !seen;
		if (i && one->gpu->usable_bytes >= out->gpu->usable_bytes)
			continue;
		out->gpu = one->gpu;
		out->ambiguous = one->ambiguous;
		const char *partition = one->partition;
		p4d_job__next_name(&partition, out->partition, sizeof(out->partition));
	}
	return 0;
}

const p4d_gpu *p4d_job_larger_gpu(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				  void *context, const p4d_gpu *than, uint32_t per_node, char type[48])
{
	p4d_job_lazy_cluster lazy = {.source = source, .context = context};
	const p4d_gpu *larger = NULL;
	candidates all;

	if (p4d_job__candidates(site, job, "", &lazy, &all) < 0)
		return NULL;
	for (size_t i = 0; i < all.count; i++) {
		const candidate *one = &all.at[i];
		const p4d_partition_facts *row = p4d_job__facts(site, one, &lazy);
		const p4d_cluster *cluster = p4d_job__lazy(&lazy);
		const uint32_t has = row ? row->gpus_per_node : one->gpus_per_node;
		/*
		 * GPUs without a GRES type cannot be requested by type. If there is no cluster to ask, the
		 * type is p4d's name of the GPU.
		 */
		const char *of_p4d = one->gpu && !(cluster && cluster->count) ? one->gpu->name : "";
		const char *name = row ? row->gpu_type : of_p4d;
		if (!one->gpu || one->gpu->usable_bytes <= than->usable_bytes || !*name ||
		    (has && has < per_node) || (larger && one->gpu->usable_bytes >= larger->usable_bytes))
			continue;
		larger = one->gpu;
		snprintf(type, 48, "%s", name);
	}
	return larger;
}
