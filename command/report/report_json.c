/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON. Names of members are stable and documented in p4d-json(5): names may be added, but never
 * changed.
 */
#include <math.h>
#include <stdio.h>

#include "plan/memory_played.h"
#include "report/report.h"

static struct json_object *text(const char *string)
{
	return json_object_new_string(string);
}

static void add(struct json_object *to, const char *key, struct json_object *value)
{
	json_object_object_add(to, key, value);
}

struct json_object *p4d_report_json_bytes(uint64_t bytes)
{
	return bytes == P4D_NOT_MODELLED ? NULL : json_object_new_uint64(bytes);
}

struct json_object *p4d_report_json_fraction(double fraction)
{
	char digits[32];

	if (fabs(fraction) < 5e-5)
		fraction = 0; /* avoids "-0.0000" */
	snprintf(digits, sizeof(digits), "%.4f", fraction);
	return json_object_new_double_s(fraction, digits);
}

struct json_object *p4d_report_json_messages(unsigned count, const p4d_message *messages)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < count; i++) {
		struct json_object *message = json_object_new_object();
		char code[16];
		snprintf(code, sizeof(code), "P4D%03d", (int)messages[i].code);
		add(message, "code", text(code));
		add(message, "text", text(messages[i].text));
		add(message, "fix", messages[i].fix[0] ? text(messages[i].fix) : NULL);
		json_object_array_add(list, message);
	}
	return list;
}

struct json_object *p4d_report_json_error(const p4d_error *err)
{
	struct json_object *object = json_object_new_object();
	p4d_message message = {.code = err->code};

	snprintf(message.text, sizeof(message.text), "%s", err->text);
	snprintf(message.fix, sizeof(message.fix), "%s", err->fix);
	add(object, "verdict", text("error"));
	add(object, "messages", p4d_report_json_messages(1, &message));
	return object;
}

struct json_object *p4d_report_json_gpu(const p4d_gpu *gpu)
{
	if (!gpu)
		return NULL;
	struct json_object *object = json_object_new_object();
	add(object, "name", text(gpu->name));
	add(object, "usable_bytes", json_object_new_uint64(gpu->usable_bytes));
	return object;
}

static struct json_object *choice(p4d_option option, int value)
{
	char name[32];

	return text(p4d_request_choice_name(option, value, name, sizeof(name)));
}

static struct json_object *json_of_grid(const p4d_layout *l)
{
	const uint64_t grid[] = {l->tp, l->tp_y, l->tp_z};
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < sizeof(grid) / sizeof(*grid); i++)
		json_object_array_add(array, json_object_new_uint64(grid[i]));
	return array;
}

struct json_object *p4d_report_json_layout(const p4d_layout *l, uint64_t nodes)
{
	struct json_object *object = json_object_new_object();
	struct json_object *split = json_object_new_array();

	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
	    {"tp", p4d_tp_ranks(l)},
	    {"cp", l->cp},
	    {"pp", l->pp},
	    {"dp", l->dp},
	    {"ep", l->ep},
	    {"etp", l->etp},
	    {"vpp", l->vpp},
	    {"micro_batch", l->micro_batch},
	    {"eval_micro_batch", l->eval_micro_batch},
	    {"global_batch", l->global_batch},
	    {"micro_batches", l->micro_batches},
	    {"seq_len", l->seq_len},
	    {"world", l->world},
	    {"nodes", nodes},
	    {"gpus_per_node", l->gpus_per_node},
	    {"recompute_layers", l->megatron.recompute_layers},
	};
	const struct {
		const char *name;
		p4d_option option;
		int value;
	} choices[] = {
	    {"cp_comm", P4D_CP_COMM, l->cp_comm},
	    {"schedule", P4D_SCHEDULE, l->schedule},
	    {"vocab_parallel", P4D_VOCAB_PARALLEL, l->vocab_parallel},
	    {"local_loss", P4D_LOCAL_LOSS, l->local_loss},
	    {"recompute", P4D_RECOMPUTE, l->recompute},
	    {"recompute_method", P4D_RECOMPUTE_METHOD, l->megatron.recompute_block},
	    {"sequence_parallel", P4D_SEQUENCE_PARALLEL, l->sequence_parallel},
	    {"optimizer_sharding", P4D_OPTIMIZER_SHARDING, l->optimizer_sharding},
	    {"precision", P4D_PRECISION, l->precision},
	    {"device", P4D_DEVICE, l->device},
	    {"cross_entropy", P4D_CROSS_ENTROPY, l->megatron.fused_cross_entropy},
	    {"swiglu", P4D_SWIGLU, l->fused_swiglu},
	    {"attention", P4D_ATTENTION, l->flash_attention},
	    {"dropout", P4D_DROPOUT, l->dropout},
	    {"te_wgrad", P4D_TE_WGRAD, l->megatron.te_wgrad},
	    {"grad_dtype", P4D_GRAD_DTYPE, l->grad_dtype},
	    {"optimizer_dtype", P4D_OPTIMIZER_DTYPE, l->half_moments},
	    {"master_dtype", P4D_MASTER_DTYPE, l->megatron.half_master},
	    {"tp_comm_overlap", P4D_TP_COMM_OVERLAP, l->tp_comm_overlap},
	    {"overlap_p2p", P4D_OVERLAP_P2P, l->megatron.overlap_p2p},
	    {"overlap_dp", P4D_OVERLAP_DP, l->overlap_dp},
	    {"allocator", P4D_ALLOCATOR, l->allocator},
	    {"account_for_embedding", P4D_ACCOUNT_FOR_EMBEDDING, l->embedding_counts},
	    {"account_for_loss", P4D_ACCOUNT_FOR_LOSS, l->loss_counts},
	};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		add(object, numbers[i].name, json_object_new_uint64(numbers[i].value));
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
		add(object, choices[i].name, choice(choices[i].option, choices[i].value));
	for (uint64_t stage = 0; stage < l->pp; stage++)
		json_object_array_add(split, json_object_new_uint64(l->stage_layers[stage]));
	add(object, "pipeline_split", split);
	if (p4d_tp_ranks(l) != l->tp)
		add(object, "tp_grid", json_of_grid(l));
	if (l->slices == 1)
		return object;
	struct json_object *lengths = json_object_new_array();
	for (uint64_t i = 0; i < l->slices; i++)
		json_object_array_add(lengths, json_object_new_uint64(l->slice_tokens[i]));
	add(object, "token_slices", json_object_new_uint64(l->slices));
	add(object, "slice_lengths", lengths);
	return object;
}

struct json_object *p4d_report_json_unvalidated(const char *what)
{
	return what ? json_object_new_string(what) : NULL;
}

struct json_object *p4d_report_json_peak(const p4d_estimate *estimate)
{
	struct json_object *object = json_object_new_object();

	add(object, "stage", json_object_new_uint64(estimate->stage));
	add(object, "phase", text(p4d_memory_phase_name(estimate->peak.phase)));
	add(object, "allocated_bytes", p4d_report_json_bytes(estimate->peak.allocated_bytes));
	add(object, "device_bytes", p4d_report_json_bytes(estimate->peak.device_bytes));
	add(object, "capacity_bytes",
	    estimate->capacity_bytes ? p4d_report_json_bytes(estimate->capacity_bytes) : NULL);
	add(object, "fraction",
	    estimate->capacity_bytes ? p4d_report_json_fraction(estimate->fraction) : NULL);
	return object;
}

static struct json_object *stage_object(const p4d_layout *layout, uint32_t number, const p4d_stage *stage)
{
	struct json_object *object = json_object_new_object();
	struct json_object *parts = json_object_new_object(), *phases = json_object_new_object();

	for (int part = 0; part < P4D_PART_COUNT; part++)
		add(parts, p4d_memory_class_name((p4d_memory_class)part),
		    p4d_report_json_bytes(stage->part[part]));
	for (int phase = 0; phase < P4D_PHASES; phase++)
		add(phases, p4d_memory_phase_name((p4d_phase)phase),
		    p4d_report_json_bytes(stage->phase_bytes[phase]));
	add(object, "stage", json_object_new_uint64(number));
	add(object, "layers", json_object_new_uint64(layout->stage_layers[number]));
	add(object, "phase", text(p4d_memory_phase_name(stage->phase)));
	add(object, "allocated_bytes", p4d_report_json_bytes(stage->allocated_bytes));
	add(object, "device_bytes", p4d_report_json_bytes(stage->device_bytes));
	add(object, "parts", parts);
	add(object, "phases", phases);
	return object;
}

int p4d_report_json_stages(const p4d_layout *layout, const p4d_estimate *estimate,
			   struct json_object **stages, p4d_error *err)
{
	struct json_object *list = json_object_new_array();
	p4d_stage stage;

	for (uint32_t i = 0; i < p4d_memory_stage_count(layout, estimate->method); i++) {
		if (p4d_memory_of_estimate(layout, estimate, i, &stage, err) < 0) {
			json_object_put(list);
			return -1;
		}
		json_object_array_add(list, stage_object(layout, i, &stage));
	}
	*stages = list;
	return 0;
}

struct json_object *p4d_report_json_host(const p4d_estimate *estimate, uint64_t granted_bytes)
{
	struct json_object *object = json_object_new_object();

	add(object, "needed_bytes", p4d_report_json_bytes(estimate->host_bytes));
	add(object, "granted_bytes", granted_bytes ? p4d_report_json_bytes(granted_bytes) : NULL);
	add(object, "rounding_bytes", json_object_new_uint64(estimate->host.rounding));
	add(object, "loading_bytes", json_object_new_uint64(estimate->host.loading));
	add(object, "saving_bytes", json_object_new_uint64(estimate->host.saving));
	return object;
}

static const char *const names[] = {"unset", "user", "script", "site", "model", "p4d"};

struct json_object *p4d_report_json_batch(const p4d_request *request)
{
	const uint64_t batch = (uint64_t)request->value[P4D_GLOBAL_BATCH];
	struct json_object *object = json_object_new_object();

	add(object, "sequences", json_object_new_uint64(batch));
	add(object, "tokens", json_object_new_uint64(batch * (uint64_t)request->value[P4D_SEQ_LEN]));
	add(object, "by", text(names[request->origin[P4D_GLOBAL_BATCH]]));
	return object;
}

struct json_object *p4d_report_json_defaults(const p4d_request *request)
{
	struct json_object *object = json_object_new_object();

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (request->origin[i] > P4D_BY_USER && (info->where & P4D_WHERE_COMMAND))
			add(object, info->name, text(names[request->origin[i]]));
	}
	return object;
}

/* The version of the format, see p4d-json(5). */
enum { SCHEMA = 1 };

static _Thread_local struct json_object **taker;

void p4d_report_json_take(struct json_object **into)
{
	taker = into;
}

int p4d_report_json_print(struct json_object *object, p4d_error *err)
{
	if (json_object_is_type(object, json_type_object) &&
	    !json_object_object_get_ex(object, "schema", NULL))
		json_object_object_add(object, "schema", json_object_new_int(SCHEMA));
	if (taker) {
		json_object_put(*taker);
		*taker = object;
		return 0;
	}
	const char *string =
	    json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);

	if (string)
		puts(string);
	json_object_put(object);
	return string ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the JSON text");
}
