/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A training run. train.c executes it; train_say.c prints its start and end, for people and in the log. */
#include "comm/transport/transport_open.h"
#include "device/device.h"
#include "run/best_loss.h"
#include "run/loss_watch.h"
#include "run/rank_cores.h"
#include "run/step_log.h"
#include "run/train.h"
#include "run/train_data.h"
#include "run/train_save.h"
#include "run/train_trace.h"
#include "trainer/trainer.h"

typedef struct p4d_run {
	const p4d_settings *settings;
	const p4d_job_plan *plan;
	const p4d_ranks *ranks;
	p4d_device device;
	/* computes on tensors that the plan keeps on the host; not opened if there are none */
	p4d_device host;
	p4d_world *world;
	p4d_group *all;
	p4d_transport *transport;
	p4d_trainer *trainer;
	p4d_train_data data;
	p4d_train_save save;
	p4d_loss_watch watch;
	p4d_best_loss best;
	p4d_step_log log;
	p4d_train_trace trace;
	bool leads; /* this is rank 0, which prints */
	char name[64];
	uint64_t base;   /* p4d_huggingface_hash of the weights of --init-from */
	uint64_t step;   /* the last step that was begun, or the step from which the run continued */
	uint64_t saved;  /* the last step for which a checkpoint was begun */
	bool saved_best; /* the checkpoint of step `saved` was saved as the best one */
	p4d_cores_now cores;
} p4d_run;

/*
 * Tells the watchdog, and all ranks' communication, which work begins now. The work must take less than the
 * watchdog's time.
 */
void p4d_train__begin(p4d_run *run, const char *what);
/* Reports a warning of checkpoints. */
void p4d_train__warn(void *context, const char *text);

/* Computes the loss of each validation set after a step; the first set's loss goes into run->best. */
int p4d_train__evaluate(p4d_run *run, uint64_t step, p4d_error *err);

/* Whether --stop-after-worse ends the run. */
bool p4d_train__is_worse(const p4d_run *run);

/*
 * Print, only on the leading rank: what the run trains and on which data, and possible mistakes; what stopped
 * the run; its end.
 */
void p4d_train__say_start(p4d_run *run);
/* Prints for how many steps the reference's log-probabilities of pairs were measured. */
void p4d_train__say_reference(p4d_run *run, uint64_t steps);
void p4d_train__say_stopped(p4d_run *run, int signal);
void p4d_train__say_end(p4d_run *run);
