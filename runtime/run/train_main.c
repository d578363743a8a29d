/* SPDX-License-Identifier: Apache-2.0 */
/* p4d-train: reads the settings, and finds out which process is which rank. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/host_memory.h"
#include "comm/comm.h"
#include "device/cpu/blas_kernels.h"
#include "run/job_plan.h"
#include "run/local_ranks.h"
#include "run/rank_error.h"
#include "run/settings.h"
#include "run/settings_print.h"
#include "run/stored_model.h"
#include "run/train.h"
#include "run/train_data.h"
#include "run/train_device.h"
#include "run/train_sample.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "unknown"
#endif

typedef struct p4d_start {
	p4d_settings settings;
	p4d_job_plan plan;
	p4d_ranks ranks;
	bool local,
	    launched; /* local: ranks are forked here. launched: torchrun or mpirun started the ranks */
	uint32_t nodes;
} p4d_start;

static const char *data_directory(void)
{
	const char *directory = getenv("P4D_DATADIR");

	return directory && *directory ? directory : NULL;
}

static uint64_t slurm_nodes(void)
{
	const char *text = getenv("SLURM_STEP_NUM_NODES");

	if (!text)
		text = getenv("SLURM_NNODES");
	unsigned long nodes = text ? strtoul(text, NULL, 10) : 1;
	return nodes ? nodes : 1;
}

/*
 * Finds this process's rank, as a task of srun or a process of another launcher. If the options ask for it,
 * or there is no launcher, ranks are forked here.
 */
static int find_ranks(p4d_start *start, p4d_error *err)
{
	start->launched = !start->settings.local_ranks && p4d_ranks_are_launched(getenv);
	start->settings.launched = start->launched;
	start->local = start->settings.local_ranks || (!start->launched && !getenv("SLURM_PROCID"));
	start->nodes = start->local ? 1 : (uint32_t)slurm_nodes();
	if (start->launched)
		return p4d_ranks_launched(&start->ranks, getenv, &start->nodes, err);
	if (!start->local)
		return p4d_ranks_from_slurm(&start->ranks, getenv, err);
	uint64_t count = start->settings.local_ranks ? start->settings.local_ranks : 1;
	return p4d_ranks_local(&start->ranks, (uint32_t)count, err);
}

/*
 * Completes the settings of --eval-only without a plan line: uses the stored model, and the smallest batch
 * that the layout allows.
 */
static int prepare_evaluation(p4d_settings *settings, uint64_t ranks, p4d_error *err)
{
	p4d_request *r = &settings->request;
	const p4d_option degrees[] = {P4D_TP, P4D_CP, P4D_PP};
	bool found = false;
	uint64_t dp = ranks;

	if (settings->checkpoint && p4d_is_set(r, P4D_MODEL)) {
		p4d_fail(err, P4D_E_USAGE,
			 "--model has no effect: --eval-only takes the model of --checkpoint");
		return p4d_fix(err, "leave out --model");
	}
	if (settings->checkpoint && p4d_stored_model(settings, &found, err) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(degrees) / sizeof(*degrees); i++)
		dp /= p4d_is_set(r, degrees[i]) ? (uint64_t)r->value[degrees[i]] : 1;
	const uint64_t stages = p4d_is_set(r, P4D_PP) ? (uint64_t)r->value[P4D_PP] : 1;
	p4d_request_default(r, P4D_MICRO_BATCH, 1, P4D_BY_P4D);
	if (dp)
		p4d_request_default(r, P4D_GLOBAL_BATCH, (int64_t)(r->value[P4D_MICRO_BATCH] * dp * stages),
				    P4D_BY_P4D);
	for (size_t i = 0; i < sizeof(degrees) / sizeof(*degrees); i++)
		p4d_request_default(r, degrees[i], 1, P4D_BY_P4D);
	return 0;
}

/*
 * Opens the plan. A plan may fit only without the workspace of packed documents, which p4d-train adds if it
 * took their length from the data. Then this leaves the workspace out, and attention uses p4d's own kernels.
 */
static int open_plan(p4d_start *start, const char *line, p4d_error *err)
{
	const bool chosen = !line && p4d_train_data_document_len(&start->settings);

	if (p4d_job_plan_open(&start->plan, line, &start->settings, start->ranks.size, start->nodes,
			      data_directory(), err) < 0)
		return -1;
	if (!chosen || p4d_job_plan_fits(&start->plan))
		return 0;
	p4d_job_plan_close(&start->plan);
	p4d_request_put(&start->settings.request, P4D_DOCUMENT_LEN, 0, P4D_UNSET);
	if (p4d_job_plan_open(&start->plan, NULL, &start->settings, start->ranks.size, start->nodes,
			      data_directory(), err) < 0)
		return -1;
	start->plan.no_documents = p4d_job_plan_fits(&start->plan);
	return 0;
}

/* Does all checks that can refuse the run, before anything reads data and before ranks join. */
static int prepare(p4d_start *start, p4d_error *err)
{
	const char *line = getenv("P4D_PLAN");
	p4d_error no_gpu = {.code = P4D_OK};
	uint64_t bytes;

	if (find_ranks(start, err) < 0 ||
	    (!start->settings.sample && p4d_train_data_complete(&start->settings, err) < 0))
		return -1;
	/* ranks that are forked here do not use the plan line of the job around them */
	if (start->settings.local_ranks || start->settings.sample || (line && !*line))
		line = NULL;
	if (start->settings.eval_only && !line &&
	    prepare_evaluation(&start->settings, start->ranks.size, err) < 0)
		return -1;
	if (start->settings.sample && p4d_train_sample_prepare(&start->settings, start->ranks.size, err) < 0)
		return -1;
	if (!line)
		p4d_choose_device(&start->settings, &no_gpu);
	if (open_plan(start, line, err) < 0)
		return -1;
	if (start->settings.epochs > 0 && p4d_train_data_steps(&start->settings, &start->plan, err) < 0)
		return -1;
	if (p4d_job_plan_message_bytes(&start->plan, &start->ranks.message_bytes, err) < 0)
		return -1;
	if (p4d_on_gpu(start->plan.layout.device))
		return 0;
	snprintf(start->plan.no_gpu, sizeof(start->plan.no_gpu), "%.300s", no_gpu.text);
	return p4d_host_memory("", &bytes, err) < 0
		   ? -1
		   : p4d_job_plan_check_memory(&start->plan, !start->local && !start->launched, bytes, err);
}

static int local_rank(uint32_t rank, void *context)
{
	p4d_start *start = context;

	start->ranks.rank = rank;
	return p4d_train(&start->settings, &start->plan, &start->ranks);
}

/* Whether this process prints messages that all processes of a launcher would print. */
static bool speaks_for_all(const p4d_start *start)
{
	return start->settings.local_ranks || p4d_ranks_begin_here(getenv);
}

static int refuse(const p4d_start *start, const p4d_error *err)
{
	if (speaks_for_all(start))
		p4d_rank_report(err, NULL, 0);
	return (int)err->code;
}

static int print_config(const p4d_start *start, p4d_error *err)
{
	if (!speaks_for_all(start))
		return 0;
	return p4d_settings_print(&start->settings, &start->plan, err) < 0 ? refuse(start, err) : 0;
}

int main(int argc, char *argv[])
{
	static p4d_start start;
	p4d_error err = {.code = P4D_OK, .fix = ""};

	p4d_blas_kernels_choose(argv);
	if (p4d_settings_parse(&start.settings, argc, argv, &err) < 0)
		return refuse(&start, &err);
	if (start.settings.help) {
		p4d_settings_help();
		return 0;
	}
	if (start.settings.version) {
		puts("p4d-train " PACKAGE_VERSION);
		return 0;
	}
	if (start.settings.completion)
		return p4d_settings_completion(start.settings.completion, &err) < 0 ? refuse(&start, &err)
										    : 0;
	if (start.settings.twice.code)
		(void)refuse(&start, &start.settings.twice);
	if (prepare(&start, &err) < 0)
		return refuse(&start, &err);
	if (start.settings.print_config)
		return print_config(&start, &err);
	int status = start.local ? p4d_local_ranks(start.ranks.size, local_rank, &start, &err)
				 : p4d_train(&start.settings, &start.plan, &start.ranks);
	if (status < 0)
		status = refuse(&start, &err);
	p4d_job_plan_close(&start.plan);
	return status;
}
