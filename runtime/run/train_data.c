/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_data.h"

static int open_one(p4d_sampler **sampler, const p4d_settings *settings, const p4d_job_plan *plan,
		    const char *path, double fraction, bool validate, p4d_error *err)
{
	p4d_sampler_options options = {
	    .seed = settings->seed,
	    .seq_len = plan->layout.seq_len,
	    .boundaries = settings->document_mask,
	    /* padded rows belong to no token */
	    .tokens = {.vocabulary = (uint64_t)plan->request.value[P4D_VOCAB],
		       .delimiter = settings->delimiter == UINT64_MAX ? P4D_NO_DELIMITER
								      : (int64_t)settings->delimiter},
	    .validation = fraction,
	    .validate = validate,
	};

	return p4d_sampler_open(sampler, path, &options, err);
}

int p4d_train_data_open(p4d_train_data *data, const p4d_settings *settings, const p4d_job_plan *plan,
			p4d_place place, p4d_error *err)
{
	int rc;

	*data = (p4d_train_data){.layout = &plan->layout, .place = place};
	rc = open_one(&data->training, settings, plan, settings->data, settings->valid_fraction, false, err);
	if (rc == 0 && settings->valid_data)
		rc = open_one(&data->validation, settings, plan, settings->valid_data, 0, false, err);
	else if (rc == 0 && settings->valid_fraction > 0)
		rc = open_one(&data->validation, settings, plan, settings->data, settings->valid_fraction,
			      true, err);
	if (rc == 0)
		rc = p4d_sampler_hash(data->training, &data->samples, err);
	if (rc == 0 && data->validation)
		rc = p4d_sampler_hash(data->validation, &data->valid_samples, err);
	if (rc < 0)
		p4d_train_data_close(data);
	return rc;
}

void p4d_train_data_close(p4d_train_data *data)
{
	p4d_sampler_close(data->training);
	p4d_sampler_close(data->validation);
	*data = (p4d_train_data){.layout = NULL};
}

static int fill(const p4d_train_data *data, p4d_sampler *sampler, uint64_t step, uint32_t micro_batch,
		const p4d_batch *batch, p4d_error *err)
{
	const p4d_layout *l = data->layout;
	const p4d_samples part = {.tokens = batch->tokens, .labels = batch->labels};
	const p4d_samples whole = {.documents = batch->documents};
	uint64_t first = p4d_first_sample((step - 1) * l->global_batch, micro_batch, l->micro_batch,
					  data->place.dp, l->dp);

	if (batch->documents && p4d_sampler_fill(sampler, first, l->micro_batch, 0, 1, &whole, err) < 0)
		return -1;
	if (!batch->tokens && !batch->labels)
		return 0;
	return p4d_sampler_fill(sampler, first, l->micro_batch, data->place.cp, l->cp, &part, err);
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
	const p4d_train_data *data = context;

	return fill(data, data->validation, step, micro_batch, batch, err);
}
