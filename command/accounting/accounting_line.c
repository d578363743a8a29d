/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a job or a step from the fields of one line of sacct's output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accounting/accounting_internal.h"
#include "base/number.h"

/* The whole number in a text; 0 if the text contains anything else. */
static uint64_t number_of(const char *text, uint64_t most)
{
	uint64_t number;

	return p4d_number_whole(text, 0, most, &number) ? number : 0;
}

/* A time; 0: "Unknown" or "None". */
static int64_t time_of(const char *text)
{
	return (int64_t)number_of(text, INT64_MAX);
}

static p4d_accounting_end end_of(const char *state)
{
	static const struct {
		const char *begins;
		p4d_accounting_end end;
	} states[] = {
	    {"COMPLETED", P4D_END_COMPLETED},   {"FAILED", P4D_END_FAILED},
	    {"TIMEOUT", P4D_END_TIMEOUT},       {"CANCELLED", P4D_END_CANCELLED},
	    {"OUT_OF_ME", P4D_END_HOST_MEMORY}, {"NODE_FAIL", P4D_END_OF_SITE},
	    {"BOOT_FAIL", P4D_END_OF_SITE},     {"PREEMPTED", P4D_END_OF_SITE},
	    {"DEADLINE", P4D_END_OF_SITE},      {"REVOKED", P4D_END_OF_SITE},
	    {"LAUNCH_FAILED", P4D_END_OF_SITE}, {"EXPEDITING", P4D_END_NOT_YET},
	};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (!strncmp(state, states[i].begins, strlen(states[i].begins)))
			return states[i].end;
	return P4D_END_NOT_YET;
}

static uint32_t gpus_of(const char *tres)
{
	static const char typed[] = "gres/gpu:";
	uint64_t gpus = 0, of_type;

	/* a site may count only GPUs with a type */
	if (!p4d_accounting_tres(tres, "gres/gpu", 1, &gpus))
		for (const char *at = tres; (at = strstr(at, typed)); at += sizeof(typed) - 1) {
			const char *number = strchr(at, '=');
			if (number && p4d_number_digits(number + 1, &of_type) && of_type <= UINT32_MAX)
				gpus += of_type;
		}
	return gpus <= UINT32_MAX ? (uint32_t)gpus : 0;
}

/* The type of GPU in a TRES text: "h100" in "gres/gpu:h100=8"; if there are several types, the first one. */
static void type_of(const char *tres, char *type, size_t size)
{
	static const char name[] = "gres/gpu:";
	const char *at = strstr(tres, name);

	at = at ? at + sizeof(name) - 1 : "";
	snprintf(type, size, "%.*s", (int)strcspn(at, "=,"), at);
}

bool p4d_accounting__job(p4d_accounting_job *job, char *const value[P4D_FIELDS])
{
	uint64_t raw;

	if (!p4d_number_whole(value[P4D_FIELD_RAW], 1, UINT32_MAX, &raw) || !*value[P4D_FIELD_ID])
		return false;
	*job = (p4d_accounting_job){
	    .id = value[P4D_FIELD_ID],
	    .raw = value[P4D_FIELD_RAW],
	    .user = value[P4D_FIELD_USER],
	    .account = value[P4D_FIELD_ACCOUNT],
	    .partition = value[P4D_FIELD_PARTITION],
	    .qos = value[P4D_FIELD_QOS],
	    .reservation = value[P4D_FIELD_RESERVATION],
	    .name = value[P4D_FIELD_NAME],
	    .cluster = value[P4D_FIELD_CLUSTER],
	    .work_dir = value[P4D_FIELD_WORK_DIR],
	    .submit_line = value[P4D_FIELD_SUBMIT_LINE],
	    .admin_comment = value[P4D_FIELD_ADMIN_COMMENT],
	    .extra = value[P4D_FIELD_EXTRA],
	    .req_tres = value[P4D_FIELD_REQ_TRES],
	    .alloc_tres = value[P4D_FIELD_ALLOC_TRES],
	    .std_out = value[P4D_FIELD_STD_OUT],
	    .std_err = value[P4D_FIELD_STD_ERR],
	    .state = value[P4D_FIELD_STATE],
	    .end = end_of(value[P4D_FIELD_STATE]),
	    .nodes = (uint32_t)number_of(value[P4D_FIELD_NODES], UINT32_MAX),
	    .gpus = gpus_of(value[P4D_FIELD_ALLOC_TRES]),
	    .gpus_asked = gpus_of(value[P4D_FIELD_REQ_TRES]),
	    .elapsed_s = number_of(value[P4D_FIELD_ELAPSED], UINT64_MAX),
	    .submit = time_of(value[P4D_FIELD_SUBMIT]),
	    .start = time_of(value[P4D_FIELD_START]),
	    .ended = time_of(value[P4D_FIELD_END]),
	};
	sscanf(value[P4D_FIELD_EXIT], "%d:%d", &job->exit_code, &job->exit_signal);
	type_of(job->alloc_tres, job->gpu_type, sizeof(job->gpu_type));
	if (!job->gpus)
		job->gpus = job->gpus_asked;
	return true;
}

bool p4d_accounting__step(p4d_accounting_job *job, char *const value[P4D_FIELDS])
{
	const char *dot = strchr(value[P4D_FIELD_RAW], '.');
	p4d_accounting_step *grown = reallocarray(job->step, job->steps + 1, sizeof(*grown));
	uint64_t most = 0;

	if (!grown)
		return false;
	job->step = grown;
	char *id = strdup(dot ? dot + 1 : "");
	if (!id)
		return false;
	p4d_accounting_tres(value[P4D_FIELD_IN_MAX], "gres/gpumem", 1, &most);
	job->step[job->steps++] = (p4d_accounting_step){
	    .id = id,
	    .end = end_of(value[P4D_FIELD_STATE]),
	    .nodes = (uint32_t)number_of(value[P4D_FIELD_NODES], UINT32_MAX),
	    .tasks = (uint32_t)number_of(value[P4D_FIELD_TASKS], UINT32_MAX),
	    .gpus = gpus_of(value[P4D_FIELD_ALLOC_TRES]),
	    .most_bytes = most,
	};
	return true;
}
