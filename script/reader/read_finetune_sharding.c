/* SPDX-License-Identifier: Apache-2.0 */
/* The framework that shards a fine-tuning, according to accelerate's, the Trainer's or DeepSpeed's
 * configuration: FSDP, ZeRO, or none. */
#include "reader/read_finetune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(name) p4d_finetune__extra(r, P4D_FINETUNE_##name)

static bool has_word(const p4d_read_value *value, const char *word)
{
	return p4d_reader__set(value) && strstr(value->text, word);
}

/*
 * Sets FSDP's version (1 or 2), and the units of FSDP1. by_trainer: the Trainer's options ask for FSDP, so
 * the default version depends on its release. Otherwise accelerate's default applies, version 1.
 */
static void finish_units(p4d_reading *r, bool by_trainer)
{
	const p4d_read_value *version = AT(FSDP_VERSION), *wrap = AT(FSDP_WRAP);
	const bool layers = p4d_reader__set(wrap) ? p4d_reader__is(wrap, "layers")
						  : by_trainer && has_word(AT(FSDP), "auto_wrap");

	p4d_finetune__put_if_set(r, P4D_FSDP_VERSION, version);
	if (!p4d_reader__set(version) && !version->unknown && !by_trainer)
		p4d_reader__put_default(r, P4D_FSDP_VERSION, "1");
	if (!p4d_reader__is(&r->value[P4D_FSDP_VERSION], "1"))
		return;
	if (!layers) {
		p4d_reader__forget(r, P4D_FSDP_VERSION);
		p4d_reader__unknown(r, "fsdp-version",
				    "p4d does not model FSDP1 whose units are not the layers");
		return;
	}
	p4d_finetune__put_if_set(r, P4D_BACKWARD_PREFETCH, AT(FSDP_PREFETCH));
	if (!p4d_reader__set(AT(FSDP_PREFETCH)))
		p4d_reader__put_default(r, P4D_BACKWARD_PREFETCH, "off");
	p4d_finetune__put_if_set(r, P4D_ORIG_PARAMS, AT(FSDP_ORIG_PARAMS));
	p4d_finetune__put_if_set(r, P4D_FORWARD_PREFETCH, AT(FSDP_FORWARD));
	if (p4d_reader__is(AT(FSDP_LIMIT), "off"))
		p4d_reader__doubt(
		    r, "limit_all_gathers",
		    "FSDP may gather parameters early, which takes more memory than p4d counts");
}

/*
 * The Trainer's FSDP (training_args.py of 4.48 to 5.24). Before 5.0 it is version 1, whatever the
 * configuration says; before 5.10, version 1 is the default. Before 5.4, version 2 keeps parameters gathered
 * unless an option asks it to reshard.
 */
void p4d_finetune__released(p4d_reading *r, const p4d_read_release *release)
{
	p4d_read_value *version = AT(FSDP_VERSION);
	const bool told = p4d_reader__set(version);
	const bool of_trainer =
	    version->argument && !strncmp(version->argument, "--fsdp_config.", strlen("--fsdp_config."));
	const unsigned long at = 100 * release->major + release->minor;

	if (!p4d_reader__set(AT(FSDP)) || version->unknown ||
	    (told && !(of_trainer && p4d_reader__is(version, "2"))))
		return;
	if (!at) {
		p4d_reader__doubt(r, "fsdp-version",
				  told
				      ? "the release of transformers: before 5.0 it always uses FSDP1, and "
					"before 5.4 parameters stay gathered"
				      : "the release of transformers: before 5.10 it uses FSDP1, which keeps "
					"parameters outside of layers gathered");
	} else if (at < 500 || (!told && at < 510)) {
		*version = release->place;
		snprintf(version->text, sizeof(version->text), "1");
		finish_units(r, true);
	} else if (told && at < 504 && !p4d_reader__set(AT(FSDP_STRATEGY))) {
		p4d_reader__put(r, P4D_RESHARD, &release->place, "off");
	}
}

/* Sets the framework and its sharding from FSDP's options. place: where the script asks for FSDP. */
static void finish_fsdp(p4d_reading *r, const p4d_read_value *place)
{
	const p4d_read_value *fsdp = AT(FSDP), *strategy = AT(FSDP_STRATEGY), *offload = AT(FSDP_OFFLOAD);
	const bool hybrid = has_word(fsdp, "hybrid_shard") || p4d_reader__is(strategy, "hybrid");

	p4d_reader__put(r, P4D_FRAMEWORK, place, "fsdp");
	finish_units(r, place == fsdp);
	if (has_word(fsdp, "shard_grad_op") || p4d_reader__is(strategy, "grad"))
		p4d_reader__put(r, P4D_RESHARD, p4d_reader__is(strategy, "grad") ? strategy : fsdp, "off");
	if (p4d_reader__is(strategy, "none"))
		p4d_reader__put(r, P4D_SHARD_DEGREE, strategy, "1");
	if (hybrid && p4d_reader__set(&r->value[P4D_GPUS_PER_NODE]))
		p4d_reader__put(r, P4D_SHARD_DEGREE, p4d_reader__set(fsdp) ? fsdp : strategy, "%s",
				r->value[P4D_GPUS_PER_NODE].text);
	else if (hybrid)
		p4d_reader__unknown(r, "shard-degree", "the number of GPUs of a node");
	if (p4d_reader__set(offload) || has_word(fsdp, "offload"))
		p4d_reader__put(r, P4D_OFFLOAD, p4d_reader__set(offload) ? offload : fsdp, "params");
}

static void finish_zero(p4d_reading *r, const p4d_read_value *place)
{
	const p4d_read_value *stage = AT(ZERO_STAGE), *optimizer = AT(OFFLOAD_OPTIMIZER),
			     *params = AT(OFFLOAD_PARAMS), *bucket = AT(ZERO_BUCKET);
	const bool optimizer_out = p4d_reader__is(optimizer, "cpu"),
		   params_out = p4d_reader__is(params, "cpu");

	p4d_reader__put(r, P4D_FRAMEWORK, place, "deepspeed");
	if (p4d_reader__set(stage) && !p4d_finetune__is_auto(stage))
		p4d_reader__put(r, P4D_ZERO_STAGE, stage, "%s", stage->text);
	else if (!stage->unknown && p4d_reader__set(AT(DEEPSPEED_MICRO)))
		p4d_reader__put(r, P4D_ZERO_STAGE, place,
				"0"); /* DeepSpeed's configuration has no section about ZeRO */
	else
		p4d_reader__unknown(r, "zero-stage",
				    "the value is in a configuration file that p4d did not read");
	if (p4d_reader__set(bucket))
		p4d_reader__put(r, P4D_ZERO_BUCKET, bucket, "%.0f",
				p4d_finetune__is_auto(bucket) ? 0 : strtod(bucket->text, NULL));
	p4d_finetune__put_if_set(r, P4D_OVERLAP_DP, AT(ZERO_OVERLAP));
	r->saves_on_host = p4d_reader__is(AT(ZERO_GATHER), "on");
	/* If one of these values is unknown, p4d assumes the default. A usual value changes memory by at
	 * most 1 GiB, so p4d reports the assumption and still judges the job. */
	for (unsigned i = 0; i < r->unknowns; i++)
		if (strstr(r->unknown[i].name, "reduce_bucket_size") ||
		    strstr(r->unknown[i].name, "overlap_comm") ||
		    strstr(r->unknown[i].name, "contiguous_gradients"))
			r->unknown[i].doubt = true;
	if (p4d_reader__is(optimizer, "nvme") || p4d_reader__is(params, "nvme"))
		p4d_reader__unknown(r, "offload", "p4d does not model offloading to nvme");
	if (optimizer_out || params_out)
		p4d_reader__put(r, P4D_OFFLOAD, optimizer_out ? optimizer : params, "%s%s%s",
				optimizer_out ? "optimizer" : "", optimizer_out && params_out ? "," : "",
				params_out ? "params" : "");
}

void p4d_finetune__distribution(p4d_reading *r)
{
	const p4d_read_value *told = AT(DISTRIBUTED), *stage = AT(ZERO_STAGE), *fsdp = AT(FSDP),
			     *file = AT(DEEPSPEED_FILE);
	/* without a configuration file, a ZeRO stage counts only if accelerate uses DeepSpeed */
	const bool other = p4d_reader__set(told) && !p4d_reader__is(told, "deepspeed");
	const p4d_read_value *zero = p4d_reader__set(file)               ? file
				     : p4d_reader__set(stage) && !other  ? stage
				     : p4d_reader__is(told, "deepspeed") ? told
									 : NULL;
	const bool uses_fsdp = p4d_reader__set(fsdp) && *fsdp->text && strcmp(fsdp->text, "False") != 0 &&
			       strcmp(fsdp->text, "false") != 0;

	if (p4d_reader__set(&r->value[P4D_FRAMEWORK]))
		return;
	if (zero)
		finish_zero(r, zero);
	else if (uses_fsdp || p4d_reader__is(told, "fsdp"))
		finish_fsdp(r, uses_fsdp ? fsdp : told);
	else if (told->unknown || fsdp->unknown || stage->unknown)
		p4d_reader__forget(r, P4D_FRAMEWORK);
	else if (p4d_reader__set(told))
		p4d_reader__put(r, P4D_FRAMEWORK, told, "ddp");
	else
		p4d_reader__put_default(r, P4D_FRAMEWORK, "ddp");
}
