/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "request/framework.h"
#include "site/site_internal.h"

static const p4d_site_section *section_of(const p4d_site *site, p4d_conf_section_kind kind, const char *name,
					  size_t length)
{
	for (size_t i = 0; i < site->sections; i++) {
		const p4d_site_section *section = &site->section[i];
		if (section->kind != kind || strlen(section->name) != length)
			continue;
		if (kind == P4D_PARTITION_SECTION ? !strncmp(section->name, name, length)
						  : !strncasecmp(section->name, name, length))
			return section;
	}
	return NULL;
}

static const p4d_site_section *default_partition(const p4d_site *site)
{
	for (size_t i = 0; i < site->sections; i++)
		if (site->section[i].kind == P4D_PARTITION_SECTION && site->section[i].partition.is_default)
			return &site->section[i];
	return NULL;
}

static bool listed(const char *list, const char *name, size_t length, bool fold)
{
	for (const char *at = list; at && *at; at += strspn(at, ",")) {
		size_t n = strcspn(at, ",");
		if (n == length && !(fold ? strncasecmp(at, name, n) : strncmp(at, name, n)))
			return true;
		at += n;
	}
	return false;
}

const p4d_gpus *p4d_site_gpus(const p4d_site *site)
{
	return &site->gpus;
}

const char *p4d_site_datadir(const p4d_site *site)
{
	return site->datadir;
}

const char *p4d_site_path(const p4d_site *site)
{
	return site->conf.files ? site->conf.file[0].path : "";
}

bool p4d_site_is_current(const p4d_site *site)
{
	return p4d_conf__is_current(&site->conf);
}

char *p4d_site_text(const p4d_site *site)
{
	return p4d_conf__text(&site->conf);
}

int p4d_site_load_presets(p4d_site *site, p4d_error *err)
{
	return p4d_presets_load(&site->presets, site->datadir, err);
}

const p4d_request *p4d_site_preset(const p4d_site *site, const char *name)
{
	return p4d_presets_find(&site->presets, name);
}

const p4d_site_partition *p4d_site_partition_of(const p4d_site *site, const char *name)
{
	const p4d_site_section *section =
	    name ? section_of(site, P4D_PARTITION_SECTION, name, strlen(name)) : default_partition(site);

	return section ? &section->partition : NULL;
}

const p4d_gpu *p4d_site_least_gpu(const p4d_site_partition *partition)
{
	const p4d_gpu *least = NULL;

	for (unsigned i = 0; partition && i < partition->gpus; i++)
		if (!least || partition->gpu[i]->usable_bytes < least->usable_bytes)
			least = partition->gpu[i];
	return least;
}

const p4d_site_partition *p4d_site_partition_at(const p4d_site *site, unsigned i)
{
	for (size_t at = 0; at < site->sections; at++)
		if (site->section[at].kind == P4D_PARTITION_SECTION && !i--)
			return &site->section[at].partition;
	return NULL;
}

const p4d_gpu *p4d_site_gpu(const p4d_site *site, const char *name, unsigned *ambiguous)
{
	const p4d_site_section *section = section_of(site, P4D_GPU_SECTION, name, strlen(name));

	if (!section)
		return p4d_gpu_find(&site->gpus, name, ambiguous);
	if (ambiguous)
		*ambiguous = section->ambiguous;
	return section->gpu;
}

static bool is_set_by(const p4d_site_section *section, p4d_conf_key key)
{
	return section->set & UINT64_C(1) << key;
}

/* Applies what the section sets. */
static void overlay(p4d_policy *policy, const p4d_site_section *section)
{
	for (int key = 0; key < P4D_KEYS; key++) {
		const size_t at = p4d_conf__key_table[key].offset;
		if (is_set_by(section, (p4d_conf_key)key))
			memcpy((char *)policy + at, (const char *)&section->policy + at,
			       p4d_conf__member_bytes((p4d_conf_key)key));
	}
	policy->limit_is_set = policy->limit_is_set || is_set_by(section, P4D_KEY_LIMIT);
}

/* Applies the section of that name, if there is one. */
static void overlay_named(p4d_policy *policy, const p4d_site *site, p4d_conf_section_kind kind,
			  const char *name)
{
	const p4d_site_section *section = name ? section_of(site, kind, name, strlen(name)) : NULL;

	if (section)
		overlay(policy, section);
}

/* The policy in one partition; exemptions come last and are common to all partitions. */
static p4d_policy policy_in(const p4d_site *site, const p4d_site_section *partition, const char *name,
			    size_t length, const p4d_site_job *job)
{
	p4d_policy policy = site->policy;

	for (size_t i = 0; job->gpu && i < site->sections; i++)
		if (site->section[i].kind == P4D_GPU_SECTION &&
		    !strcasecmp(site->section[i].gpu->name, job->gpu))
			overlay(&policy, &site->section[i]);
	policy.require_plan = name && listed(site->require_plan, name, length, false);
	if (partition)
		overlay(&policy, partition);
	overlay_named(&policy, site, P4D_QOS_SECTION, job->qos);
	overlay_named(&policy, site, P4D_ACCOUNT_SECTION, job->account);
	/* each section was checked alone; two of them may still conflict, and the limit takes precedence */
	if (policy.safe > policy.limit)
		policy.safe = policy.limit;
	return policy;
}

static double member_of(const p4d_policy *policy, const p4d_conf_key_info *key)
{
	const void *at = (const char *)policy + key->offset;

	return key->type == P4D_CONF_CHOICE    ? *(const int *)at
	       : key->type == P4D_CONF_BOOLEAN ? *(const bool *)at
					       : *(const double *)at;
}

static void strictest(p4d_policy *policy, const p4d_policy *other)
{
	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_conf_key_info *key = &p4d_conf__key_table[i];
		if (key->owner == P4D_CONF_OF_POLICY &&
		    key->stricter * (member_of(other, key) - member_of(policy, key)) > 0)
			memcpy((char *)policy + key->offset, (const char *)other + key->offset,
			       p4d_conf__member_bytes((p4d_conf_key)i));
	}
	/* a framework's own limit applies where none was set, so record that one was set even when they are
	 * equal */
	policy->limit_is_set = policy->limit_is_set || other->limit_is_set;
}

p4d_policy p4d_site_policy(const p4d_site *site, const p4d_site_job *job)
{
	p4d_policy policy;
	bool first = true;

	if (!job->partition || !*job->partition) {
		const p4d_site_section *section = default_partition(site);
		policy = policy_in(site, section, section ? section->name : NULL,
				   section ? strlen(section->name) : 0, job);
	} else {
		policy = site->policy;
		for (const char *at = job->partition; *at; at += strspn(at, ",")) {
			size_t length = strcspn(at, ",");
			p4d_policy one = policy_in(site, section_of(site, P4D_PARTITION_SECTION, at, length),
						   at, length, job);
			if (first)
				policy = one;
			else
				strictest(&policy, &one);
			first = false;
			at += length;
		}
	}
	if ((job->account && listed(site->exempt_accounts, job->account, strlen(job->account), true)) ||
	    (job->qos && listed(site->exempt_qos, job->qos, strlen(job->qos), true))) {
		policy.exempt = true;
		policy.mode = P4D_MODE_OFF;
	}
	return policy;
}

uint64_t p4d_site_host_bytes_per_rank(const p4d_site *site)
{
	return site->host_bytes_per_rank;
}

void p4d_site_apply_defaults(const p4d_site *site, p4d_request *request)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_is_set(&site->defaults, (p4d_option)i))
			p4d_request_default(request, (p4d_option)i, site->defaults.value[i], P4D_BY_SITE);
}

p4d_log p4d_site_log(const p4d_site *site)
{
	return site->log;
}

double p4d_site_policy_limit(const p4d_policy *policy, int framework)
{
	const double own = p4d_framework_of(framework)->limit;

	return own > 0 && !policy->limit_is_set ? own : policy->limit;
}

const char *p4d_site_mode_name(p4d_mode mode)
{
	static const char *const names[] = {"off", "observe", "warn", "enforce"};

	return names[mode];
}

void p4d_site_free(p4d_site *site)
{
	if (!site)
		return;
	p4d_gpus_free(&site->gpus);
	p4d_conf__free(&site->conf);
	p4d_presets_free(&site->presets);
	free(site->datadir);
	free(site->require_plan);
	free(site->exempt_accounts);
	free(site->exempt_qos);
	free(site->section);
	free(site);
}
