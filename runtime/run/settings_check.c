/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which options of p4d-train go together, and fills defaults that follow from others. */
#include <inttypes.h>
#include <string.h>

#include "run/settings_internal.h"

/*
 * Returns the name of the first setting that was typed but is not in `used`, a list that ends with NULL;
 * NULL: there is none. Settings of --config do not count, because that file is for training.
 */
static const char *unused_setting(p4d_settings *s, const char *const *used)
{
	for (int i = 0; i < P4D_SETTINGS; i++) {
		const p4d_option_info *info = &p4d_settings__table[i];
		const int64_t otherwise = info->kind == P4D_TEXT_KIND ? 0 : p4d_settings__default(info);
		bool uses = i == P4D_SETTING_config || i == P4D_SETTING_print_config;
		for (size_t k = 0; used[k]; k++)
			uses = uses || !strcmp(used[k], info->name);
		if (uses || p4d_settings__get(s, (p4d_setting)i) == otherwise)
			continue;
		if (s->source[i] != P4D_SETTING_FILE)
			return info->name;
		p4d_settings__put(s, (p4d_setting)i, otherwise);
		s->source[i] = P4D_SETTING_DEFAULT;
	}
	return NULL;
}

/* Ignores a plan option that only the file sets. */
static void leave_out(p4d_settings *s, p4d_option option)
{
	if (!s->in_file[option])
		return;
	s->request.origin[option] = P4D_UNSET;
	s->request.value[option] = 0;
	s->in_file[option] = false;
}

static void set_device(p4d_settings *s)
{
	if (s->where != P4D_DEVICE_AUTO)
		p4d_request_put(&s->request, P4D_DEVICE, s->where == P4D_DEVICE_CPU ? P4D_CPU : P4D_CUDA,
				P4D_BY_USER);
}

/* --sample needs a layout that can generate text, and takes the model's sizes from the weights. */
static int check_sample(p4d_settings *s, p4d_error *err)
{
	static const char *const used[] = {"checkpoint",    "init-from", "sample",      "tokenizer",
					   "sample-tokens", "logits",    "temperature", "top-p",
					   "seed",          "device",    "threads",     "local-ranks",
					   "watchdog",      "comm",      NULL};

	if (!s->checkpoint && !s->init_from) {
		p4d_fail(err, P4D_E_USAGE,
			 "--sample needs --checkpoint (the directory of the run) or --init-from");
		return p4d_fix(err, "--checkpoint DIR");
	}
	const char *other = unused_setting(s, used);
	if (other)
		return p4d_fail(err, P4D_E_USAGE, "--sample ends without training: leave out --%s", other);
	if (s->source[P4D_SETTING_where] == P4D_SETTING_FILE)
		s->where = P4D_DEVICE_AUTO;
	if (s->where == P4D_DEVICE_CUDA)
		return p4d_fail(err, P4D_E_USAGE, "--sample always runs on CPUs: leave out --device");
	for (int i = 0; i < P4D_OPTIONS; i++) {
		if (i == P4D_TP || i == P4D_SEQ_LEN)
			continue;
		leave_out(s, (p4d_option)i);
		if (p4d_is_set(&s->request, (p4d_option)i))
			return p4d_fail(err, P4D_E_USAGE, "--%s has no effect with --sample",
					p4d_request_option_info((p4d_option)i)->name);
	}
	if (s->sample_tokens == UINT64_MAX)
		s->sample_tokens = 100;
	if (s->temperature < 0)
		s->temperature = 0;
	if (s->top_p < 0)
		s->top_p = 1;
	return 0;
}

static int check_evaluation(p4d_settings *s, p4d_error *err)
{
	static const char *const used[] = {"checkpoint",   "init-from", "valid-data", "eval-only",
					   "eval-batches", "sequences", "delimiter",  "document-mask",
					   "log",          "seed",      "device",     "threads",
					   "local-ranks",  "watchdog",  "comm",       NULL};
	const char *other = unused_setting(s, used);

	if (other)
		return p4d_fail(err, P4D_E_USAGE, "--eval-only ends without training: leave out --%s", other);
	if (!s->checkpoint && !s->init_from) {
		p4d_fail(err, P4D_E_USAGE,
			 "--eval-only needs --checkpoint (the directory of the run) or --init-from");
		return p4d_fix(err, "--checkpoint DIR");
	}
	if (!s->valid_data[0]) {
		p4d_fail(err, P4D_E_USAGE, "--eval-only needs data: --valid-data is missing");
		return p4d_fix(err, "--valid-data FILE");
	}
	leave_out(s, P4D_GLOBAL_BATCH);
	/* the checkpoint's model replaces the model that the file names */
	for (int i = 0; s->checkpoint && i < P4D_OPTIONS; i++)
		if (i == P4D_MODEL || (p4d_request_option_info((p4d_option)i)->where & P4D_WHERE_MODEL))
			leave_out(s, (p4d_option)i);
	set_device(s);
	return 0;
}

const char *p4d_settings__lacks(const p4d_settings *s, p4d_setting setting)
{
	const bool validates = s->valid_data[0] || s->valid_fraction > 0;
	const struct {
		p4d_setting setting;
		bool has;
		const char *needs;
	} needs[] = {
	    {P4D_SETTING_tokenizer, s->sample, "--sample"},
	    {P4D_SETTING_sample_tokens, s->sample, "--sample"},
	    {P4D_SETTING_logits, s->sample, "--sample"},
	    {P4D_SETTING_temperature, s->sample, "--sample"},
	    {P4D_SETTING_top_p, s->sample, "--sample"},
	    {P4D_SETTING_save_every, s->checkpoint, "--checkpoint"},
	    {P4D_SETTING_keep, s->checkpoint, "--checkpoint"},
	    {P4D_SETTING_resume, s->checkpoint, "--checkpoint"},
	    {P4D_SETTING_save_best, s->checkpoint, "--checkpoint"},
	    {P4D_SETTING_save_best, validates, "--valid-data or --valid-fraction"},
	    {P4D_SETTING_stop_after_worse, validates, "--valid-data or --valid-fraction"},
	    {P4D_SETTING_eval_every, validates, "--valid-data or --valid-fraction"},
	    {P4D_SETTING_eval_batches, validates, "--valid-data or --valid-fraction"},
	    {P4D_SETTING_decay, s->curve == P4D_WSD, "--schedule-lr=wsd"},
	    {P4D_SETTING_least_rate, s->curve != P4D_CONSTANT,
	     "a schedule that lowers the learning rate, such as --schedule-lr=linear"},
	};

	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
		if (needs[i].setting == setting && !needs[i].has)
			return needs[i].needs;
	return NULL;
}

/*
 * Refuses options without effect. Defaults are filled in later, so this finds only options that the user
 * gave.
 */
static int check_unused(const p4d_settings *s, p4d_error *err)
{
	for (int i = 0; i < P4D_SETTINGS; i++) {
		const p4d_option_info *info = &p4d_settings__table[i];
		const int64_t otherwise = info->kind == P4D_TEXT_KIND ? 0 : p4d_settings__default(info);
		const char *lacks = p4d_settings__get(s, (p4d_setting)i) == otherwise
					? NULL
					: p4d_settings__lacks(s, (p4d_setting)i);
		if (lacks)
			return p4d_fail(err, P4D_E_USAGE, "--%s has no effect without %s", info->name, lacks);
	}
	return 0;
}

int p4d_settings_put_steps(p4d_settings *s, uint64_t steps, p4d_error *err)
{
	s->steps = steps;
	if (s->warmup == UINT64_MAX)
		s->warmup = s->steps / 100;
	if (s->decay == UINT64_MAX)
		s->decay = s->steps / 5;
	if (s->warmup > s->steps)
		return p4d_fail(err, P4D_E_VALUE, "--warmup=%" PRIu64 " is above %s%" PRIu64, s->warmup,
				s->epochs > 0 ? "the steps of --epochs, " : "--steps=", s->steps);
	return 0;
}

static int check_length(const p4d_settings *s, p4d_error *err)
{
	if (!s->data) {
		p4d_fail(err, P4D_E_USAGE, "--data is missing");
		return p4d_fix(err, "--data FILE");
	}
	if (!s->steps && !(s->epochs > 0)) {
		p4d_fail(err, P4D_E_USAGE, "--steps or --epochs is missing");
		return p4d_fix(err, "--steps N");
	}
	if (s->steps && s->epochs > 0)
		return p4d_fail(err, P4D_E_USAGE, "--steps and --epochs are mutually exclusive");
	return 0;
}

static int complete_training(p4d_settings *s, p4d_error *err)
{
	if (check_length(s, err) < 0)
		return -1;
	if (s->valid_data[0] && s->valid_fraction > 0)
		return p4d_fail(err, P4D_E_USAGE, "--valid-data and --valid-fraction are mutually exclusive");
	if (s->least_rate < 0)
		s->least_rate = s->rate / 10;
	if (s->eval_every == UINT64_MAX)
		s->eval_every = 100;
	if (s->eval_batches == UINT64_MAX)
		s->eval_batches = 1;
	if (s->save_every == UINT64_MAX)
		s->save_every = 1000;
	if (s->keep == UINT64_MAX)
		s->keep = 3;
	if (s->least_rate > s->rate)
		return p4d_fail(err, P4D_E_VALUE, "--min-lr=%g is above --lr=%g", s->least_rate, s->rate);
	set_device(s);
	return s->steps ? p4d_settings_put_steps(s, s->steps, err) : 0;
}

int p4d_settings__complete(p4d_settings *s, p4d_error *err)
{
	if (s->sample || s->eval_only) {
		const int rc = s->sample ? check_sample(s, err) : check_evaluation(s, err);
		return rc < 0 ? rc : check_unused(s, err);
	}
	return check_unused(s, err) < 0 ? -1 : complete_training(s, err);
}
