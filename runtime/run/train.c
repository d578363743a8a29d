/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop of one rank. */
#include "base/clock.h"
#include "run/train_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/checkpoint_trainer.h"
#include "run/memory_report.h"
#include "run/page_fault.h"
#include "run/rank_error.h"
#include "run/stop.h"
#include "run/train_agree.h"
#include "run/train_device.h"
#include "run/train_sample.h"
#include "run/train_weights.h"
#include "run/watchdog.h"

static const float USUAL_BETA = 0.1f; /* TRL's default */

void p4d_train__begin(p4d_run *run, const char *what)
{
	p4d_watchdog_kick(what);
	p4d_world_expect(run->world, what, (double)run->settings->watchdog);
}

static int open_group(p4d_run *run, p4d_error *err)
{
	uint32_t size = run->ranks->size, *ranks = calloc(size, sizeof(*ranks));

	if (!ranks)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a list of %u ranks", size);
	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	int rc = p4d_group_open(&run->all, run->world, ranks, size, err);
	free(ranks);
	return rc;
}

static bool trains_adapters(const p4d_run *run)
{
	return run->plan->layout.finetune != P4D_TUNE_FULL;
}

/* LoRA's alpha. The default is the rank, with which adapters' outputs get the factor 1. */
static double alpha_of(const p4d_run *run)
{
	return run->settings->lora_alpha > 0 ? run->settings->lora_alpha
					     : (double)run->plan->layout.lora.rank;
}

static int open_trainer(p4d_run *run, p4d_error *err)
{
	const p4d_settings *s = run->settings;
	const double rank = trains_adapters(run) ? (double)run->plan->layout.lora.rank : 1;
	p4d_trainer_settings settings = {
	    .net = p4d_job_plan_net(run->plan),
	    .optimizer = {.beta1 = (float)s->beta1,
			  .beta2 = (float)s->beta2,
			  .epsilon = (float)s->epsilon,
			  .weight_decay = (float)s->weight_decay,
			  .clip = (float)s->clip},
	};

	settings.net.seed = s->seed;
	settings.net.device = &run->device;
	settings.net.host = run->host.name ? &run->host : NULL;
	settings.net.world = run->world;
	settings.net.transport = run->transport;
	settings.net.z_loss = (float)s->z_loss;
	settings.net.adapter_scale = trains_adapters(run) ? (float)(alpha_of(run) / rank) : 0;
	settings.net.beta = s->beta > 0 ? (float)s->beta : USUAL_BETA;
	settings.net.document_mask = s->document_mask;
	return p4d_trainer_open(&run->trainer, &settings, err);
}

/* Loads a released model: its weights into this rank's shards or, with adapters, its frozen weights. */
static int load_released(p4d_run *run, p4d_error *err)
{
	const p4d_checkpoint_storage storage = p4d_checkpoint_storage_of(
	    run->trainer, &run->plan->layout, (uint64_t)run->plan->request.value[P4D_VOCAB]);

	p4d_train__begin(run, "the weights of --init-from");
	if (p4d_train_init(run->settings->init_from, run->plan, &storage, &run->base, run->save.info.released,
			   sizeof(run->save.info.released), err) < 0)
		return -1;
	if (run->leads && run->save.info.released[0])
		p4d_train_weights_unused(run->save.info.released, run->plan);
	return p4d_agree_on_weights(run->all, run->world, run->base, err);
}

static int initialize(p4d_run *run, p4d_error *err)
{
	if (trains_adapters(run))
		return p4d_trainer_initialize_trained(run->trainer, run->settings->seed, err);
	if (!run->settings->init_from)
		return p4d_trainer_initialize(run->trainer, run->settings->seed, err);
	return load_released(run, err) < 0 ? -1 : p4d_trainer_restore(run->trainer, err);
}

/*
 * Stores in checkpoints' descriptions which weights the adapters belong to. Checkpoints of adapters do not
 * have these weights, and training can continue only with them.
 */
static void describe_adapters(p4d_run *run)
{
	if (!trains_adapters(run))
		return;
	run->save.info.alpha = alpha_of(run);
	run->save.info.base_hash = run->base;
	snprintf(run->save.info.base, sizeof(run->save.info.base), "%s", run->settings->init_from);
}

/*
 * The reference is the model before training. Loads it, and computes which log-probabilities it gives to both
 * answers of every pair that this run trains on after step `done`.
 */
static int measure_reference(p4d_run *run, uint64_t done, p4d_error *err)
{
	uint64_t measured = 0;
	double *sums = malloc(2 * run->plan->layout.global_batch * sizeof(*sums));
	int rc =
	    sums ? initialize(run, err) : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a batch of pairs");

	for (uint64_t step = done + 1; rc == 0 && step <= run->settings->steps; step++) {
		if (p4d_train_data_has_reference(&run->data, step))
			continue;
		p4d_train__begin(run, "the reference");
		rc = p4d_trainer_measure_pairs(run->trainer, step, p4d_train_data_training_batch, &run->data,
					       sums, err);
		if (rc == 0)
			p4d_train_data_put_reference(&run->data, step, sums);
		measured++;
	}
	free(sums);
	p4d_train__say_reference(run, measured);
	return rc;
}

static int resume(p4d_run *run, p4d_error *err)
{
	return p4d_train_resume(&run->save, run->settings, run->plan, run->trainer, &run->step, &run->best,
				err);
}

/*
 * Measures the reference, and then loads the checkpoint. If the checkpoint that it loads is older than
 * expected, it must measure more pairs.
 */
static int resume_pairs(p4d_run *run, p4d_error *err)
{
	uint64_t done;

	if (p4d_train_newest(&run->save, run->settings, run->all, &done, err) < 0 ||
	    measure_reference(run, done, err) < 0 || resume(run, err) < 0)
		return -1;
	if (run->step >= done)
		return 0;
	return measure_reference(run, run->step, err) < 0 ? -1 : resume(run, err);
}

void p4d_train__warn(void *context, const char *text)
{
	p4d_error err = {.code = P4D_E_CHECKPOINT};

	(void)context;
	snprintf(err.text, sizeof(err.text), "%.400s", text);
	p4d_rank_report(&err, NULL, 0);
}

/* Loads the weights for --eval-only, which has no memory for optimizer states. */
static int load_untrained(p4d_run *run, p4d_error *err)
{
	if (trains_adapters(run))
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.300s: no checkpoint of adapters found",
				run->settings->checkpoint ? run->settings->checkpoint : "--checkpoint");
	return load_released(run, err) < 0 ? -1 : p4d_trainer_restore(run->trainer, err);
}

/*
 * Loads weights for --sample and --eval-only. Writes and removes nothing, because another run may save in
 * that directory.
 */
static int load_stored(p4d_run *run, p4d_error *err)
{
	const p4d_checkpoint_storage storage = p4d_checkpoint_storage_of(
	    run->trainer, &run->plan->layout, (uint64_t)run->plan->request.value[P4D_VOCAB]);
	const p4d_checkpoint_peers peers = p4d_checkpoint_peers_of(run->all);
	p4d_checkpoint_info info;
	bool found = false;

	if (trains_adapters(run) && load_released(run, err) < 0)
		return -1;
	if (run->settings->checkpoint && p4d_checkpoint_resume(run->settings->checkpoint, &storage, &peers,
							       p4d_train__warn, NULL, &info, &found, err) < 0)
		return -1;
	run->step = found ? info.step : 0;
	if (!found && run->settings->eval_only)
		return load_untrained(run, err);
	if (!found)
		return initialize(run, err);
	if (trains_adapters(run) && info.base_hash != run->base)
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"--init-from %.200s: its adapters were trained with other weights",
				run->settings->init_from);
	return p4d_trainer_restore(run->trainer, err);
}

static int start(p4d_run *run, p4d_error *err)
{
	char who[160];

	snprintf(who, sizeof(who), "rank %u (%s)", run->ranks->rank, run->name);
	if (p4d_watchdog_arm(run->settings->watchdog, who, err) < 0)
		return -1;
	if (p4d_world_open(&run->world, run->ranks, err) < 0)
		return -1;
	p4d_train__begin(run, "start");
	/* the transport is opened after the device, because ranks exchange the names of their GPUs */
	if (open_group(run, err) < 0 ||
	    p4d_agree_on_options(run->all, run->world, run->settings, run->plan, err) < 0 ||
	    p4d_open_device(&run->device, run->settings, run->plan, run->ranks, &run->cores, err) < 0 ||
	    p4d_open_host(&run->host, run->settings, run->plan, err) < 0 ||
	    p4d_comm_transport_open(&run->transport, run->all, &run->device,
				    (p4d_transport_kind)run->settings->comm, NULL, err) < 0 ||
	    open_trainer(run, err) < 0)
		return -1;
	if (run->settings->sample)
		return load_stored(run, err);
	if (p4d_train_data_open(&run->data, run->settings, run->plan, p4d_trainer_place(run->trainer), err) <
		0 ||
	    p4d_agree_on_data(run->all, run->world, &run->data, err) < 0)
		return -1;
	if (run->leads) {
		p4d_flops flops = p4d_step_log_flops(&run->plan->layout, run->plan->gpu);
		if (p4d_step_log_open(&run->log, run->settings->log, &flops, err) < 0)
			return -1;
	}
	if (run->settings->eval_only)
		return load_stored(run, err);
	if (trains_adapters(run) && load_released(run, err) < 0)
		return -1;
	describe_adapters(run);
	if (p4d_train_save_open(&run->save, run->settings, run->plan, &run->data, run->trainer, run->all,
				err) < 0)
		return -1;
	const bool pairs = run->plan->layout.pairs;
	if ((pairs ? resume_pairs(run, err) : resume(run, err)) < 0)
		return -1;
	run->saved = run->step;
	if (run->settings->trace && p4d_train_trace_open(&run->trace, run->settings->trace, run->step + 1,
							 run->settings->steps, run->trainer, err) < 0)
		return -1;
	if (run->leads && run->settings->tensorboard &&
	    p4d_tensorboard_open(&run->log.board, run->settings->tensorboard, run->step + 1, err) < 0)
		return -1;
	return run->step || pairs ? 0 : initialize(run, err);
}

/*
 * Exchanges what all ranks must know before the next step: whether any rank received a signal to stop, and
 * the peak memory.
 */
static int share(p4d_run *run, int *signal, uint64_t *memory, p4d_error *err)
{
	uint64_t used, total;

	run->device.usage(&run->device, &used, &total);
	double most[2] = {(double)p4d_stop_asked(), (double)used};

	if (p4d_comm_all_reduce(run->all, most, 2, P4D_DT_FP64, P4D_MAX, err) < 0)
		return -1;
	*signal = (int)most[0];
	*memory = (uint64_t)most[1];
	return 0;
}

/* Trains one step. *signal: a signal that asked any rank to stop; 0: none. */
static int step(p4d_run *run, const p4d_rate *rate, int *signal, p4d_error *err)
{
	p4d_step_record record = {.step = run->step, .steps = run->settings->steps};
	p4d_step_result result;
	char what[40];
	double began = p4d_clock_seconds();

	snprintf(what, sizeof(what), "step %" PRIu64, run->step);
	p4d_train__begin(run, what);
	record.learning_rate = p4d_learning_rate(rate, run->step);
	p4d_trainer_skip_above(run->trainer, p4d_loss_limit(&run->watch));
	if (p4d_train_trace_begin(&run->trace, run->step, run->trainer, run->all, err) < 0 ||
	    p4d_trainer_step(run->trainer, run->step, (float)record.learning_rate,
			     p4d_train_data_training_batch, &run->data, &result, err) < 0 ||
	    p4d_train_trace_end(&run->trace, run->step, run->trainer, &run->plan->layout, run->all, err) <
		0 ||
	    share(run, signal, &record.memory_bytes, err) < 0)
		return -1;
	int rc =
	    result.tokens
		? p4d_loss_seen(&run->watch, run->step, result.loss, result.nonfinite, &record.kind, err)
		: p4d_loss_none(&run->watch, run->step, run->step == run->settings->steps, &record.kind, err);
	record.loss = result.tokens ? result.loss : (double)NAN;
	record.gradient_norm = result.gradient_norm;
	record.tokens = result.tokens;
	record.pairs = run->plan->layout.pairs;
	record.margin = result.margin;
	record.preferred = result.preferred;
	record.nonfinite = result.nonfinite;
	record.applied = result.applied;
	record.seconds = p4d_clock_seconds() - began;
	if (p4d_cores_follow(&run->cores, record.seconds))
		p4d_device_cpu_threads(run->cores.now);
	if (run->leads)
		p4d_step_log_step(&run->log, &record);
	return rc;
}

/*
 * Reports planned and actual memory. If a device allocated anything else than the plan, that is p4d's error,
 * not the user's.
 */
static int say_memory(p4d_run *run, p4d_error *err)
{
	char text[P4D_LINE_MOST];
	p4d_step_event event;
	p4d_memory_report report;

	p4d_train__begin(run, "the memory report");
	if (p4d_memory_report_make(&report, run->plan, run->trainer, &run->device, run->all, err) < 0)
		return -1;
	if (!run->leads)
		return 0;
	p4d_memory_report_json(&report, p4d_step_event_begin(&event, "memory"));
	p4d_step_log_event(&run->log, &event, p4d_memory_report_text(&report, text, sizeof(text)));
	return 0;
}

static int say_saved(p4d_run *run, bool wait, p4d_error *err)
{
	char text[64];
	p4d_step_event event;
	bool done;

	if (p4d_train_save_poll(&run->save, wait, &done, err) < 0)
		return -1;
	if (!done || !run->leads)
		return 0;
	const bool best = run->saved_best;
	p4d_text *json = p4d_step_event_begin(&event, "saved");
	p4d_json_text_whole(json, "step", run->saved);
	if (best)
		p4d_json_text_bool(json, "best", true);
	snprintf(text, sizeof(text), "step %" PRIu64 "  checkpoint saved%s", run->saved,
		 best ? ", the best so far" : "");
	p4d_step_log_event(&run->log, &event, text);
	return 0;
}

/* Saves a checkpoint if one is due after this step. last: the run has no further step. */
static int save(p4d_run *run, bool last, p4d_error *err)
{
	if (say_saved(run, false, err) < 0)
		return -1;
	run->save.info.best = run->best.lowest && run->settings->save_best;
	if ((!last && run->step % run->settings->save_every && !run->save.info.best) ||
	    run->saved == run->step)
		return last ? say_saved(run, true, err) : 0;
	p4d_train__begin(run, "saving");
	/* the previous checkpoint must be finished and reported before the next begins */
	if (say_saved(run, true, err) < 0 ||
	    p4d_train_save_begin(&run->save, run->plan, &run->best, run->step, err) < 0)
		return -1;
	run->saved = run->step;
	run->saved_best = run->save.info.best;
	return last ? say_saved(run, true, err) : 0;
}

/*
 * Trains a step, and logs, validates and saves after it if that is due. *last: the run ends after this step.
 */
static int step_and_save(p4d_run *run, const p4d_rate *rate, int *signal, bool *last, p4d_error *err)
{
	const p4d_settings *s = run->settings;

	run->step++;
	run->best.lowest = false;
	if (step(run, rate, signal, err) < 0)
		return -1;
	*last = run->step == s->steps;
	if (run->data.validations && (*last || (!*signal && run->step % s->eval_every == 0)) &&
	    p4d_train__evaluate(run, run->step, err) < 0)
		return -1;
	*last = *last || *signal || p4d_train__is_worse(run);
	return save(run, *last, err);
}

static int loop(p4d_run *run, p4d_error *err)
{
	const p4d_rate rate = p4d_settings_rate(run->settings);
	bool last = run->step >= run->settings->steps || p4d_train__is_worse(run);
	int signal = 0;

	while (!last)
		if (step_and_save(run, &rate, &signal, &last, err) < 0)
			return -1;
	const bool ended = run->step >= run->settings->steps || p4d_train__is_worse(run);
	if (!ended)
		p4d_train__say_stopped(run, signal);
	if (run->device.sync(&run->device, err) < 0 || say_memory(run, err) < 0)
		return -1;
	if (!ended)
		return P4D_EXIT_AGAIN;
	p4d_train__say_end(run);
	return 0;
}

static void finish(p4d_run *run)
{
	/*
	 * The watchdog also watches the end: NCCL closes a communicator only together with its peers, and a
	 * driver may hang.
	 */
	p4d_train__begin(run, "the end");
	if (run->leads)
		p4d_step_log_close(&run->log);
	p4d_train_save_close(&run->save);
	p4d_train_data_close(&run->data);
	p4d_train_trace_close(&run->trace);
	p4d_trainer_close(run->trainer);
	p4d_comm_transport_close(run->transport);
	p4d_group_close(run->all);
	p4d_world_close(run->world);
	run->device.close(&run->device);
	if (run->host.name)
		run->host.close(&run->host);
	p4d_watchdog_end();
}

/*
 * Reports the reason, tells the other ranks, and exits immediately. An orderly end may hang if the world is
 * broken.
 */
static _Noreturn void fail(p4d_run *run, const p4d_error *err)
{
	p4d_error why = {.code = P4D_OK};
	char cause[480];

	if (run->leads)
		p4d_step_log_close(&run->log);
	if (!run->world) {
		/* if ranks could not join, all of them have the same reason, so only rank 0 reports it */
		if (err->code != P4D_E_RANK || run->ranks->rank == 0)
			p4d_rank_error_final(err, run->name, run->ranks->rank);
		_exit((int)err->code);
	}
	bool others = p4d_world_failed(run->world, &why);
	if (!others) {
		p4d_world_abort(run->world, p4d_rank_cause(err, run->step, cause, sizeof(cause)));
		if (run->leads)
			p4d_rank_error_final(err, run->name, 0);
	} else if (p4d_rank_error_claim(run->ranks->rank, why.text)) {
		p4d_rank_error_final(&why, NULL, run->ranks->rank);
	}
	_exit((int)err->code);
}

int p4d_train(const p4d_settings *settings, const p4d_job_plan *plan, const p4d_ranks *ranks)
{
	p4d_run run = {
	    .settings = settings,
	    .plan = plan,
	    .ranks = ranks,
	    .leads = ranks->rank == 0,
	    .log = {.json = -1, .terminal = -1, .board = {.fd = -1}},
	    .watch = {.on_spike = (p4d_on_spike)settings->on_spike,
		      .skips_allowed = settings->skips,
		      .spikes_allowed = settings->spikes},
	};
	p4d_error err = {.code = P4D_OK};

	snprintf(run.name, sizeof(run.name), "%s", ranks->node_name);
	if (!run.name[0] && gethostname(run.name, sizeof(run.name) - 1) < 0)
		snprintf(run.name, sizeof(run.name), "this host");
	p4d_stop_catch();
	p4d_page_fault_catch(run.name, ranks->rank);
	if (start(&run, &err) < 0)
		fail(&run, &err);
	if (settings->sample) {
		if (p4d_train_sample(settings, plan, run.trainer, run.all, &err) < 0)
			fail(&run, &err);
		finish(&run);
		return 0;
	}
	if (settings->eval_only) {
		if (p4d_train__evaluate(&run, run.step, &err) < 0 || say_memory(&run, &err) < 0)
			fail(&run, &err);
		finish(&run);
		return 0;
	}
	p4d_train__say_start(&run);
	int status = loop(&run, &err);
	if (status < 0)
		fail(&run, &err);
	finish(&run);
	return status;
}
