/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/choice.h"
#include "base/number.h"
#include "base/text.h"
#include "site/site_internal.h"

static const double GIB = 1073741824.0;

#define fail(l, line, code, ...) p4d_conf__fail((l)->conf, line, (l)->err, P4D_E_CONF_##code, __VA_ARGS__)

static const char *value_of(const p4d_site_load_state *l, const p4d_conf_section *section, p4d_conf_key key,
			    unsigned i)
{
	return p4d_conf__value(l->conf, section, key, i);
}

/* Index of `text` in "a|b|c". */
static int choice(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text, const char *list,
		  int *out)
{
	int index = p4d_choice_find(list, text);

	if (index < 0)
		return fail(l, line, RANGE, "%s = %.64s: not one of %s", p4d_conf__key_table[key].name, text,
			    list);
	*out = index;
	return 0;
}

static int boolean(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text, bool *out)
{
	int index = p4d_choice_find("false|true", text);

	if (index < 0)
		return fail(l, line, SYNTAX, "%s = %.64s: neither true nor false",
			    p4d_conf__key_table[key].name, text);
	*out = index;
	return 0;
}

int p4d_site__read_number(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text,
			  double max, double *out)
{
	const char *name = p4d_conf__key_table[key].name;
	double value;

	if (text[strspn(text, "0123456789.")] || !p4d_number_real(text, 0, INFINITY, &value))
		return fail(l, line, SYNTAX, "%s = %.64s: not a number", name, text);
	if (value <= 0 || value > max)
		return fail(l, line, RANGE, "%s = %.64s: not above 0 and at most %.0f", name, text, max);
	*out = value;
	return 0;
}

static int gib(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text, uint64_t *bytes)
{
	double value;

	if (p4d_site__read_number(l, line, key, text, 1 << 20, &value) < 0)
		return -1;
	*bytes = (uint64_t)(value * GIB);
	return 0;
}

static int count(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text, uint32_t max,
		 uint32_t *out)
{
	uint64_t value;

	if (text[strspn(text, "0123456789")])
		return fail(l, line, SYNTAX, "%s = %.64s: not a whole number", p4d_conf__key_table[key].name,
			    text);
	if (!p4d_number_whole(text, 1, max, &value))
		return fail(l, line, RANGE, "%s = %.64s: not from 1 to %u", p4d_conf__key_table[key].name,
			    text, (unsigned)max);
	*out = (uint32_t)value;
	return 0;
}

static int number(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text, double *out)
{
	const p4d_conf_key_info *info = &p4d_conf__key_table[key];
	const double most = info->most;

	if (p4d_site__read_number(l, line, key, text, INFINITY, out) < 0)
		return -1;
	if (*out >= info->least && *out <= most)
		return 0;
	fail(l, line, RANGE, "%s = %.64s: not from %.6g to %.6g", info->name, text, info->least, most);
	return p4d_fix(l->err, "%s = %.6g", info->name, *out > most ? most : info->least);
}

/* Reads YYYY-MM-DD as local midnight. */
static int date(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text, int64_t *out)
{
	struct tm day = {.tm_isdst = -1};
	const char *end = strptime(text, "%Y-%m-%d", &day);
	const int month_day = end && !*end && strlen(text) == strlen("YYYY-MM-DD") ? day.tm_mday : 0;
	const time_t at = mktime(&day);

	if (at <= 0 || day.tm_mday != month_day) /* such as the 31st of a month with 30 days */
		return fail(l, line, RANGE, "%s = %.64s: not a date YYYY-MM-DD after 1970",
			    p4d_conf__key_table[key].name, text);
	*out = at;
	return 0;
}

/* Reads a list of names; the result has a comma after each name. */
static int read_names(p4d_site_load_state *l, const p4d_conf_section *section, p4d_conf_key key, char **out)
{
	p4d_text names = {.grows = true};
	const char *text;

	for (unsigned i = 0; (text = value_of(l, section, key, i)); i++)
		p4d_text_print(&names, "%s,", text);
	*out = names.at;
	return names.truncated ? p4d_fail(l->err, P4D_E_NO_MEMORY, "no memory for a list") : 0;
}

/* Stores the value of a key of the section in the member that its row names. */
static int read_member(p4d_site_load_state *l, const p4d_conf_section *section, p4d_conf_key key, void *owner)
{
	const p4d_conf_key_info *info = &p4d_conf__key_table[key];
	const unsigned line = section->lines[key];
	const char *text = value_of(l, section, key, 0);
	void *to = (char *)owner + info->offset;

	switch (info->type) {
	case P4D_CONF_CHOICE:
		return choice(l, line, key, text, info->choices, to);
	case P4D_CONF_BOOLEAN:
		return boolean(l, line, key, text, to);
	case P4D_CONF_FRACTION:
		return p4d_site__read_number(l, line, key, text, 1, to);
	case P4D_CONF_GIB:
		return gib(l, line, key, text, to);
	case P4D_CONF_COUNT:
		return count(l, line, key, text, info->most, to);
	case P4D_CONF_NUMBER:
		return number(l, line, key, text, to);
	case P4D_CONF_DATE:
		return date(l, line, key, text, to);
	case P4D_CONF_NAMES:
		return read_names(l, section, key, to);
	case P4D_CONF_STRING:
		*(const char **)to = text;
		return 0;
	case P4D_CONF_TEXT:
		break;
	}
	return 0;
}

/* Stores all keys of the section whose values are members of `owner`. *set: mask of these keys. */
static int read_members(p4d_site_load_state *l, const p4d_conf_section *section, p4d_conf_owner kind,
			void *owner, uint64_t *set)
{
	*set = 0;
	for (int key = 0; key < P4D_KEYS; key++) {
		if (!section->lines[key] || p4d_conf__key_table[key].owner != kind)
			continue;
		if (read_member(l, section, (p4d_conf_key)key, owner) < 0)
			return -1;
		*set |= UINT64_C(1) << key;
	}
	return 0;
}

/* Reads a section's policy. base: the policy that applies without the section. */
static int read_policy(p4d_site_load_state *l, const p4d_conf_section *section, const p4d_policy *base,
		       p4d_policy *policy, uint64_t *set)
{
	*policy = *base;
	if (read_members(l, section, P4D_CONF_OF_POLICY, policy, set) < 0)
		return -1;
	policy->limit_is_set = policy->limit_is_set || section->lines[P4D_KEY_LIMIT];
	if (section->lines[P4D_KEY_FROM] && !section->lines[P4D_KEY_MODE])
		return fail(l, section->lines[P4D_KEY_FROM], RANGE,
			    "`from` needs a `mode` in the same section");
	if (policy->safe > policy->limit) {
		unsigned line = section->lines[P4D_KEY_SAFE];
		if (section->lines[P4D_KEY_LIMIT] > line)
			line = section->lines[P4D_KEY_LIMIT];
		return fail(l, line, RANGE, "safe = %.6g is above limit = %.6g%s", policy->safe,
			    policy->limit, policy->limit_is_set ? "" : " (the default)");
	}
	return 0;
}

/*
 * Checks that one node fits below a leaf switch. Without rails, all interfaces of a node are connected to one
 * leaf switch, so leaf_ports must be at least nics_per_node.
 */
static int check_leaf(p4d_site_load_state *l, const p4d_conf_section *from, const p4d_site_partition *p)
{
	if (!p->leaf_ports || p->rails || p->leaf_ports >= p->nics_per_node)
		return 0;
	fail(l, from->lines[P4D_KEY_LEAF_PORTS], RANGE,
	     "leaf_ports = %" PRIu32 ": too few for one node, which has nics_per_node = %" PRIu32,
	     p->leaf_ports, p->nics_per_node);
	return p4d_fix(l->err, "rails = true, if each interface of a node has a leaf switch of its own");
}

static int read_partition_section(p4d_site_load_state *l, const p4d_conf_section *from, p4d_site_section *to)
{
	p4d_site_partition *partition = &to->partition;
	const char *text;
	uint64_t set;

	snprintf(partition->name, sizeof(partition->name), "%s", from->title);
	for (unsigned i = 0; (text = value_of(l, from, P4D_KEY_GPU, i)); i++) {
		unsigned line = from->lines[P4D_KEY_GPU];
		if (i == P4D_SECTION_GPUS)
			return fail(l, line, RANGE, "gpu: a partition may have at most %d types",
				    P4D_SECTION_GPUS);
		if (p4d_site__find_gpu(l, line, text, &partition->gpu[i], &partition->ambiguous[i]) < 0)
			return -1;
		partition->gpus = i + 1;
	}
	if (read_members(l, from, P4D_CONF_OF_PARTITION, partition, &set) < 0 ||
	    check_leaf(l, from, partition) < 0)
		return -1;
	if (!partition->is_default)
		return 0;
	if (p4d_site__is_pattern(from->title))
		return fail(l, from->lines[P4D_KEY_DEFAULT], RANGE, "default: `%s` is not one partition",
			    from->title);
	for (const p4d_site_section *other = l->site->section; other < to; other++)
		if (other->kind == P4D_PARTITION_SECTION && other->partition.is_default)
			return fail(l, from->lines[P4D_KEY_DEFAULT], DUPLICATE,
				    "partition `%s` is already the default", other->name);
	return 0;
}

static int read_defaults(p4d_site_load_state *l, const p4d_conf_section *section, p4d_request *defaults)
{
	p4d_error local;

	for (int i = 0; i < P4D_OPTIONS; i++) {
		if (!section->lines[i])
			continue;
		if (i == P4D_LOCAL_LOSS)
			return fail(l, section->lines[i], RANGE,
				    "local_loss changes what a model learns, so only users may set it");
		if (p4d_request_set(defaults, (p4d_option)i, p4d_conf__value(l->conf, section, i, 0),
				    P4D_BY_SITE, &local) < 0)
			return fail(l, section->lines[i], RANGE, "%s", local.text);
	}
	return 0;
}

/* Where a `defaults` section stores its values: the partition section before it, or all partitions. */
static p4d_request *defaults_of(p4d_site_load_state *l, const p4d_conf_section *from, p4d_site_section *to)
{
	if (!from->title[0])
		return &l->site->defaults;
	to[-1].defaults = calloc(1, sizeof(*to->defaults));
	if (!to[-1].defaults)
		p4d_fail(l->err, P4D_E_NO_MEMORY, "no memory for defaults of a partition");
	return to[-1].defaults;
}

/* Reads require_plan. Outside of sections it lists partitions; `true` means every partition, `false` none. */
static int read_required(p4d_site_load_state *l)
{
	char **list = &l->site->require_plan;
	const char *meant = !*list                     ? NULL
			    : !strcmp(*list, "true,")  ? "*,"
			    : !strcmp(*list, "false,") ? ""
						       : NULL;

	if (!meant)
		return 0;
	free(*list);
	*list = strdup(meant);
	return *list ? 0 : p4d_fail(l->err, P4D_E_NO_MEMORY, "no memory for a list");
}

static int read_globals(p4d_site_load_state *l)
{
	const p4d_conf_section *conf = &l->conf->section[0];
	p4d_site_section *global = &l->site->global;
	uint64_t set;

	if (read_policy(l, conf, &l->site->base, &global->policy, &global->set) < 0 ||
	    read_members(l, conf, P4D_CONF_OF_SITE, l->site, &set) < 0)
		return -1;
	if (!conf->lines[P4D_KEY_RECORD] && l->site->admin_comment == P4D_ADMIN_COMMENT_NONE)
		l->site->record = P4D_RECORD_NONE;
	return read_required(l);
}

/* Records which facts about a job its policy needs. */
static void note_needs(p4d_site *site, const p4d_site_section *section)
{
	const bool of_accounts = section->kind == P4D_ACCOUNT_SECTION || section->kind == P4D_QOS_SECTION ||
				 section->kind == P4D_USER_SECTION;

	site->depends_on_accounts = site->depends_on_accounts || of_accounts;
	site->depends_on_gpus = site->depends_on_gpus || section->policy.min_gpus ||
				(section->kind == P4D_GPU_SECTION && section->policy.require_plan);
}

static int read_program(p4d_site_load_state *l, const p4d_conf_section *from, p4d_site_section *to)
{
	static const char prefix[] = "--p4d-";
	const char *text = value_of(l, from, P4D_KEY_IS, 0);
	p4d_request probe = {.model = ""};
	p4d_error local;

	if (!text)
		return fail(l, from->line, RANGE,
			    "program `%s`: the key `is` is missing, which names a known program",
			    from->title);
	if (p4d_request_set(&probe, P4D_PROGRAM, text, P4D_BY_SITE, &local) < 0)
		return fail(l, from->lines[P4D_KEY_IS], RANGE, "%s",
			    local.text + (strncmp(local.text, prefix, strlen(prefix)) ? 0 : strlen(prefix)));
	to->program = text;
	return 0;
}

static int read_section(p4d_site_load_state *l, const p4d_conf_section *from, p4d_site_section *to)
{
	if (from->kind == P4D_DEFAULTS_SECTION) {
		p4d_request *defaults = defaults_of(l, from, to);
		return defaults ? read_defaults(l, from, defaults) : -1;
	}
	if (from->kind == P4D_PROGRAM_SECTION)
		return read_program(l, from, to);
	if (from->kind == P4D_FRAMEWORK_SECTION)
		return 0; /* p4d_site__read_margins reads all framework sections later */
	if (read_policy(l, from, &l->site->global.policy, &to->policy, &to->set) < 0)
		return -1;
	note_needs(l->site, to);
	return from->kind == P4D_PARTITION_SECTION ? read_partition_section(l, from, to) : 0;
}

static int read_sections(p4d_site_load_state *l)
{
	size_t total = l->conf->sections - 1;

	if (!total)
		return 0;
	l->site->section = calloc(total, sizeof(*l->site->section));
	if (!l->site->section)
		return p4d_fail(l->err, P4D_E_NO_MEMORY, "no memory for %zu sections", total);
	/* GPU sections first, because partitions may name them before their section */
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < total; i++) {
			const p4d_conf_section *from = &l->conf->section[i + 1];
			p4d_site_section *to = &l->site->section[i];
			if (!pass) {
				to->kind = from->kind;
				snprintf(to->name, sizeof(to->name), "%s", from->title);
				to->length = (uint8_t)strlen(to->name);
				to->is_pattern = p4d_site__is_pattern(to->name);
				if (from->kind == P4D_GPU_SECTION &&
				    p4d_site__read_gpu_section(l, from, to) < 0)
					return -1;
				l->site->sections = i + 1;
			} else if (read_section(l, from, to) < 0) {
				return -1;
			}
		}
	return 0;
}

static p4d_site *new_site(const char *datadir, const char *gpus, p4d_error *err)
{
	p4d_site *site = calloc(1, sizeof(*site));

	if (site && datadir)
		site->datadir = strdup(datadir);
	if (!site || (datadir && !site->datadir)) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the site's configuration");
		p4d_site_free(site);
		return NULL;
	}
	site->log = P4D_LOG_REFUSALS;
	site->base = (p4d_policy){.mode = P4D_MODE_OBSERVE,
				  .rewrite = P4D_REWRITE_UNSET,
				  .on_error = P4D_ON_ERROR_PASS,
				  .unmodelled = P4D_UNMODELLED_WARN,
				  .scripts = P4D_SCRIPTS_ADVISE,
				  .rehearsals = P4D_REHEARSALS_ADVISE,
				  .safe = 0.80,
				  .limit = 0.95};
	if (p4d_gpus_load(&site->gpus, gpus, err) < 0) {
		p4d_site_free(site);
		return NULL;
	}
	return site;
}

p4d_site *p4d_site_default(const char *datadir, p4d_mode mode, p4d_error *err)
{
	p4d_site *site = new_site(datadir, NULL, err);

	if (site)
		site->base.mode = mode;
	return site;
}

/* Reads a path in the global section; NULL if it is not set. Returns -1 if it is not absolute. */
static int absolute_path(p4d_site_load_state *l, p4d_conf_key key, const char **path)
{
	const p4d_conf_section *global = &l->conf->section[0];

	*path = value_of(l, global, key, 0);
	if (*path && **path != '/')
		return fail(l, global->lines[key], RANGE, "%s = %.200s: not an absolute path",
			    p4d_conf__key_table[key].name, *path);
	return 0;
}

/* Checks the name of the metrics file: node_exporter reads only files that end in .prom. */
static int check_metrics(p4d_site_load_state *l)
{
	const char *path;

	if (absolute_path(l, P4D_KEY_METRICS, &path) < 0)
		return p4d_fix(l->err, "metrics = \"/var/lib/prometheus/node-exporter/p4d.prom\"");
	const size_t length = path ? strlen(path) : 0;
	if (!path || (length > 6 && !strcmp(path + length - 5, ".prom") && path[length - 6] != '/'))
		return 0;
	fail(l, l->conf->section[0].lines[P4D_KEY_METRICS], RANGE,
	     "metrics = %.200s: the name must end with .prom, because node_exporter ignores other files",
	     path);
	return p4d_fix(l->err, "metrics = \"%.200s%s\"", path,
		       path[length - 1] == '/' ? "p4d.prom" : ".prom");
}

static p4d_site *build(const p4d_conf *conf, const char *datadir, p4d_error *err)
{
	p4d_site_load_state l = {.conf = conf, .err = err};
	const char *data, *gpus;

	if (absolute_path(&l, P4D_KEY_DATA, &data) < 0 || absolute_path(&l, P4D_KEY_GPUS, &gpus) < 0 ||
	    check_metrics(&l) < 0)
		return NULL;
	l.site = new_site(data ? data : datadir, gpus, err);
	if (!l.site)
		return NULL;
	if (p4d_site__add_gpus(&l) < 0 || read_globals(&l) < 0 || read_sections(&l) < 0 ||
	    p4d_site__read_margins(&l) < 0) {
		p4d_site_free(l.site);
		return NULL;
	}
	note_needs(l.site, &l.site->global);
	l.site->depends_on_accounts = l.site->depends_on_accounts || l.site->exempt_accounts ||
				      l.site->exempt_qos || l.site->exempt_users;
	return l.site;
}

p4d_site *p4d_site_load(const char *path, const char *datadir, bool trust, uint32_t trusted_uid,
			p4d_error *err)
{
	p4d_conf conf = {0};

	if (p4d_conf__read(&conf, path, trust, trusted_uid, err) < 0)
		return NULL;
	p4d_site *site = build(&conf, datadir, err);
	if (site)
		site->conf = conf; /* strings of policies point into conf */
	else
		p4d_conf__free(&conf);
	return site;
}

static bool exists(const char *path)
{
	/* for any error except "no such file" the file counts as present, so that opening it reports the
	 * error */
	return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool p4d_site_find(const char *slurm_conf, char *path, size_t size)
{
	const char *slash = slurm_conf ? strrchr(slurm_conf, '/') : NULL;
	char beside[4096];

	snprintf(beside, sizeof(beside), "%.*s/p4d.conf", slash ? (int)(slash - slurm_conf) : 1,
		 slash ? slurm_conf : ".");
	const bool here = slurm_conf && exists(beside);
	if (!here) {
		snprintf(path, size, "%s/p4d.conf", P4D_SYSCONFDIR);
		if (!slurm_conf || exists(path))
			return exists(path);
	}
	snprintf(path, size, "%s", beside);
	return here;
}
