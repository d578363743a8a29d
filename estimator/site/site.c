/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/choice.h"
#include "request/framework.h"
#include "site/site_internal.h"

bool p4d_site__is_pattern(const char *name)
{
	return strpbrk(name, "*?");
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_char(char pattern, char c, bool fold)
{
	return pattern == '?' || pattern == c || (fold && lower(pattern) == lower(c));
}

/*
 * Whether a name matches a pattern with * and ?. The time is at most proportional to the product of both
 * lengths.
 */
static bool matches(const char *pattern, size_t length, const char *name, size_t left, bool fold)
{
	const char *end = pattern + length, *star = NULL, *retry = NULL;

	/* fast exit: in most cases the last characters differ */
	if (length && left && end[-1] != '*' && !same_char(end[-1], name[left - 1], fold))
		return false;
	for (; left || pattern < end;) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			retry = name;
		} else if (left && pattern < end && same_char(*pattern, *name, fold)) {
			pattern++;
			name++;
			left--;
		} else if (star && left) {
			/* lets the star match one more character */
			left -= (size_t)(++retry - name);
			name = retry;
			pattern = star;
		} else {
			return false;
		}
	}
	return true;
}

/* The section with that name or, if there is none, the first section whose pattern matches. */
static const p4d_site_section *section_of(const p4d_site *site, p4d_conf_section_kind kind, const char *name,
					  size_t length)
{
	const bool fold = p4d_conf__folds_case(kind);
	const p4d_site_section *first = NULL;

	for (size_t i = 0; i < site->sections; i++) {
		const p4d_site_section *section = &site->section[i];
		if (section->kind != kind)
			continue;
		if (section->length == length &&
		    !(fold ? strncasecmp(section->name, name, length) : strncmp(section->name, name, length)))
			return section;
		if (!first && section->is_pattern &&
		    matches(section->name, section->length, name, length, fold))
			first = section;
	}
	return first;
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
		if (matches(at, n, name, length, fold))
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

const char *p4d_site_program_at(const p4d_site *site, size_t i, const char **is)
{
	for (size_t at = 0; at < site->sections; at++)
		if (site->section[at].kind == P4D_PROGRAM_SECTION && !i--) {
			*is = site->section[at].program;
			return site->section[at].name;
		}
	return NULL;
}

const char *p4d_site_program(const p4d_site *site, const char *path)
{
	const char *name, *is, *best = NULL;
	size_t longest = 0;

	for (size_t i = 0; (name = p4d_site_program_at(site, i, &is)); i++) {
		const size_t length = strlen(path), part = strlen(name);
		if (part > longest && part <= length && !strcmp(path + length - part, name) &&
		    (part == length || path[length - part - 1] == '/')) {
			best = is;
			longest = part;
		}
	}
	return best;
}

const char *p4d_site_program_of(void *site, const char *path)
{
	return p4d_site_program(site, path);
}

const p4d_gpu_margins *p4d_site_margins(const p4d_site *site)
{
	return &site->margins;
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

const p4d_gpu *p4d_site_gpu_of_section(const p4d_site *site, const char *name)
{
	const p4d_site_section *section = section_of(site, P4D_GPU_SECTION, name, strlen(name));

	return section ? section->gpu : NULL;
}

static bool is_set_by(const p4d_site_section *section, p4d_conf_key key)
{
	return section->set & UINT64_C(1) << key;
}

/*
 * Applies a section's mode. A mode with a date applies from that date on; until then, the previous mode
 * applies.
 */
static void overlay_mode(p4d_policy *policy, const p4d_site_section *section)
{
	if (!is_set_by(section, P4D_KEY_MODE))
		return;
	policy->from = is_set_by(section, P4D_KEY_FROM) ? section->policy.from : 0;
	if (policy->from > (int64_t)time(NULL)) {
		policy->later = section->policy.mode;
		return;
	}
	policy->mode = section->policy.mode;
	policy->from = 0;
}

/* Applies the settings of a section. */
static void overlay(p4d_policy *policy, const p4d_site_section *section)
{
	overlay_mode(policy, section);
	for (int key = 0; key < P4D_KEYS; key++) {
		const p4d_conf_key_info *info = &p4d_conf__key_table[key];
		if (key == P4D_KEY_MODE || key == P4D_KEY_FROM || info->owner != P4D_CONF_OF_POLICY ||
		    !is_set_by(section, (p4d_conf_key)key))
			continue;
		memcpy((char *)policy + info->offset, (const char *)&section->policy + info->offset,
		       p4d_conf__member_bytes((p4d_conf_key)key));
	}
	policy->limit_is_set = policy->limit_is_set || is_set_by(section, P4D_KEY_LIMIT);
}

static const p4d_site_section *section_named(const p4d_site *site, p4d_conf_section_kind kind,
					     const char *name)
{
	return name ? section_of(site, kind, name, strlen(name)) : NULL;
}

static bool is_exempt(const char *list, const char *name, bool fold)
{
	return name && listed(list, name, strlen(name), fold);
}

/* Maximum number of accounts above an account that p4d follows. */
enum { ACCOUNT_DEPTH = 32 };

/* The part of a job's policy that is the same in all its partitions; NULL members: no section. */
typedef struct common {
	p4d_site_job job; /* the job as slurmctld will complete it, except for the QOS */
	const p4d_site_section *account, *user, *reservation;
	const char *qos_name; /* the QOS that was looked up last, and its section */
	const p4d_site_section *qos;
	bool exempt;
} common;

/*
 * Finds the section of the job's account. If the account has no section, takes the section of the nearest
 * account above it. Also finds out whether any of these accounts is exempt.
 */
static void find_account(const p4d_site *site, common *c)
{
	const char *account = c->job.account;

	for (int i = 0; account && i < ACCOUNT_DEPTH; i++) {
		if (!c->account)
			c->account = section_named(site, P4D_ACCOUNT_SECTION, account);
		c->exempt = c->exempt || is_exempt(site->exempt_accounts, account, true);
		account = p4d_associations_parent(c->job.associations, account);
	}
}

/*
 * The common part for a job. Ignores an account that is not the user's: if Slurm does not enforce
 * associations, users can type any account.
 */
static common common_of(const p4d_site *site, const p4d_site_job *job)
{
	const p4d_associations *known = job->associations;
	common c = {.job = *job};

	if (job->user && p4d_associations_known(known) &&
	    (!job->account || !p4d_associations_has(known, job->user, job->account)))
		c.job.account = p4d_associations_default_account(known, job->user);
	find_account(site, &c);
	c.user = section_named(site, P4D_USER_SECTION, job->user);
	c.reservation = section_named(site, P4D_RESERVATION_SECTION, job->reservation);
	c.exempt = c.exempt || is_exempt(site->exempt_users, job->user, false);
	return c;
}

static void overlay_qos(p4d_policy *policy, const p4d_site *site, common *c, const char *name)
{
	if (!name)
		return;
	/* in most cases the previous partition has the same QOS, so its section is kept */
	if (name != c->qos_name)
		c->qos = section_of(site, P4D_QOS_SECTION, name, strlen(name));
	c->qos_name = name;
	if (c->qos)
		overlay(policy, c->qos);
}

/* The policy in one partition. */
static p4d_policy policy_in(const p4d_site *site, const p4d_site_section *partition, const char *name,
			    size_t length, common *c)
{
	const p4d_site_job *job = &c->job;
	const char *of_partition = p4d_associations_partition_qos(job->associations, name, length);
	const char *qos = job->qos;

	/* also ignores a QOS that is not the user's */
	if (qos && job->user && !p4d_associations_may_have(job->associations, job->user, job->account, qos))
		qos = NULL;
	p4d_policy policy = site->base;

	if (!qos && job->user && p4d_associations_known(job->associations))
		qos = p4d_associations_default_qos(job->associations, job->user, job->account, name, length);
	overlay(&policy, &site->global);
	policy.require_plan = name && listed(site->require_plan, name, length, false);
	for (size_t i = 0; job->gpu && i < site->sections; i++)
		if (site->section[i].kind == P4D_GPU_SECTION &&
		    !strcasecmp(site->section[i].gpu->name, job->gpu))
			overlay(&policy, &site->section[i]);
	if (partition)
		overlay(&policy, partition);
	overlay_qos(&policy, site, c, of_partition);
	overlay_qos(&policy, site, c, qos);
	if (c->account)
		overlay(&policy, c->account);
	if (c->user)
		overlay(&policy, c->user);
	if (c->reservation)
		overlay(&policy, c->reservation);
	/*
	 * in each section `safe` is at most `limit`, but `safe` of one section may exceed `limit` of another.
	 * The limit then wins
	 */
	if (policy.safe > policy.limit)
		policy.safe = policy.limit;
	policy.exempt = c->exempt || is_exempt(site->exempt_qos, of_partition, true) ||
			is_exempt(site->exempt_qos, qos, true);
	if (policy.exempt)
		policy.mode = P4D_MODE_OFF;
	return policy;
}

static double member_of(const p4d_policy *policy, const p4d_conf_key_info *key)
{
	const void *at = (const char *)policy + key->offset;

	switch (key->type) {
	case P4D_CONF_CHOICE:
		return *(const int *)at;
	case P4D_CONF_BOOLEAN:
		return *(const bool *)at;
	case P4D_CONF_COUNT:
		return *(const uint32_t *)at;
	case P4D_CONF_DATE:
		return (double)*(const int64_t *)at;
	default:
		return *(const double *)at;
	}
}

bool p4d_site_policy_next(const p4d_policy *policy, unsigned *i, p4d_site_value *value)
{
	static const int kinds[] = {
	    [P4D_CONF_CHOICE] = P4D_VALUE_TEXT,    [P4D_CONF_STRING] = P4D_VALUE_TEXT,
	    [P4D_CONF_BOOLEAN] = P4D_VALUE_SWITCH, [P4D_CONF_FRACTION] = P4D_VALUE_FRACTION,
	    [P4D_CONF_COUNT] = P4D_VALUE_NUMBER,   [P4D_CONF_DATE] = P4D_VALUE_NUMBER};

	while (*i < P4D_KEYS && p4d_conf__key_table[*i].owner != P4D_CONF_OF_POLICY)
		++*i;
	if (*i == P4D_KEYS)
		return false;
	const p4d_conf_key_info *key = &p4d_conf__key_table[(*i)++];
	*value = (p4d_site_value){.name = key->name, .kind = kinds[key->type]};
	if (key->type == P4D_CONF_STRING)
		memcpy(&value->text, (const char *)policy + key->offset, sizeof(value->text));
	else
		value->number = member_of(policy, key);
	if (key->type == P4D_CONF_CHOICE)
		value->text =
		    p4d_choice_name(key->choices, (int)value->number, value->choice, sizeof(value->choice));
	return true;
}

static void strictest(p4d_policy *policy, const p4d_policy *other)
{
	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_conf_key_info *key = &p4d_conf__key_table[i];
		if (key->owner == P4D_CONF_OF_POLICY && key->stricter &&
		    key->stricter * (member_of(other, key) - member_of(policy, key)) > 0)
			memcpy((char *)policy + key->offset, (const char *)other + key->offset,
			       p4d_conf__member_bytes((p4d_conf_key)i));
	}
	/* the strictest mode that will apply in future, from the earliest date */
	if (other->from && (!policy->from || other->later > policy->later ||
			    (other->later == policy->later && other->from < policy->from))) {
		policy->from = other->from;
		policy->later = other->later;
	}
	/* a framework's own limit applies only if none was set, so record that one was set, even if they
	 * are equal */
	policy->limit_is_set = policy->limit_is_set || other->limit_is_set;
	policy->exempt = policy->exempt && other->exempt;
	policy->message = policy->message ? policy->message : other->message;
}

p4d_policy p4d_site_policy(const p4d_site *site, const p4d_site_job *job)
{
	common c = common_of(site, job);
	p4d_policy policy;
	bool first = true;

	if (!job->partition || !*job->partition) {
		const p4d_site_section *section = default_partition(site);
		return policy_in(site, section, section ? section->name : NULL, section ? section->length : 0,
				 &c);
	}
	for (const char *at = job->partition; *at; at += strspn(at, ",")) {
		size_t length = strcspn(at, ",");
		p4d_policy one =
		    policy_in(site, section_of(site, P4D_PARTITION_SECTION, at, length), at, length, &c);
		if (first)
			policy = one;
		else
			strictest(&policy, &one);
		first = false;
		at += length;
	}
	return policy;
}

p4d_policy p4d_site_policy_strictest(const p4d_site *site)
{
	p4d_policy policy = site->base;

	overlay(&policy, &site->global);
	const p4d_policy global = policy;
	for (size_t i = 0; i < site->sections; i++) {
		p4d_policy one = global;
		overlay(&one, &site->section[i]);
		strictest(&policy, &one);
	}
	return policy;
}

/* The list and the sections that contain names of a kind. */
static const struct {
	p4d_conf_key list;
	p4d_conf_section_kind sections;
} named[] = {
    [P4D_NAMED_PARTITIONS] = {P4D_KEY_REQUIRE_PLAN_LIST, P4D_PARTITION_SECTION},
    [P4D_NAMED_QOSES] = {P4D_KEY_EXEMPT_QOS, P4D_QOS_SECTION},
    [P4D_NAMED_ACCOUNTS] = {P4D_KEY_EXEMPT_ACCOUNTS, P4D_ACCOUNT_SECTION},
    [P4D_NAMED_USERS] = {P4D_KEY_EXEMPT_USERS, P4D_USER_SECTION},
};

static const char *name_at(const p4d_site *site, p4d_site_named of, size_t i, bool patterns)
{
	const p4d_conf_section *global = site->conf.sections ? &site->conf.section[0] : NULL;
	const char *name;

	for (unsigned at = 0;
	     global && (name = p4d_conf__value(&site->conf, global, (int)named[of].list, at)); at++)
		if ((patterns || !p4d_site__is_pattern(name)) && !i--)
			return name;
	for (size_t at = 0; at < site->sections; at++) {
		const p4d_site_section *section = &site->section[at];
		if (section->kind == named[of].sections && (patterns || !section->is_pattern) && !i--)
			return section->name;
	}
	return NULL;
}

const char *p4d_site_name_at(const p4d_site *site, p4d_site_named of, size_t i)
{
	return name_at(site, of, i, true);
}

bool p4d_site_name_matches(p4d_site_named of, const char *in_conf, const char *name)
{
	return matches(in_conf, strlen(in_conf), name, strlen(name),
		       p4d_conf__folds_case(named[of].sections));
}

const char *p4d_site_user_at(const p4d_site *site, size_t i)
{
	return name_at(site, P4D_NAMED_USERS, i, false);
}

bool p4d_site_policy_depends_on_accounts(const p4d_site *site)
{
	return site->depends_on_accounts;
}

bool p4d_site_policy_depends_on_gpus(const p4d_site *site)
{
	return site->depends_on_gpus;
}

uint64_t p4d_site_host_bytes_per_rank(const p4d_site *site)
{
	return site->host_bytes_per_rank;
}

static void apply(const p4d_request *defaults, p4d_request *request)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_is_set(defaults, (p4d_option)i))
			p4d_request_default(request, (p4d_option)i, defaults->value[i], P4D_BY_SITE);
}

void p4d_site_apply_defaults(const p4d_site *site, const char *partition, p4d_request *request)
{
	const p4d_site_section *section =
	    partition ? section_of(site, P4D_PARTITION_SECTION, partition, strcspn(partition, ","))
		      : default_partition(site);

	if (section && section->defaults)
		apply(section->defaults, request);
	apply(&site->defaults, request);
}

p4d_log p4d_site_log(const p4d_site *site)
{
	return site->log;
}

p4d_client_log p4d_site_client_log(const p4d_site *site)
{
	return site->client_log;
}

p4d_admin_comment p4d_site_admin_comment(const p4d_site *site)
{
	return site->admin_comment;
}

p4d_record_place p4d_site_record(const p4d_site *site)
{
	return site->record;
}

const char *p4d_site_metrics(const p4d_site *site)
{
	return site->metrics;
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
	free(site->margins.margin);
	p4d_conf__free(&site->conf);
	p4d_presets_free(&site->presets);
	free(site->datadir);
	free(site->require_plan);
	free(site->exempt_accounts);
	free(site->exempt_qos);
	free(site->exempt_users);
	for (size_t i = 0; i < site->sections; i++)
		free(site->section[i].defaults);
	free(site->section);
	free(site);
}
