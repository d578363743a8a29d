/* SPDX-License-Identifier: Apache-2.0 */
#include "report/colocated.h"

#include <inttypes.h>
#include <stdio.h>

#include "serve/colocated.h"
#include "report/report.h"
#include "request/defaults.h"
#include "request/framework.h"

typedef struct colocated_part {
	const char *name;
	uint64_t generating, training;
} colocated_part;

enum { PARTS = 5 };

static void list(const p4d_colocated *c, colocated_part parts[PARTS])
{
	parts[0] = (colocated_part){"actor", c->generating.actor, c->training.actor};
	parts[1] = (colocated_part){"reference", c->generating.reference, c->training.reference};
	parts[2] = (colocated_part){"critic", c->generating.critic, c->training.critic};
	parts[3] = (colocated_part){"engine", c->generating.engine, c->training.engine};
	parts[4] = (colocated_part){"sum", c->generating.sum, c->training.sum};
}

void p4d_colocated_json(const p4d_colocated *c, struct json_object *object)
{
	struct json_object *sums[2] = {json_object_new_object(), json_object_new_object()};
	colocated_part parts[PARTS];

	list(c, parts);
	for (int i = 0; i < PARTS; i++) {
		json_object_object_add(sums[0], parts[i].name, json_object_new_uint64(parts[i].generating));
		json_object_object_add(sums[1], parts[i].name, json_object_new_uint64(parts[i].training));
	}
	json_object_object_add(object, "capacity_bytes", json_object_new_uint64(c->capacity_bytes));
	json_object_object_add(object, "generating", sums[0]);
	json_object_object_add(object, "training", sums[1]);
	json_object_object_add(object, "host_bytes", json_object_new_uint64(c->host_bytes));
	json_object_object_add(object, "cache_tokens", json_object_new_uint64(c->serving.tokens));
}

static int print_json(const p4d_subject *subject, const p4d_layout *l, const p4d_colocated *c, bool fits,
		      p4d_error *err)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "model", json_object_new_string(subject->model));
	json_object_object_add(object, "framework",
			       json_object_new_string(p4d_framework_of(l->framework)->name));
	json_object_object_add(object, "gpu", json_object_new_string(subject->capacity.gpu->name));
	json_object_object_add(object, "layout", p4d_report_json_layout(l, subject->nodes));
	p4d_colocated_json(c, object);
	json_object_object_add(object, "fits", json_object_new_boolean(fits));
	json_object_object_add(object, "validated", json_object_new_boolean(false));
	json_object_object_add(object, "verdict",
			       json_object_new_string(p4d_report_action(fits ? P4D_PASS : P4D_REJECT)));
	json_object_object_add(
	    object, "unvalidated",
	    json_object_new_string(c->pairs ? "preference training" : "reinforcement learning"));
	json_object_object_add(object, "messages",
			       p4d_report_json_messages(subject->messages, subject->message));
	return p4d_report_json_print(object, err);
}

static void print_pairs(const p4d_subject *subject, const p4d_layout *l, const p4d_colocated *c)
{
	char a[P4D_SIZE_TEXT], b[P4D_SIZE_TEXT];

	printf("%s, preference training on %" PRIu64 " x %s: %s, tp=%" PRIu64 " pp=%" PRIu64 " dp=%" PRIu64
	       ", %" PRIu64 " pairs a micro-batch\n",
	       subject->model, p4d_tp_ranks(l) * l->cp * l->pp * l->dp, subject->capacity.gpu->name,
	       p4d_framework_of(l->framework)->name, l->tp, l->pp, l->dp, l->micro_batch);
	printf("GiB per GPU: policy %s, reference %s", p4d_report_gib(c->training.actor, a),
	       p4d_report_gib(c->training.reference, b));
	printf(", sum %s of %s\n", p4d_report_gib(c->training.sum, a), p4d_report_gib(c->capacity_bytes, b));
}

static void print_colocated(const p4d_subject *subject, const p4d_layout *l, const p4d_colocated *c)
{
	char a[P4D_SIZE_TEXT], b[P4D_SIZE_TEXT];
	colocated_part parts[PARTS];

	list(c, parts);
	printf("%s, reinforcement learning on %" PRIu64 " x %s: %s, tp=%" PRIu64 " pp=%" PRIu64 " dp=%" PRIu64
	       "; engine on %s\n",
	       subject->model, p4d_tp_ranks(l) * l->cp * l->pp * l->dp, subject->capacity.gpu->name,
	       p4d_framework_of(l->framework)->name, l->tp, l->pp, l->dp,
	       c->serving.max_model_len ? "the same GPUs" : "others");
	printf("%-16s %12s %12s\n", "GiB per GPU", "generating", "training");
	for (int i = 0; i < PARTS; i++)
		printf("%-16s %12s %12s\n", parts[i].name, p4d_report_gib(parts[i].generating, a),
		       p4d_report_gib(parts[i].training, b));
	printf("%-16s %12s\n", "GPU", p4d_report_gib(c->capacity_bytes, a));
	if (c->host_bytes)
		printf("Swapped to the host: %s for each GPU\n", p4d_report_gib(c->host_bytes, a));
	if (c->serving.max_model_len)
		printf("Engine: tp=%" PRIu64 ", weights %s, %" PRIu64 " tokens of keys and values\n",
		       c->engine_tp, p4d_report_gib(c->serving.weights_bytes, a), c->serving.tokens);
}

static void print_text(const p4d_subject *subject, const p4d_layout *l, const p4d_colocated *c, bool fits)
{
	(c->pairs ? print_pairs : print_colocated)(subject, l, c);
	printf("Verdict: %s (unvalidated)\n", fits ? "fits" : "does not fit");
	fflush(stdout);
	p4d_report_messages(subject->messages, subject->message);
}

int p4d_colocated_report(p4d_subject *subject, bool json, p4d_error *err)
{
	const p4d_gpu *gpu = subject->capacity.gpu;
	p4d_request *r = &subject->request;
	p4d_error why = {.code = P4D_OK};
	p4d_colocated c;
	p4d_layout l;

	if (!gpu) {
		p4d_fail(err, P4D_E_UNKNOWN_GPU, "without --gpu, p4d cannot check several models together");
		return p4d_fix(err, "--gpu NAME (p4d gpus lists them)");
	}
	p4d_colocated_complete(r, subject->nodes * subject->gpus_per_node);
	p4d_request_complete(r, subject->preset.global_batch, subject->nodes * subject->gpus_per_node);
	if (p4d_layout_build(r, subject->nodes, subject->gpus_per_node, &l, err) < 0 ||
	    p4d_colocated_estimate(r, &l, gpu, &c, err) < 0)
		return -1;
	if (p4d_colocated_check(r, &l, gpu, &c, p4d_site_policy_limit(&subject->policy, l.framework), &why) <
	    0) {
		p4d_request_without_prefix(why.fix);
		p4d_subject_say(subject, why.code, why.fix, "%s", why.text);
	}
	if (!json)
		print_text(subject, &l, &c, why.code == P4D_OK);
	else if (print_json(subject, &l, &c, why.code == P4D_OK, err) < 0)
		return -1;
	return (int)why.code;
}
