/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "request/request.h"

/*
 * The programs in which an option has an effect: the column "heeded by" of options.def. An option has an
 * effect if a row of the program's plan, or its step time, depends on it. All other programs refuse the
 * option, with the reasons in heeds.c.
 */
enum {
	P4D_HEEDS_P4DTRAIN = 1 << P4D_FRAMEWORK_P4D,
	P4D_HEEDS_MEGATRON = 1 << P4D_FRAMEWORK_MEGATRON,
	P4D_HEEDS_TORCHTITAN = 1 << P4D_FRAMEWORK_FSDP, /* --framework fsdp with torchtitan's modules */
	P4D_HEEDS_DEEPSPEED = 1 << P4D_FRAMEWORK_DEEPSPEED,
	P4D_HEEDS_DDP = 1 << P4D_FRAMEWORK_DDP,
	P4D_HEEDS_FSDP = 1 << P4D_FRAMEWORKS, /* --framework fsdp with other modules (--model-code) */
	/*
	 * SPLIT: programs that can split a model. MODULES: programs with transformers' or LitGPT's modules.
	 * Then: programs with PyTorch; all programs
	 */
	P4D_HEEDS_SPLIT = P4D_HEEDS_P4DTRAIN | P4D_HEEDS_MEGATRON | P4D_HEEDS_TORCHTITAN,
	P4D_HEEDS_MODULES = P4D_HEEDS_FSDP | P4D_HEEDS_DEEPSPEED | P4D_HEEDS_DDP,
	P4D_HEEDS_PYTORCH = P4D_HEEDS_TORCHTITAN | P4D_HEEDS_MODULES,
	P4D_HEEDS_TRAIN = P4D_HEEDS_SPLIT | P4D_HEEDS_MODULES,
	/* other workloads; options of training also affect reinforcement and preference learning */
	P4D_HEEDS_SERVE = P4D_HEEDS_FSDP << 1,
	P4D_HEEDS_RL = P4D_HEEDS_SERVE << 1,
	P4D_HEEDS_PREFERENCE = P4D_HEEDS_RL << 1,
	P4D_HEEDS_ALL = P4D_HEEDS_TRAIN | P4D_HEEDS_SERVE | P4D_HEEDS_RL | P4D_HEEDS_PREFERENCE,
	/* the option is for p4d itself, or for a program whose memory and time it does not change */
	P4D_HEEDS_JOB = P4D_HEEDS_PREFERENCE << 1
};

/* The bits of a framework, with any modules. */
#define P4D_HEEDS_OF(framework) \
	(1u << (framework) | ((framework) == P4D_FRAMEWORK_FSDP ? (unsigned)P4D_HEEDS_FSDP : 0u))

/* The value of an option that has no meaning for the framework. It is 0 in the layout, and p4d refuses it
 * if a user gives it. */
#define P4D_NO_MEANING INT64_MIN

/* What a framework does instead of an option that has no effect in it. */
typedef struct p4d_heeds_reason {
	unsigned of; /* P4D_HEEDS_*: the frameworks to which this reason applies */
	int64_t value;
	const char *why; /* "%s accumulates gradients in fp32"; %s is the program; see p4d_heeds__why */
	bool of_user;    /* scripts may contain it: the program accepts it, with the same memory */
} p4d_heeds_reason;

/* The bit of a framework with the modules that the request asks for. */
unsigned p4d_heeds__bit(const p4d_request *request, int framework);

/* Whether the option has an effect in one of these frameworks. If not, p4d_heeds_instead has the reason. */
static inline bool p4d_heeds_by(unsigned frameworks, p4d_option option)
{
	return p4d_request_option_info(option)->heeds & (frameworks | P4D_HEEDS_JOB);
}
const p4d_heeds_reason *p4d_heeds__reason_of(unsigned framework, p4d_option option);

/* Whether the option has an effect in the framework with the request's modules. */
bool p4d_heeds(const p4d_request *request, int framework, p4d_option option);

/*
 * What the framework does instead of an option. NULL: the option has an effect, or heeds.c has no reason for
 * it.
 */
const p4d_heeds_reason *p4d_heeds_instead(const p4d_request *request, int framework, p4d_option option);

/*
 * The reason, with the framework's program inserted. reason NULL: for options without a specific reason.
 * Returns buf.
 */
const char *p4d_heeds__why(const p4d_heeds_reason *reason, int framework, char *buf, size_t size);

/* Whether the program does the same without the option as with this value. */
bool p4d_heeds__says_nothing(const p4d_request *request, p4d_option option);

/* Refuses an option of the user that has no effect in the request's framework, unless another check
 * refuses it. */
int p4d_heeds__check(const p4d_request *request, p4d_error *err);

/* The first option of the user that has no effect on the request's workload; P4D_OPTIONS: none. */
p4d_option p4d_heeds_unused(const p4d_request *request);
/* "--engine-tp has no effect on serving, only with --workload=rl" */
const char *p4d_heeds_unused_text(const p4d_request *request, p4d_option unused, const char *prefix,
				  char *buf, size_t size);
