/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces CUPTI for PyTorch's profiler. It collects nothing, because no kernel runs. NVIDIA's CUPTI would
 * look for internals of the driver, which the simulated driver does not have.
 */
#include <stdint.h>
#include <time.h>

#include "abi.h"

/* CUptiResult */
enum { CUPTI_OK = 0, CUPTI_NO_MORE = 12 };

#define DONE(name) \
	ENTRY int name(void) \
	{ \
		return CUPTI_OK; \
	}
DONE(cuptiActivityDisable)
DONE(cuptiActivityDisableContext)
DONE(cuptiActivityEnable)
DONE(cuptiActivityEnableContext)
DONE(cuptiActivityEnableCudaEventDeviceTimestamps)
DONE(cuptiActivityEnableDriverApi)
DONE(cuptiActivityEnableLatencyTimestamps)
DONE(cuptiActivityEnableRuntimeApi)
DONE(cuptiActivityFlushAll)
DONE(cuptiActivityFlushPeriod)
DONE(cuptiActivityPushExternalCorrelationId)
DONE(cuptiActivityRegisterCallbacks)
DONE(cuptiActivityRegisterTimestampCallback)
DONE(cuptiActivitySetAttribute)
DONE(cuptiEnableAllDomains)
DONE(cuptiEnableCallback)
DONE(cuptiEnableDomain)
DONE(cuptiFinalize)
DONE(cuptiUnsubscribe)

ENTRY int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last)
{
	(void)kind;
	if (last)
		*last = 0;
	return CUPTI_OK;
}

ENTRY int cuptiActivityGetNextRecord(void)
{
	return CUPTI_NO_MORE;
}

ENTRY int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	*dropped = 0;
	return CUPTI_OK;
}

/* Returns a handle that the caller only passes back. */
ENTRY int cuptiSubscribe(void **subscriber)
{
	static char only;

	*subscriber = &only;
	return CUPTI_OK;
}

ENTRY int cuptiGetVersion(uint32_t *version)
{
	*version = 24; /* the version of CUDA 12.4; PyTorch accepts any that it knows */
	return CUPTI_OK;
}

ENTRY int cuptiGetResultString(int result, const char **text)
{
	*text = result ? "not collected in a rehearsal" : "CUPTI_SUCCESS";
	return CUPTI_OK;
}

ENTRY int cuptiGetCallbackName(int domain, uint32_t callback, const char **name)
{
	(void)domain;
	(void)callback;
	*name = "";
	return CUPTI_OK;
}

ENTRY int cuptiGetTimestamp(uint64_t *nanoseconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*nanoseconds = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	return CUPTI_OK;
}
