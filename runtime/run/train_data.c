/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_data.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/*
 * Splits "NAME=FILE". Returns the file and, if `name` is not NULL, copies the name. "./a=b" is only a file.
 */
static const char *split_name(const char *text, char *name, size_t size)
{
	size_t length = 0;

	while (isalnum((unsigned char)text[length]) || (text[length] && strchr("_-.+", text[length])))
		length++;
	const bool named = length && length < size && text[length] == '=' && text[length + 1];
	snprintf(name, size, "%.*s", named ? (int)length : 0, text);
	return named ? text + length + 1 : text;
}

int p4d_train_data_complete(p4d_settings *s, p4d_error *err)
{
	char name[64];
	const char *data = s->data ? s->data : split_name(s->valid_data[0], name, sizeof(name));

	if (s->sequences < 0)
		s->sequences = p4d_sampler_is_masked(data) ? P4D_SEQUENCES_PACKED : P4D_SEQUENCES_CUT;
	if (s->document_mask < 0)
		s->document_mask = s->sequences == P4D_SEQUENCES_PACKED;
	if (s->sequences == P4D_SEQUENCES_CUT || s->document_mask)
		return 0;
	p4d_fail(
	    err, P4D_E_USAGE,
	    "--document-mask=off needs --sequences=cut: packed documents%s must not attend to each other",
	    p4d_sampler_is_masked(data) ? " (the default for data with a loss mask)" : "");
	return p4d_fix(err, "--document-mask=on, or --sequences=cut");
}

bool p4d_train_data_document_len(p4d_settings *s)
{
	p4d_request *r = &s->request;
	const bool masked = s->document_mask > 0 && s->data,
		   gpu = p4d_is_set(r, P4D_DEVICE) && p4d_on_gpu(r->value[P4D_DEVICE]);

	if (!masked || !gpu || p4d_is_set(r, P4D_DOCUMENT_LEN))
		return false;
	const uint64_t length = p4d_sampler_document_len(s->data);
	const int64_t most = p4d_request_option_info(P4D_DOCUMENT_LEN)->max;
	if (length)
		p4d_request_default(r, P4D_DOCUMENT_LEN, length < (uint64_t)most ? (int64_t)length : most,
				    P4D_BY_P4D);
	return length > 0;
}

static int open_one(p4d_sampler **sampler, const p4d_settings *settings, const p4d_job_plan *plan,
		    const char *path, double fraction, bool validate, p4d_error *err)
{
	p4d_sampler_options options = {
	    .seed = settings->seed,
	    .seq_len = plan->layout.seq_len,
	    .boundaries = settings->document_mask,
	    .packed = settings->sequences == P4D_SEQUENCES_PACKED,
	    .pairs = plan->layout.pairs,
	    /* the vocabulary without padding, because no token has the number of a padding row */
	    .tokens = {.vocabulary = (uint64_t)plan->request.value[P4D_VOCAB],
		       .delimiter = settings->delimiter == UINT64_MAX ? P4D_NO_DELIMITER
								      : (int64_t)settings->delimiter},
	    .validation = fraction,
	    .validate = validate,
	};

	return p4d_sampler_open(sampler, path, &options, err);
}

static int count_epoch(p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err)
{
	p4d_sampler *sampler;

	if (open_one(&sampler, settings, plan, settings->data, settings->valid_fraction, false, err) < 0)
		return -1;
	int rc = p4d_sampler_epoch(sampler, &settings->epoch_samples, err);
	p4d_sampler_close(sampler);
	if (rc == 0)
		return 0;
	p4d_error_in(err, "--epochs");
	return p4d_fix(err, "--steps N instead of --epochs");
}

int p4d_train_data_steps(p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err)
{
	const uint64_t batch = plan->layout.global_batch;

	if (count_epoch(settings, plan, err) < 0)
		return -1;
	/* Rounding may make the product slightly less than an integer, which must then still count. */
	const double steps =
	    floor(settings->epochs * (double)settings->epoch_samples / (double)batch * (1 + 1e-12));
	if (steps < 1 || steps > UINT32_MAX) {
		p4d_fail(err, P4D_E_VALUE,
			 "--epochs=%g of %" PRIu64 " sequences are %s with --global-batch=%" PRIu64,
			 settings->epochs, settings->epoch_samples,
			 steps < 1 ? "less than one step" : "more steps than p4d-train counts", batch);
		return p4d_fix(err, steps < 1 ? "use a larger --epochs or a smaller --global-batch"
					      : "a smaller --epochs");
	}
	return p4d_settings_put_steps(settings, (uint64_t)steps, err);
}

static p4d_validation *add_validation(p4d_train_data *data)
{
	p4d_validation *added = &data->validation[data->validations++];

	added->of = data;
	return added;
}

static int open_validations(p4d_train_data *data, const p4d_settings *settings, const p4d_job_plan *plan,
			    p4d_error *err)
{
	for (unsigned i = 0; settings->valid_data[i]; i++) {
		p4d_validation *added = add_validation(data);
		const char *path = split_name(settings->valid_data[i], added->name, sizeof(added->name));
		if (!added->name[0] && (i || settings->valid_data[1])) {
			p4d_fail(
			    err, P4D_E_USAGE,
			    "--valid-data %.300s: if there are several validation sets, each needs a name",
			    path);
			return p4d_fix(err, "--valid-data NAME=%.300s", path);
		}
		for (unsigned k = 0; k < i; k++)
			if (!strcmp(data->validation[k].name, added->name))
				return p4d_fail(err, P4D_E_USAGE,
						"--valid-data: two validation sets have the name %s",
						added->name);
		if (open_one(&added->sampler, settings, plan, path, 0, false, err) < 0)
			return -1;
	}
	return 0;
}

/* Refuses --delimiter for files that have an index, because they would ignore it. */
static int check_delimiter(const p4d_train_data *data, const p4d_settings *settings, p4d_error *err)
{
	bool taken = settings->delimiter == UINT64_MAX ||
		     (data->training && p4d_sampler_takes_delimiter(data->training));

	for (unsigned i = 0; i < data->validations; i++)
		taken = taken || p4d_sampler_takes_delimiter(data->validation[i].sampler);
	if (taken)
		return 0;
	p4d_fail(err, P4D_E_USAGE,
		 "--delimiter has no effect: the index of the data says where documents begin");
	return p4d_fix(err, "leave out --delimiter");
}

static int hash_all(p4d_train_data *data, const p4d_settings *settings, p4d_error *err)
{
	uint64_t hash;

	if (data->training && p4d_sampler_hash(data->training, &data->samples, err) < 0)
		return -1;
	for (unsigned i = 0; i < data->validations; i++) {
		if (p4d_sampler_hash(data->validation[i].sampler, &hash, err) < 0)
			return -1;
		const uint64_t both[] = {data->valid_samples, hash}, first[] = {hash, settings->eval_batches};
		data->valid_samples = i ? p4d_hash_bytes((const char *)both, sizeof(both)) : hash;
		data->best_samples =
		    i ? data->best_samples : p4d_hash_bytes((const char *)first, sizeof(first));
	}
	return 0;
}

static int open_reference(p4d_train_data *data, p4d_error *err)
{
	const uint64_t pairs = p4d_sampler_samples(data->training);

	data->reference = malloc(2 * pairs * sizeof(*data->reference));
	for (uint64_t i = 0; data->reference && i < 2 * pairs; i++)
		data->reference[i] = (double)NAN;
	return data->reference ? 0
			       : p4d_fail(err, P4D_E_NO_MEMORY,
					  "no memory for log-probabilities of %" PRIu64 " pairs", pairs);
}

static double *reference_of(p4d_train_data *data, uint64_t sample)
{
	return data->reference + 2 * p4d_sampler_place(data->training, sample);
}

void p4d_train_data_put_reference(p4d_train_data *data, uint64_t step, const double *sums)
{
	const uint64_t batch = data->layout->global_batch;

	for (uint64_t i = 0; i < batch; i++)
		memcpy(reference_of(data, (step - 1) * batch + i), sums + 2 * i, 2 * sizeof(*sums));
}

bool p4d_train_data_has_reference(p4d_train_data *data, uint64_t step)
{
	const uint64_t batch = data->layout->global_batch;

	for (uint64_t i = 0; i < batch; i++)
		if (isnan(*reference_of(data, (step - 1) * batch + i)))
			return false;
	return true;
}

int p4d_train_data_open(p4d_train_data *data, const p4d_settings *settings, const p4d_job_plan *plan,
			p4d_place place, p4d_error *err)
{
	int rc = 0;

	*data = (p4d_train_data){.layout = &plan->layout, .place = place};
	if (settings->data)
		rc = open_one(&data->training, settings, plan, settings->data, settings->valid_fraction,
			      false, err);
	if (rc == 0 && plan->layout.pairs)
		rc = open_reference(data, err);
	if (rc == 0 && settings->valid_fraction > 0)
		rc = open_one(&add_validation(data)->sampler, settings, plan, settings->data,
			      settings->valid_fraction, true, err);
	if (rc == 0)
		rc = open_validations(data, settings, plan, err);
	if (rc == 0)
		rc = check_delimiter(data, settings, err);
	if (rc == 0)
		rc = hash_all(data, settings, err);
	if (rc < 0)
		p4d_train_data_close(data);
	return rc;
}

void p4d_train_data_say(const p4d_train_data *data, const p4d_settings *settings, p4d_text *json, char *text,
			size_t size)
{
	const bool packed = settings->sequences == P4D_SEQUENCES_PACKED;
	const p4d_sampler_packing p = p4d_sampler_packing_of(data->training);
	const uint64_t tokens = p4d_sampler_tokens(data->training);
	int used = snprintf(text, size, "%" PRIu64 " in the data%s%s", tokens,
			    settings->document_mask ? ", documents masked" : "",
			    p4d_sampler_is_masked(settings->data) ? ", with a loss mask" : "");

	p4d_json_text_string(json, "document_mask", settings->document_mask ? "on" : "off");
	p4d_json_text_whole(json, "tokens", tokens);
	p4d_json_text_string(json, "sequences", packed ? "packed" : "cut");
	if (!packed)
		return;
	p4d_json_text_whole(json, "packed_sequences", p.sequences);
	p4d_json_text_whole(json, "packed_tokens", p.tokens);
	p4d_json_text_whole(json, "documents_cut", p.cut);
	used += snprintf(text + used, size - (size_t)used,
			 ", packed into %" PRIu64 " sequences (%.0f %% full)", p.sequences,
			 100 * (double)p.tokens / ((double)p.sequences * (double)data->layout->seq_len));
	if (p.cut)
		snprintf(text + used, size - (size_t)used,
			 "; %" PRIu64 " document%s cut at --seq-len, the longest has %" PRIu64 " tokens",
			 p.cut, p.cut == 1 ? " is" : "s are", p.longest);
}

void p4d_train_data_close(p4d_train_data *data)
{
	p4d_sampler_close(data->training);
	free(data->reference);
	for (unsigned i = 0; i < data->validations; i++)
		p4d_sampler_close(data->validation[i].sampler);
	*data = (p4d_train_data){.layout = NULL};
}

static int fill(const p4d_train_data *data, p4d_sampler *sampler, uint64_t step, uint32_t micro_batch,
		const p4d_batch *batch, p4d_error *err)
{
	const p4d_layout *l = data->layout;
	const p4d_samples part = {.tokens = batch->tokens, .labels = batch->labels};
	const p4d_samples whole = {.documents = batch->documents};
	const uint64_t own = p4d_rank_batch(l);
	const uint64_t first = p4d_first_sample((step - 1) * l->global_batch, micro_batch, l->micro_batch,
						data->place.dp, l->dp) +
			       p4d_place_grid(l, data->place).z * own;

	for (uint64_t i = 0; batch->reference && i < own; i++)
		memcpy(batch->reference + 2 * i, data->reference + 2 * p4d_sampler_place(sampler, first + i),
		       2 * sizeof(*batch->reference));
	if (batch->documents && p4d_sampler_fill(sampler, first, own, 0, 1, &whole, err) < 0)
		return -1;
	if (!batch->tokens && !batch->labels)
		return 0;
	return p4d_sampler_fill(sampler, first, own, data->place.cp, l->cp, &part, err);
}

int p4d_train_data_training_batch(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
				  p4d_error *err)
{
	const p4d_train_data *data = context;

	return fill(data, data->training, step, micro_batch, batch, err);
}

int p4d_train_data_validation_batch(void *context, uint64_t step, uint32_t micro_batch,
				    const p4d_batch *batch, p4d_error *err)
{
	const p4d_validation *validation = context;

	return fill(validation->of, validation->sampler, step, micro_batch, batch, err);
}
