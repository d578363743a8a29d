/* SPDX-License-Identifier: Apache-2.0 */
/* The recomputed parts of layers with experts or latent attention: --recompute-modules. */
#include <inttypes.h>
#include <string.h>

#include "request/framework.h"
#include "request/layout_internal.h"

/* Words of Megatron-LM's --recompute-modules (transformer_config.py). */
static const struct {
	const char *name;
	unsigned module;
} names[] = {
    {"core_attn", P4D_MODULE_CORE_ATTENTION},
    {"layernorm", P4D_MODULE_LAYERNORM},
    {"mla_up_proj", P4D_MODULE_MLA_UP},
    {"mlp", P4D_MODULE_MLP},
    {"moe", P4D_MODULE_MOE},
    {"moe_act", P4D_MODULE_MOE_ACTIVATION},
    {"shared_experts", P4D_MODULE_SHARED_EXPERTS},
};

/*
 * Mask of the modules in a list of names, separated by commas (or '+' in tables); *unknown (may be NULL)
 * points to the first unknown name.
 */
static unsigned modules_of(const char *list, const char **unknown)
{
	unsigned modules = 0;

	for (const char *at = list; *at;) {
		const size_t length = strcspn(at, ",+");
		unsigned found = 0;
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			if (strlen(names[i].name) == length && !strncmp(names[i].name, at, length))
				found = names[i].module;
		if (!found && unknown && !*unknown)
			*unknown = at;
		modules |= found;
		at += length + (at[length] != '\0');
	}
	return modules;
}

/* Mask of the modules that the model has. */
static unsigned there(const p4d_layout *l)
{
	unsigned modules = P4D_MODULE_CORE_ATTENTION | P4D_MODULE_LAYERNORM;

	if (l->kv_rank)
		modules |= P4D_MODULE_MLA_UP;
	if (p4d_expert_layers_before(l, l->layers) < l->layers)
		modules |= P4D_MODULE_MLP;
	if (l->experts)
		modules |= P4D_MODULE_MOE | P4D_MODULE_MOE_ACTIVATION;
	if (l->shared_ffn)
		modules |= P4D_MODULE_SHARED_EXPERTS;
	return modules;
}

unsigned p4d_layout__modules(const p4d_request *r, const p4d_layout *l)
{
	unsigned modules = 0;

	if (!l->experts && !l->kv_rank)
		return 0;
	if (l->recompute == P4D_RECOMPUTE_MOE)
		return P4D_MODULE_MOE;
	if (l->recompute == P4D_RECOMPUTE_SELECTIVE)
		modules = *r->recompute_modules ? modules_of(r->recompute_modules, NULL)
						: P4D_MODULE_CORE_ATTENTION;
	modules &= there(l);
	/* these modules are a part of the recomputed module */
	return modules & P4D_MODULE_MOE
		   ? modules & ~(unsigned)(P4D_MODULE_MOE_ACTIVATION | P4D_MODULE_SHARED_EXPERTS)
		   : modules;
}

int p4d_layout__check_modules(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	const char *unknown = NULL;

	if (!*r->recompute_modules)
		return 0;
	const unsigned modules = modules_of(r->recompute_modules, &unknown);
	if (modules == P4D_MODULE_CORE_ATTENTION && !unknown) /* the default of Megatron-LM */
		return 0;
	if (unknown)
		return p4d_fail(err, P4D_E_VALUE, "recompute-modules: no module is named '%.*s'",
				(int)strcspn(unknown, ",+"), unknown);
	if (!p4d_heeds(r, l->framework, P4D_RECOMPUTE_MODULES)) {
		p4d_fail(err, P4D_E_VALUE, "recompute-modules has no effect with %s: they are Megatron-LM's",
			 p4d_framework_of(l->framework)->program);
		return p4d_fix(err, "leave out --p4d-recompute-modules");
	}
	if (!l->experts && !l->kv_rank) {
		p4d_fail(err, P4D_E_VALUE,
			 "recompute-modules needs a model with experts or latent attention");
		return p4d_fix(err, "leave out --p4d-recompute-modules");
	}
	if (p4d_is_stated(r, P4D_RECOMPUTE) && l->recompute != P4D_RECOMPUTE_SELECTIVE) {
		p4d_fail(err, P4D_E_VALUE, "recompute-modules has no effect without recompute=selective");
		return p4d_fix(err, "--p4d-recompute=selective");
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (modules & ~there(l) & names[i].module)
			return p4d_fail(
			    err, P4D_E_VALUE,
			    "recompute-modules: %s has no effect, because the model has no such module",
			    names[i].name);
	if (l->megatron.shared_overlap && modules & P4D_MODULE_SHARED_EXPERTS)
		return p4d_fail(err, P4D_E_VALUE,
				"shared-overlap=on: Megatron-LM does not recompute shared_experts then");
	return 0;
}

int p4d_layout__check_domains(const p4d_layout *l, p4d_error *err)
{
	if (l->expert_domains > 1 && (l->experts || l->finetune != P4D_TUNE_FULL))
		return p4d_fail(
		    err, P4D_E_UNMODELLED,
		    "expert-domains: p4d models them for dense models that are trained as a whole");
	if (l->dp % l->expert_domains == 0)
		return 0;
	uint64_t fits = l->expert_domains < l->dp ? l->expert_domains : l->dp;
	while (l->dp % fits)
		fits--;
	p4d_fail(err, P4D_E_VALUE,
		 "expert-domains=%" PRIu64 " does not divide the %" PRIu64 " data-parallel ranks",
		 l->expert_domains, l->dp);
	return p4d_fix(err, "--p4d-expert-domains=%" PRIu64, fits);
}
