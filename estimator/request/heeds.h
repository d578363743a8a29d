/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "request/request.h"

/*
 * Who heeds which option: the column of options.def. A program heeds an option if some row of its plan, or
 * some second of its step, depends on it. Whoever does not heed it refuses it, for the reasons in heeds.c.
 */
enum {
	P4D_HEEDS_P4DTRAIN = 1 << P4D_FRAMEWORK_P4D,
	P4D_HEEDS_MEGATRON = 1 << P4D_FRAMEWORK_MEGATRON,
	P4D_HEEDS_TORCHTITAN = 1 << P4D_FRAMEWORK_FSDP, /* --framework fsdp with torchtitan's modules */
	P4D_HEEDS_DEEPSPEED = 1 << P4D_FRAMEWORK_DEEPSPEED,
	P4D_HEEDS_DDP = 1 << P4D_FRAMEWORK_DDP,
	P4D_HEEDS_FSDP = 1 << P4D_FRAMEWORKS, /* --framework fsdp with other modules (--model-code) */
	/* those that can split a model; whose modules are transformers' or LitGPT's; of PyTorch; all */
	P4D_HEEDS_SPLIT = P4D_HEEDS_P4DTRAIN | P4D_HEEDS_MEGATRON | P4D_HEEDS_TORCHTITAN,
	P4D_HEEDS_MODULES = P4D_HEEDS_FSDP | P4D_HEEDS_DEEPSPEED | P4D_HEEDS_DDP,
	P4D_HEEDS_PYTORCH = P4D_HEEDS_TORCHTITAN | P4D_HEEDS_MODULES,
	P4D_HEEDS_TRAIN = P4D_HEEDS_SPLIT | P4D_HEEDS_MODULES,
	/* other workloads; reinforcement and preference learning also heed what training does */
	P4D_HEEDS_SERVE = P4D_HEEDS_FSDP << 1,
	P4D_HEEDS_RL = P4D_HEEDS_SERVE << 1,
	P4D_HEEDS_PREFERENCE = P4D_HEEDS_RL << 1,
	P4D_HEEDS_ALL = P4D_HEEDS_TRAIN | P4D_HEEDS_SERVE | P4D_HEEDS_RL | P4D_HEEDS_PREFERENCE,
	/* p4d itself heeds it, or the program, with the same memory and time */
	P4D_HEEDS_JOB = P4D_HEEDS_PREFERENCE << 1
};

/* Of a framework, with any modules. */
#define P4D_HEEDS_OF(framework) \
	(1u << (framework) | ((framework) == P4D_FRAMEWORK_FSDP ? (unsigned)P4D_HEEDS_FSDP : 0u))

/* The value of an option that has no meaning for the framework: 0 in the layout, refused if a user gives it.
 */
#define P4D_NO_MEANING INT64_MIN

/* What a framework has instead of an option that it does not heed. */
typedef struct p4d_heeds_reason {
	unsigned of; /* P4D_HEEDS_*: the frameworks that it is the reason of */
	int64_t value;
	const char *why; /* "%s accumulates gradients in fp32", with the program; see p4d_heeds__why */
	bool of_user;    /* a script may say it: its program runs all the same, and takes as much */
} p4d_heeds_reason;

/* The bit of a framework, in the modules that the request asks for. */
unsigned p4d_heeds__bit(const p4d_request *request, int framework);

/* Whether one of these frameworks heeds the option; or else why not, as of p4d_heeds_instead. */
static inline bool p4d_heeds_by(unsigned frameworks, p4d_option option)
{
	return p4d_request_option_info(option)->heeds & (frameworks | P4D_HEEDS_JOB);
}
const p4d_heeds_reason *p4d_heeds__reason_of(unsigned framework, p4d_option option);

/* Whether the framework heeds the option, in the modules that the request asks for. */
bool p4d_heeds(const p4d_request *request, int framework, p4d_option option);

/* What it has instead; NULL: it heeds the option, or heeds.c has no reason. */
const p4d_heeds_reason *p4d_heeds_instead(const p4d_request *request, int framework, p4d_option option);

/* The reason with the framework's program in it. reason NULL: of options without one. Returns buf. */
const char *p4d_heeds__why(const p4d_heeds_reason *reason, int framework, char *buf, size_t size);

/* Whether what is given is what there is without the option. */
bool p4d_heeds__says_nothing(const p4d_request *request, p4d_option option);

/* Refuses what the user asks for and the request's framework does not heed, if nothing else did. */
int p4d_heeds__check(const p4d_request *request, p4d_error *err);

/* The first option that the user gave and the request's workload does not heed; P4D_OPTIONS: none. */
p4d_option p4d_heeds_unused(const p4d_request *request);
/* "--engine-tp has no effect on serving, only with --workload=rl" */
const char *p4d_heeds_unused_text(const p4d_request *request, p4d_option unused, const char *prefix,
				  char *buf, size_t size);
