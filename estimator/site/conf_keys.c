/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of p4d.conf, and the sections in which they are allowed. */
#include <stdio.h>

#include "site/site_internal.h"

#define GLOBAL (1u << P4D_GLOBAL_SECTION)
#define GPU (1u << P4D_GPU_SECTION)
#define PARTITION (1u << P4D_PARTITION_SECTION)
#define QOS (1u << P4D_QOS_SECTION)
#define ACCOUNT (1u << P4D_ACCOUNT_SECTION)
#define USER (1u << P4D_USER_SECTION)
#define RESERVATION (1u << P4D_RESERVATION_SECTION)
#define PROGRAM_OF_SCRIPTS (1u << P4D_PROGRAM_SECTION)
#define FRAMEWORK (1u << P4D_FRAMEWORK_SECTION)
#define SECTIONS (GPU | PARTITION | QOS | ACCOUNT | USER | RESERVATION)
#define ANY (GLOBAL | SECTIONS)

#define CHOICE(list) .type = P4D_CONF_CHOICE, .choices = (list)
#define BOOLEAN .type = P4D_CONF_BOOLEAN
#define FRACTION .type = P4D_CONF_FRACTION
#define GIB .type = P4D_CONF_GIB
#define COUNT(largest) .type = P4D_CONF_COUNT, .most = (largest)
#define NUMBER(smallest, largest) .type = P4D_CONF_NUMBER, .least = (smallest), .most = (largest)
#define DATE .type = P4D_CONF_DATE
#define STRING .type = P4D_CONF_STRING
#define NAMES .type = P4D_CONF_NAMES
#define TEXT .type = P4D_CONF_TEXT

#define POLICY(member) .owner = P4D_CONF_OF_POLICY, .offset = offsetof(p4d_policy, member)
#define PARTITION_MEMBER(member) \
	.owner = P4D_CONF_OF_PARTITION, .offset = offsetof(p4d_site_partition, member)
#define SITE(member) .owner = P4D_CONF_OF_SITE, .offset = offsetof(struct p4d_site, member)
#define OTHER .owner = P4D_CONF_OF_NONE

#define LARGER .stricter = 1
#define SMALLER .stricter = -1
#define NEITHER .stricter = 0

/* Choices are stored as int. */
_Static_assert(sizeof(p4d_mode) == sizeof(int) && sizeof(p4d_log) == sizeof(int), "enumerations");

const p4d_conf_key_info p4d_conf__key_table[P4D_KEYS] = {
#define KEY(id, text, sections, type, member, stricter) \
	{.name = (text), .where = (sections), type, member, stricter},
#include "site/conf_keys.def"
#undef KEY
};

const char *const p4d_conf__section_names[P4D_SECTION_KINDS] = {
    [P4D_GLOBAL_SECTION] = "",
    [P4D_GPU_SECTION] = "gpu",
    [P4D_PARTITION_SECTION] = "partition",
    [P4D_QOS_SECTION] = "qos",
    [P4D_ACCOUNT_SECTION] = "account",
    [P4D_USER_SECTION] = "user",
    [P4D_RESERVATION_SECTION] = "reservation",
    [P4D_PROGRAM_SECTION] = "program",
    [P4D_FRAMEWORK_SECTION] = "framework",
    [P4D_DEFAULTS_SECTION] = "defaults",
};

size_t p4d_conf__member_bytes(p4d_conf_key key)
{
	static const size_t bytes[] = {
	    [P4D_CONF_CHOICE] = sizeof(int),      [P4D_CONF_BOOLEAN] = sizeof(bool),
	    [P4D_CONF_FRACTION] = sizeof(double), [P4D_CONF_GIB] = sizeof(uint64_t),
	    [P4D_CONF_COUNT] = sizeof(uint32_t),  [P4D_CONF_DATE] = sizeof(int64_t),
	    [P4D_CONF_NAMES] = sizeof(char *),    [P4D_CONF_STRING] = sizeof(char *),
	    [P4D_CONF_NUMBER] = sizeof(double)};

	return bytes[p4d_conf__key_table[key].type];
}

bool p4d_conf__folds_case(p4d_conf_section_kind kind)
{
	return kind == P4D_GPU_SECTION || kind == P4D_QOS_SECTION || kind == P4D_ACCOUNT_SECTION;
}

const char *p4d_conf__default_name(p4d_option option, char *buf, size_t size)
{
	const p4d_option_info *info = p4d_request_option_info(option);
	const unsigned wanted = P4D_WHERE_SLURM | P4D_WHERE_PLAN;

	buf[0] = '\0';
	/* a text such as the model or its pipeline split describes one job, not a site */
	if ((info->where & (wanted | P4D_WHERE_MODEL)) != wanted || info->kind == P4D_TEXT_KIND)
		return buf;
	snprintf(buf, size, "%s", info->name);
	for (char *at = buf; *at; at++)
		if (*at == '-')
			*at = '_';
	return buf;
}
