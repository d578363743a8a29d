/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4d.so: the entry points of the SPANK plugin, by Slurm's contexts. Slurm loads it for every job and step of
 * the cluster, so it contains only the options and the removal of variables from a job. All other code is in
 * libp4d-client.so.
 *
 *   sbatch, salloc   allocator   spank_submit.c
 *   srun             local       spank_submit.c (a job of its own, or a step of the job around it)
 *   slurmstepd       remote      spank_step.c
 */
#include <stdlib.h>

#include "client_option.h"
#include "client_script.h"
#include "job/export.h"
#include "reader/reader_words.h"
#include "rehearsals/rehearsals.h"
#include "slurm_compat.h"
#include "site_words.h"
#include "spank_client.h"
#include "spank_gpus.h"
#include "spank_options.h"

/* symbols that Slurm looks up */
#pragma GCC visibility push(default)
SPANK_PLUGIN(p4d, 1)
int slurm_spank_init(spank_t spank, int argc, char **argv);
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv);
int slurm_spank_task_init(spank_t spank, int argc, char **argv);
int slurm_spank_task_exit(spank_t spank, int argc, char **argv);
#pragma GCC visibility pop

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
		/* a job submitted inside a job must not inherit the outer job's options */
		if (getenv("SLURM_JOB_ID"))
			p4d_options_clean_environment(NULL);
		p4d_options_from_environment(p4d_client_is_salloc() ? "SALLOC" : "SBATCH");
		return p4d_options_register(spank);
	case S_CTX_LOCAL:
		p4d_options_from_environment(NULL);
		return p4d_options_register(spank);
	case S_CTX_REMOTE:
		p4d_spank_gpus_start();
		return p4d_options_register(spank);
	default:
		return 0;
	}
}

/*
 * Whether a job without p4d options may be a training that p4d can judge: its script may start one, or its
 * command may be one that the user has rehearsed.
 */
static bool may_train(bool step, int argc, char **argv)
{
	p4d_client_script script;

	if (spank_context() == S_CTX_LOCAL)
		return !step && p4d_rehearsals_any();
	p4d_client_script_open(&script);
	const bool may =
	    script.text &&
	    (p4d_client_script_has_option(&script) || p4d_reader_may_train(script.text, script.length) ||
	     p4d_rehearsals_any() || p4d_site_words_in(argc, argv, script.text, script.length));
	p4d_client_script_free(&script);
	return may;
}

/* Called when the options of a job, or of one of its components, are known. */
static int submit(spank_t spank, int argc, char **argv)
{
	const p4d_given *given = p4d_options_given();
	bool step = spank_context() == S_CTX_LOCAL && p4d_client_job_id();
	int rc = 0;

	if (!step && spank_context() == S_CTX_LOCAL)
		p4d_options_add_defaults("SLURM");
	const p4d_client_calls *client =
	    p4d_given_any(given) || may_train(step, argc, argv) ? p4d_spank_client_open() : NULL;
	if (!step)
		p4d_options_clean_environment(spank);
	if (client)
		rc = (step ? client->submit_step : client->submit_job)(spank, given, argc, argv);
	else if (!step)
		p4d_given_put(given, spank, NULL); /* slurmctld's plugin reads them there */
	p4d_options_reset();
	return rc;
}

static bool step_has_plan(spank_t spank)
{
	static const char *const names[] = {P4D_EXPORT_PLAN, "SLURM_SPANK_" P4D_EXPORT_PLAN};
	char start[8];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (spank_getenv(spank, names[i], start, sizeof(start)) != ESPANK_ENV_NOEXIST)
			return true;
	return false;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
	const p4d_given *given = p4d_options_given();
	const p4d_client_calls *client;

	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
	case S_CTX_LOCAL:
		return submit(spank, argc, argv);
	case S_CTX_REMOTE:
		client = p4d_given_any(given) || step_has_plan(spank) ? p4d_spank_client_open() : NULL;
		if (client)
			client->step_judge(spank, given, argc, argv);
		return 0;
	default:
		return 0;
	}
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	const p4d_client_calls *client = p4d_spank_client_opened();

	(void)argc;
	(void)argv;
	return client ? client->step_task(spank) : 0;
}

int slurm_spank_task_exit(spank_t spank, int argc, char **argv)
{
	const p4d_client_calls *client = p4d_spank_client_opened();

	p4d_spank_gpus_task_ended(spank, argc, argv);
	if (client)
		client->step_task_ended(spank);
	return 0;
}
