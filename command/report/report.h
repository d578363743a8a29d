/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <json-c/json.h>

#include "base/error.h"
#include "cost/breakdown.h"
#include "guard/guard.h"

/* report.c: text */
enum { P4D_SIZE_TEXT = 24 };
const char *p4d_report_gib(uint64_t bytes, char buf[P4D_SIZE_TEXT]);
const char *p4d_report_action(p4d_action action);
/*
 * Prints one line with the layout, and one with the options that the user did not set. all: also with less
 * important options that p4d chose.
 */
void p4d_report_layout(const char *model, const p4d_layout *layout, uint64_t nodes, const p4d_gpu *gpu,
		       int method);
void p4d_report_defaults(const p4d_request *request, bool all);
/* Prints a title, and below it a list that is broken at blanks. */
void p4d_report_list(const char *title, const char *entries);
/* Prints the table of stages and classes, the peak, its phases and host memory. safe and limit are
 * fractions of the capacity. */
int p4d_report_memory(const p4d_layout *layout, const p4d_estimate *estimate, double safe, double limit,
		      p4d_error *err);
/* Fills the table of stages and classes; the caller prints and frees it. */
struct p4d_table;
int p4d_report_stages(const p4d_layout *layout, const p4d_estimate *estimate, double safe, double limit,
		      struct p4d_table *table, p4d_error *err);
/* Whether the option's default is worth reporting. */
bool p4d_report_is_default(const p4d_request *request, int option);
/* Prints messages on stderr, in sbatch's form. */
void p4d_report_messages(unsigned count, const p4d_message *messages);
void p4d_report_error(const p4d_error *err);

/*
 * report_step.c. The cost model's prediction for a layout; known is false if the model does not cover the
 * GPU.
 */
typedef struct p4d_timed {
	bool known;
	const char *missing;     /* the gpus.json key that the GPU lacks for a step time; or NULL */
	const char *unvalidated; /* the part of the model that no measured step time was compared with;
				  * NULL: none */
	const char *error;       /* how far p4d's step times for this framework are from published step
				  * times; NULL: p4d says nothing about it */
	p4d_step step;
	p4d_breakdown losses;
} p4d_timed;
/* gpu: may be NULL. Errors: NO_MEMORY. */
int p4d_report_time_step(const p4d_layout *layout, const p4d_gpu *gpu, p4d_timed *timed, p4d_error *err);
/* Like p4d_report_time_step, but takes a step that the caller has predicted. If all members of `step` are
 * 0, the step time is unknown. */
int p4d_report_timed_of(const p4d_layout *layout, const p4d_gpu *gpu, const p4d_step *step, p4d_timed *timed,
			p4d_error *err);
const char *p4d_report_seconds(double seconds, char buf[P4D_SIZE_TEXT]); /* "3.214 s", "87.0 ms" */
/* The two largest parts of the step-time breakdown: "bubble 12 %, gemm 9 %". */
const char *p4d_report_limits(const p4d_timed *timed, char *buf, size_t size);
/* The step time in one line; empty without a GPU. */
const char *p4d_report_step_text(const p4d_gpu *gpu, const p4d_timed *timed, char *buf, size_t size);
void p4d_report_step(const p4d_gpu *gpu, const p4d_timed *timed);
/* NULL (null) if the cost model does not cover the GPU. */
struct json_object *p4d_report_json_step(const p4d_timed *timed);
struct json_object *p4d_report_json_breakdown(const p4d_timed *timed);
struct json_object *p4d_report_json_seconds(double seconds);

/* report_json.c: as documented in p4d-json(5). NULL only if memory runs out. */
struct json_object *p4d_report_json_messages(unsigned count, const p4d_message *messages);
struct json_object *p4d_report_json_error(const p4d_error *err);
struct json_object *p4d_report_json_layout(const p4d_layout *layout, uint64_t nodes);
struct json_object *p4d_report_json_gpu(const p4d_gpu *gpu);
/* The part of the memory model that no measurement was compared with, as in the text; NULL: none. */
struct json_object *p4d_report_json_unvalidated(const char *what);
struct json_object *p4d_report_json_peak(const p4d_estimate *estimate);
int p4d_report_json_stages(const p4d_layout *layout, const p4d_estimate *estimate,
			   struct json_object **stages, p4d_error *err);
struct json_object *p4d_report_json_host(const p4d_estimate *estimate, uint64_t granted_bytes);
struct json_object *p4d_report_json_batch(const p4d_request *request); /* the batch, and who decided it */
struct json_object *p4d_report_json_defaults(const p4d_request *request);
struct json_object *p4d_report_json_bytes(uint64_t bytes); /* null for P4D_NOT_MODELLED */
struct json_object *p4d_report_json_fraction(double fraction);
int p4d_report_json_print(struct json_object *object, p4d_error *err); /* also releases the object */
/*
 * From now on p4d_report_json_print stores this thread's last answer in *into, which the caller releases.
 * NULL: it prints to stdout.
 */
void p4d_report_json_take(struct json_object **into);
