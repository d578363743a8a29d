/* SPDX-License-Identifier: Apache-2.0 */
/* What may stand in p4d.conf, and where. */
#include <stdio.h>

#include "site/conf.h"

#define GLOBAL (1u << P4D_GLOBAL_SECTION)
#define GPU (1u << P4D_GPU_SECTION)
#define PARTITION (1u << P4D_PARTITION_SECTION)
#define QOS (1u << P4D_QOS_SECTION)
#define ACCOUNT (1u << P4D_ACCOUNT_SECTION)
#define ANY (GLOBAL | GPU | PARTITION | QOS | ACCOUNT)

const p4d_conf_key_info p4d_conf__key_table[P4D_KEYS] = {
    [P4D_KEY_MODE] = {"mode", ANY, false},
    [P4D_KEY_SAFE] = {"safe", ANY, false},
    [P4D_KEY_LIMIT] = {"limit", ANY, false},
    [P4D_KEY_REWRITE] = {"rewrite", ANY, false},
    [P4D_KEY_UNMODELLED] = {"unmodelled", ANY, false},
    [P4D_KEY_ALLOW_OVERRIDE] = {"allow_override", ANY, false},
    [P4D_KEY_ON_ERROR] = {"on_error", GLOBAL | PARTITION, false},
    [P4D_KEY_REQUIRE_PLAN] = {"require_plan", PARTITION, false},
    [P4D_KEY_REQUIRE_PLAN_LIST] = {"require_plan", GLOBAL, true},
    [P4D_KEY_EXEMPT_ACCOUNTS] = {"exempt_accounts", GLOBAL, true},
    [P4D_KEY_EXEMPT_QOS] = {"exempt_qos", GLOBAL, true},
    [P4D_KEY_LOG] = {"log", GLOBAL, false},
    [P4D_KEY_DATA] = {"data", GLOBAL, false},
    [P4D_KEY_GPUS] = {"gpus", GLOBAL, false},
    [P4D_KEY_HOST_GIB_PER_RANK] = {"host_gib_per_rank", GLOBAL, false},
    [P4D_KEY_VERSION] = {"version", GLOBAL, false},
    [P4D_KEY_GPU] = {"gpu", PARTITION, true},
    [P4D_KEY_GPUS_PER_NODE] = {"gpus_per_node", PARTITION, false},
    [P4D_KEY_MEM_PER_NODE_GIB] = {"mem_per_node_gib", PARTITION, false},
    [P4D_KEY_DEFAULT] = {"default", PARTITION, false},
    [P4D_KEY_NAME] = {"name", GPU, false},
    [P4D_KEY_USABLE_GIB] = {"usable_gib", GPU, false},
};

const char *const p4d_conf__section_names[P4D_SECTION_KINDS] = {
    [P4D_GLOBAL_SECTION] = "", [P4D_GPU_SECTION] = "gpu",         [P4D_PARTITION_SECTION] = "partition",
    [P4D_QOS_SECTION] = "qos", [P4D_ACCOUNT_SECTION] = "account", [P4D_DEFAULTS_SECTION] = "defaults",
};

const char *p4d_conf__default_name(p4d_option option, char *buf, size_t size)
{
	const p4d_option_info *info = p4d_request_option_info(option);
	const unsigned wanted = P4D_WHERE_SLURM | P4D_WHERE_PLAN;

	buf[0] = '\0';
	/* texts (the model, the split of its layers) describe one job, not a site */
	if ((info->where & (wanted | P4D_WHERE_MODEL)) != wanted || info->kind == P4D_TEXT_KIND)
		return buf;
	snprintf(buf, size, "%s", info->name);
	for (char *at = buf; *at; at++)
		if (*at == '-')
			*at = '_';
	return buf;
}
