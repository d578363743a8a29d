/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json_text.h"
#include "data/sampler.h"
#include "model/weights.h"
#include "run/job_plan.h"
#include "run/settings.h"
#include "trainer/trainer.h"

typedef struct p4d_train_data p4d_train_data;

/* A data set for validation. */
typedef struct p4d_validation {
	char name[64]; /* "": it is the only set, and has no name */
	p4d_sampler *sampler;
	const p4d_train_data *of;
} p4d_validation;

/* The samples of one rank. Zero before use. */
struct p4d_train_data {
	const p4d_layout *layout;
	p4d_place place;
	p4d_sampler *training; /* NULL: no training */
	p4d_validation validation[P4D_SETTING_TEXTS];
	unsigned validations;
	/*
	 * log-probabilities (pairs, 2) in the order of p4d_sampler_place; NAN: not measured yet; NULL: no
	 * pairs
	 */
	double *reference;
	uint64_t samples, valid_samples; /* hashes by p4d_sampler_hash: of the training data, and of all
					    validation data; 0: none */
	uint64_t best_samples; /* hash of the first validation set's batches; the lowest loss is only
				  comparable between equal hashes */
};

/*
 * Fills settings whose defaults follow from the data. Data with a loss mask are packed, and packed documents
 * do not attend to each other. Errors: USAGE if given settings contradict each other.
 */
int p4d_train_data_complete(p4d_settings *settings, p4d_error *err);
/*
 * Sets the option document-len from the data's index if p4d-train masks documents on GPUs and the user did
 * not set the option. Returns whether it did.
 */
bool p4d_train_data_document_len(p4d_settings *settings);

/*
 * The number of steps for --epochs: whole global batches in this many passes over the training data. Errors:
 * VALUE (less than one step; --data is a blend with weights), DATA, NO_MEMORY.
 */
int p4d_train_data_steps(p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err);

/* Opens the data; the struct must stay at its address. Errors: DATA, VALUE, NO_MEMORY; USAGE if names of
 * sets are missing or equal. */
int p4d_train_data_open(p4d_train_data *data, const p4d_settings *settings, const p4d_job_plan *plan,
			p4d_place place, p4d_error *err);
/*
 * put_reference stores the reference's log-probabilities for the batch of a step (global_batch, 2).
 * has_reference returns whether all of a batch's are known.
 */
void p4d_train_data_put_reference(p4d_train_data *data, uint64_t step, const double *sums);
bool p4d_train_data_has_reference(p4d_train_data *data, uint64_t step);

/*
 * Prints a description of the training data, for the first line of the log: as JSON, and as text for people.
 */
void p4d_train_data_say(const p4d_train_data *data, const p4d_settings *settings, p4d_text *json, char *text,
			size_t size);
void p4d_train_data_close(p4d_train_data *data);

/*
 * Each is a p4d_batch_source (net.h). context is the p4d_train_data or, for validation, one of its
 * p4d_validations. Steps count from 1.
 */
int p4d_train_data_training_batch(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
				  p4d_error *err);
int p4d_train_data_validation_batch(void *context, uint64_t step, uint32_t micro_batch,
				    const p4d_batch *batch, p4d_error *err);
