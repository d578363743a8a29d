/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about a run at its start and at its end. */
#include "run/train_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/rank_error.h"
#include "run/stop.h"

/* "3 validations in a row without a loss below 1.8921 of step 200" */
static const char *worse_text(const p4d_run *run, char text[128])
{
	const p4d_best_loss *best = &run->best;
	int used = snprintf(text, 128, "%" PRIu64 " validation%s in a row without a", best->worse,
			    best->worse == 1 ? "" : "s");

	if (best->step)
		snprintf(text + used, 128 - (size_t)used, " loss below %.4f of step %" PRIu64, best->loss,
			 best->step);
	else
		snprintf(text + used, 128 - (size_t)used, " finite loss");
	return text;
}

/* Prints that the run had already ended, so repeating the command does nothing. */
static void say_nothing_left(const p4d_run *run)
{
	char worse[128];
	p4d_error err;

	if (!run->leads)
		return;
	if (p4d_train__is_worse(run)) {
		p4d_fail(&err, P4D_E_NO_EFFECT, "step %" PRIu64 ": %s, so there is nothing to train",
			 run->step, worse_text(run, worse));
		p4d_fix(&err, "use a larger --stop-after-worse");
		p4d_rank_report(&err, NULL, 0);
	}
	if (run->step < run->settings->steps)
		return;
	p4d_fail(&err, P4D_E_NO_EFFECT,
		 "--steps=%" PRIu64 ": the checkpoint is already of step %" PRIu64
		 ", so there is nothing to train",
		 run->settings->steps, run->step);
	p4d_rank_report(&err, NULL, 0);
}

/*
 * Warns if attention uses p4d's own kernels, which may take most of a step. The start line is already long,
 * so this is a line of its own.
 */
static void say_slow_attention(const p4d_run *run)
{
	p4d_error err;

	if (!run->leads || !run->device.attention_slow || run->plan->layout.precision != P4D_BF16)
		return;
	p4d_fail(&err, P4D_E_DEVICE, "attention is computed by %s, many times slower than by cuDNN",
		 run->device.attention_text);
	if (run->device.lacks_cudnn)
		p4d_fix(&err, "put the directory of libcudnn.so.9 (9.15.1 or later) into LD_LIBRARY_PATH; to "
			      "accept slow attention, set P4D_CUDNN=0");
	else if (run->plan->no_documents)
		p4d_fix(&err, "a smaller --micro-batch: the memory that cuDNN needs for packed documents "
			      "does not fit into the GPU");
	else if (strstr(run->device.attention_text, "--document-len"))
		p4d_fix(&err,
			"submit the job with --p4d-document-len, the mean number of tokens of a document");
	p4d_rank_report(&err, NULL, 0);
}

/*
 * Warns if sequences are longer than those that the model was trained on. RoPE can encode any position, but
 * the model is good only at positions that it has seen.
 */
static void say_beyond(const p4d_run *run)
{
	const p4d_request *r = &run->plan->request;
	p4d_error err;

	if (!run->leads || !p4d_is_set(r, P4D_MAX_SEQ_LEN) ||
	    r->value[P4D_SEQ_LEN] <= r->value[P4D_MAX_SEQ_LEN])
		return;
	p4d_fail(
	    &err, P4D_E_ASSUMED,
	    "--seq-len=%" PRId64 " is above the %" PRId64
	    " positions of %.200s: p4d-train assumes that the model should learn the additional positions",
	    r->value[P4D_SEQ_LEN], r->value[P4D_MAX_SEQ_LEN], r->model);
	p4d_fix(&err, "--max-seq-len=%" PRId64, r->value[P4D_SEQ_LEN]);
	p4d_rank_report(&err, NULL, 0);
}

/* "; 3 epochs of 12345 sequences are 289 steps of 128"; "" without --epochs. */
static const char *epochs_text(const p4d_run *run, p4d_text *json, char text[128])
{
	const p4d_settings *s = run->settings;

	text[0] = '\0';
	p4d_json_text_whole(json, "steps", s->steps);
	if (!s->epoch_samples)
		return text;
	p4d_json_text_real(json, "epochs", s->epochs);
	p4d_json_text_whole(json, "epoch_sequences", s->epoch_samples);
	snprintf(text, 128, "; %g epoch%s of %" PRIu64 " sequences %s %" PRIu64 " step%s of %" PRIu64,
		 s->epochs, s->epochs > 1 ? "s" : "", s->epoch_samples, s->epochs > 1 ? "are" : "is",
		 s->steps, s->steps == 1 ? "" : "s", run->plan->layout.global_batch);
	return text;
}

/* Prints sequence length and batch size if neither the user nor a plan line gives them. */
static void say_assumed(const p4d_run *run)
{
	const p4d_request *r = &run->plan->request;
	const p4d_option options[] = {P4D_SEQ_LEN, P4D_GLOBAL_BATCH};
	char text[80] = "";
	p4d_error err;

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (r->origin[options[i]] == P4D_BY_P4D) {
			const size_t used = strlen(text);
			snprintf(text + used, sizeof(text) - used, "%s--%s=%" PRId64, used ? " " : "",
				 p4d_request_option_info(options[i])->name, r->value[options[i]]);
		}
	if (!run->leads || run->plan->planned || !text[0])
		return;
	p4d_fail(&err, P4D_E_ASSUMED, "p4d-train assumes %s, which affects the trained model", text);
	p4d_fix(&err, "%s", text);
	p4d_rank_report(&err, NULL, 0);
}

static void say_layout(p4d_run *run)
{
	const p4d_layout *l = &run->plan->layout;
	const char *comm = p4d_comm_transport_name(run->transport);
	const char *no_gpu = run->plan->no_gpu;
	char device[768], text[1600], data[256], cp_comm[16], tp[P4D_TP_TEXT], epochs[128];
	p4d_step_event event;

	if (!run->leads)
		return;
	snprintf(device, sizeof(device), "%s%s%s%s%s%s",
		 run->device.text[0] ? run->device.text : run->device.name, no_gpu[0] ? " (" : "", no_gpu,
		 no_gpu[0] ? ")" : "", run->device.attention_text[0] ? ", attention: " : "",
		 run->device.attention_text);
	p4d_text *json = p4d_step_event_begin(&event, "start");
	p4d_json_text_whole(json, "ranks", l->world);
	p4d_json_text_whole(json, "tp", p4d_tp_ranks(l));
	p4d_json_text_whole(json, "cp", l->cp);
	p4d_json_text_whole(json, "pp", l->pp);
	p4d_json_text_whole(json, "dp", l->dp);
	p4d_json_text_whole(json, "vpp", l->vpp);
	if (l->local_loss)
		p4d_json_text_string(json, "local_loss", "stage");
	p4d_json_text_string(json, "cp_comm",
			     p4d_request_choice_name(P4D_CP_COMM, l->cp_comm, cp_comm, sizeof(cp_comm)));
	p4d_json_text_whole(json, "seq_len", l->seq_len);
	p4d_json_text_whole(json, "micro_batch", l->micro_batch);
	p4d_json_text_whole(json, "global_batch", l->global_batch);
	p4d_train_data_say(&run->data, run->settings, json, data, sizeof(data));
	epochs_text(run, json, epochs);
	p4d_json_text_whole(json, "arena_bytes", p4d_trainer_arena_bytes(run->trainer));
	p4d_json_text_whole(json, "resumed_step", run->step);
	p4d_json_text_string(json, "comm", comm);
	p4d_json_text_string(json, "device", run->device.name);
	p4d_json_text_string(json, "device_text", device);
	snprintf(text, sizeof(text),
		 "%" PRIu64 " ranks: tp %s, cp %" PRIu64 ", pp %" PRIu64 "%s, dp %" PRIu64 "; %" PRIu64
		 " tokens a step, %s%s; communication: %s; device: %s",
		 l->world, p4d_layout_tp_text(l, tp), l->cp, l->pp,
		 l->local_loss ? " (each stage has its own loss; the model's loss is that of the last stage)"
			       : "",
		 l->dp, l->global_batch * l->seq_len, data, epochs, comm, device);
	p4d_step_log_event(&run->log, &event, text);
}

/* Reports the algorithms that rank 0 chose for matmuls, and that all ranks use. */
static void say_products(p4d_run *run)
{
	p4d_timed_product product;
	p4d_step_event event;

	if (!run->leads || !run->device.timed_product ||
	    !run->device.timed_product(&run->device, 0, &product))
		return;
	p4d_text *json = p4d_step_event_begin(&event, "products");
	p4d_json_text_open(json, "timed", '[');
	for (unsigned i = 0; run->device.timed_product(&run->device, i, &product); i++) {
		p4d_json_text_open(json, NULL, '{');
		p4d_json_text_string(json, "product", product.text);
		p4d_json_text_whole(json, "algorithm", product.choice.algorithm);
		p4d_json_text_whole(json, "of", product.choice.proposed);
		p4d_json_text_real(json, "gain", (double)product.gain);
		p4d_json_text_close(json, '}');
	}
	p4d_json_text_close(json, ']');
	p4d_step_log_event(&run->log, &event, NULL);
}

void p4d_train__say_start(p4d_run *run)
{
	say_assumed(run);
	say_beyond(run);
	say_layout(run);
	say_products(run);
	say_slow_attention(run);
	say_nothing_left(run);
}

void p4d_train__say_reference(p4d_run *run, uint64_t steps)
{
	p4d_step_event event;

	if (!run->leads)
		return;
	p4d_json_text_whole(p4d_step_event_begin(&event, "reference"), "steps", steps);
	p4d_step_log_event(&run->log, &event, NULL);
}

void p4d_train__say_stopped(p4d_run *run, int signal)
{
	char text[160];
	p4d_step_event event;

	if (!run->leads)
		return;
	p4d_text *json = p4d_step_event_begin(&event, "stopped");
	p4d_json_text_whole(json, "step", run->step);
	p4d_json_text_string(json, "signal", p4d_stop_name(signal));
	snprintf(text, sizeof(text), "stopped by %s after step %" PRIu64, p4d_stop_name(signal), run->step);
	p4d_step_log_event(&run->log, &event, text);
}

void p4d_train__say_end(p4d_run *run)
{
	char text[192], worse[128];
	p4d_step_event event;

	if (!run->leads)
		return;
	p4d_text *json = p4d_step_event_begin(&event, "end");
	p4d_json_text_whole(json, "step", run->step);
	p4d_json_text_whole(json, "skipped", run->watch.all_skips);
	p4d_json_text_whole(json, "spikes", run->watch.all_spikes);
	if (p4d_train__is_worse(run) && run->step < run->settings->steps)
		p4d_json_text_bool(json, "early", true);
	if (run->best.step) {
		p4d_json_text_whole(json, "best_step", run->best.step);
		p4d_json_text_real(json, "best_loss", run->best.loss);
		p4d_json_text_whole(json, "worse", run->best.worse);
	}
	snprintf(text, sizeof(text), "ended after step %" PRIu64 ": %s", run->step, worse_text(run, worse));
	p4d_step_log_event(&run->log, &event, p4d_train__is_worse(run) ? text : NULL);
}
