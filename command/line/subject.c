/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that estimate, plan and simulate share: they turn a command line into a model on some GPUs. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "line/line.h"
#include "request/architecture.h"
#include "request/framework.h"

enum { USUAL_GPUS_PER_NODE = 8 };

void p4d_subject_say(p4d_subject *subject, p4d_code code, const char *fix, const char *format, ...)
{
	unsigned at = subject->messages < P4D_MESSAGES ? subject->messages++ : P4D_MESSAGES - 1;
	p4d_message *message = &subject->message[at];
	va_list args;

	message->code = code;
	snprintf(message->fix, sizeof(message->fix), "%s", fix);
	va_start(args, format);
	vsnprintf(message->text, sizeof(message->text), format, args);
	va_end(args);
}

void p4d_subject_say_precision(p4d_subject *subject, const p4d_request *request)
{
	char text[200], fix[40];
	const char *instead = p4d_guard_lacks_precision(request, subject->capacity.gpu, text, sizeof(text));

	if (!instead)
		return;
	snprintf(fix, sizeof(fix), "--%s", instead);
	p4d_subject_say(subject, P4D_E_PRECISION, fix, "%s", text);
}

static int resolve_model(p4d_subject *subject, p4d_error *err)
{
	p4d_request *request = &subject->request;

	if (!p4d_is_set(request, P4D_MODEL)) {
		p4d_fail(err, P4D_E_USAGE, "no model given");
		return p4d_fix(
		    err, "--model NAME (p4d models lists the names; a Hugging Face config.json works too)");
	}
	const int found = subject->quick ? p4d_model_resolve_built_in(request, &subject->preset, err)
					 : p4d_model_resolve(request, p4d_site_datadir(subject->site),
							     &subject->preset, err);
	if (found < 0)
		return -1;
	if (request->unmodelled[0])
		return p4d_fail(err, P4D_E_UNMODELLED, "%.250s: %.150s", request->model, request->unmodelled);
	const p4d_preset *preset = &subject->preset;
	snprintf(subject->model, sizeof(subject->model), "%s%s%s%s",
		 *preset->name ? preset->name : request->model, *preset->file ? " (" : "", preset->file,
		 *preset->file ? ")" : "");
	const p4d_architecture *architecture = p4d_architecture_of(request);
	if (architecture->unvalidated)
		p4d_subject_say(subject, P4D_E_UNVALIDATED, "",
				"unvalidated: nobody has compared p4d's memory for %s models with real code",
				architecture->name);
	if (p4d_is_set(request, P4D_JUDGED_PART))
		p4d_subject_say(subject, P4D_E_PARTLY, "", "p4d checked only %s", request->judged_part);
	return 0;
}

int p4d_line_unknown_gpu(const p4d_site *site, const char *name, p4d_error *err)
{
	const p4d_gpus *gpus = p4d_site_gpus(site);
	p4d_suggest alike = {.wanted = name};

	for (size_t i = 0; i < gpus->count; i++)
		p4d_suggest_offer(&alike, gpus->gpu[i].name);
	p4d_fail(err, P4D_E_UNKNOWN_GPU, "unknown GPU \"%s\"%s; `p4d gpus` lists the known ones", name,
		 p4d_suggest_text(&alike));
	return -1;
}

/* Chooses the GPU that the user named, or else the GPU of the site's default partition. */
static int choose_gpu(p4d_subject *subject, p4d_error *err)
{
	const p4d_site_partition *partition = p4d_site_partition_of(subject->site, NULL);
	p4d_request *request = &subject->request;
	unsigned ambiguous = 1;
	const p4d_gpu *gpu;

	if (!p4d_on_gpu(request->value[P4D_DEVICE]))
		return 0;
	if (p4d_is_set(request, P4D_GPU)) {
		gpu = p4d_site_gpu(subject->site, request->gpu, &ambiguous);
		if (!gpu)
			return p4d_line_unknown_gpu(subject->site, request->gpu, err);
	} else {
		gpu = p4d_site_least_gpu(partition);
		if (!gpu)
			return 0;
		p4d_request_put(request, P4D_GPU, 1, P4D_BY_SITE);
	}
	if (ambiguous > 1)
		p4d_subject_say(subject, P4D_E_AMBIGUOUS_GPU, "",
				"\"%s\" matches %u GPUs with different memory; p4d assumes %s, which has the "
				"least (`p4d gpus` lists them)",
				request->gpu, ambiguous, gpu->name);
	snprintf(request->gpu, sizeof(request->gpu), "%s", gpu->name);
	subject->capacity.gpu = gpu;
	p4d_gpu_set_domain(gpu, request);
	p4d_site_apply_network(subject->site, NULL, gpu, request);
	return 0;
}

static uint64_t value_or_1(const p4d_request *request, p4d_option option)
{
	return p4d_is_set(request, option) ? (uint64_t)request->value[option] : 1;
}

/*
 * Number of GPUs in a whole node: the site's number if its default partition has this GPU, else the usual
 * number for this GPU.
 */
static uint64_t whole_node(const p4d_subject *subject, bool of_site)
{
	const p4d_site_partition *partition = p4d_site_partition_of(subject->site, NULL);
	const p4d_gpu *gpu = subject->capacity.gpu;

	if (of_site && partition && partition->gpus_per_node)
		return partition->gpus_per_node;
	return gpu ? p4d_gpu_usual_node(gpu) : USUAL_GPUS_PER_NODE;
}

/*
 * The largest number of GPUs per node, up to `most`, with which `world` GPUs fill whole nodes and tp stays
 * inside one.
 */
static uint64_t fill_nodes(uint64_t most, uint64_t world, uint64_t tp, uint64_t heads)
{
	for (uint64_t gpus = most; gpus >= 1 && heads % tp == 0; gpus--)
		if (world % gpus == 0 && gpus % tp == 0)
			return gpus;
	return most; /* nothing divides: the layout's own checks then give a better message */
}

static int uneven(uint64_t gpus, const char *over, uint64_t count, p4d_error *err)
{
	p4d_fail(err, P4D_E_GEOMETRY, "%" PRIu64 " GPUs cannot be spread evenly over %s=%" PRIu64, gpus, over,
		 count);
	return p4d_fix(err, "--gpus=%" PRIu64, (gpus / count + (gpus < count)) * count);
}

/* Divides the GPUs of --gpus, which are those of the whole job, among nodes. If whole nodes of the usual
 * size are possible, it uses these. */
static int spread_gpus(p4d_subject *subject, uint64_t gpus, p4d_error *err)
{
	p4d_request *request = &subject->request;
	const bool of_site = request->origin[P4D_GPU] == P4D_BY_SITE;
	uint64_t each = whole_node(subject, of_site);

	if (p4d_is_set(request, P4D_NODES)) {
		const uint64_t nodes = (uint64_t)request->value[P4D_NODES];
		if (gpus % nodes)
			return uneven(gpus, "nodes", nodes, err);
		each = gpus / nodes;
	}
	if (p4d_is_set(request, P4D_GPUS_PER_NODE)) {
		const uint64_t per_node = (uint64_t)request->value[P4D_GPUS_PER_NODE];
		if (gpus % per_node || (p4d_is_set(request, P4D_NODES) && each != per_node))
			return uneven(gpus, "gpus-per-node", per_node, err);
		each = per_node;
	}
	while (gpus % each)
		each--;
	if (each > (uint64_t)p4d_request_option_info(P4D_GPUS_PER_NODE)->max)
		return uneven(gpus, "nodes", gpus / each, err);
	p4d_request_put(request, P4D_GPUS_PER_NODE, (int64_t)each, P4D_BY_USER);
	p4d_request_put(request, P4D_NODES, (int64_t)(gpus / each), P4D_BY_USER);
	return 0;
}

static void choose_geometry(p4d_subject *subject, bool search)
{
	const p4d_site_partition *partition = p4d_site_partition_of(subject->site, NULL);
	const bool of_site =
	    partition && partition->gpus_per_node && subject->request.origin[P4D_GPU] == P4D_BY_SITE;
	p4d_request *request = &subject->request;
	const uint64_t tp = value_or_1(request, P4D_TP);
	/* each factor is at most 4096, so this cannot overflow */
	const uint64_t ranks = tp * value_or_1(request, P4D_CP) * value_or_1(request, P4D_PP);

	if (!p4d_is_set(request, P4D_GPUS_PER_NODE)) {
		/* a user who gives a number of nodes means whole nodes */
		const bool whole = search || p4d_is_set(request, P4D_NODES);
		uint64_t gpus = whole_node(subject, of_site && whole);
		if (!whole)
			gpus = fill_nodes(gpus, ranks, tp, (uint64_t)request->value[P4D_HEADS]);
		p4d_request_put(request, P4D_GPUS_PER_NODE, (int64_t)gpus,
				of_site && whole ? P4D_BY_SITE : P4D_BY_P4D);
	}
	subject->gpus_per_node = (uint64_t)request->value[P4D_GPUS_PER_NODE];
	if (!p4d_is_set(request, P4D_NODES)) {
		uint64_t nodes = (ranks + subject->gpus_per_node - 1) / subject->gpus_per_node;
		p4d_request_put(request, P4D_NODES, (int64_t)nodes, P4D_BY_P4D);
	}
	subject->nodes = (uint64_t)request->value[P4D_NODES];
}

/*
 * Chooses the HF Trainer if the user names no framework, and the options ask for fine-tuning, adapters or
 * quantized weights. Also chooses it if the model is from the hub, except for a search, which looks for
 * layouts that the Trainer does not have.
 */
static void choose_framework(p4d_subject *subject, bool search)
{
	static const p4d_option tuning[] = {P4D_LORA_RANK, P4D_LORA_TARGETS, P4D_LORA_DROPOUT,
					    P4D_ADAPTER_DTYPE, P4D_QUANT};
	p4d_request *request = &subject->request;
	const char *model = request->model, *end = strrchr(model, '.');
	const bool trains = request->value[P4D_WORKLOAD] == P4D_WORKLOAD_TRAIN;
	bool tunes = p4d_is_set(request, P4D_FINETUNE) && request->value[P4D_FINETUNE];

	if (p4d_is_set(request, P4D_FRAMEWORK) || !trains || !p4d_on_gpu(request->value[P4D_DEVICE]))
		return;
	for (size_t i = 0; i < sizeof(tuning) / sizeof(*tuning); i++)
		tunes = tunes || p4d_is_set(request, tuning[i]);
	const bool of_hub = strchr(model, '/') || (end && !strcmp(end, ".json"));
	for (int i = 0; i < P4D_FRAMEWORKS && (tunes || (of_hub && !search)); i++)
		if (p4d_framework_of(i)->fine_tunes && p4d_framework_suits(request, i))
			p4d_request_put(request, P4D_FRAMEWORK, i, P4D_BY_P4D);
}

void p4d_subject_print_framework(const p4d_request *request, bool search)
{
	const int framework = (int)request->value[P4D_FRAMEWORK];
	const p4d_framework *f = p4d_framework_of(framework);
	const char *before = " --framework ";

	if (request->origin[P4D_FRAMEWORK] != P4D_BY_P4D)
		return;
	printf("%s of %s (--framework %s%s. For others:", search ? "Layouts" : "Memory",
	       f->title ? f->title : f->program, f->name,
	       search && strchr(request->model, '/') ? "), also for names of the hub" : ")");
	for (int i = 0; i < P4D_FRAMEWORKS; i++)
		if (i != framework) {
			const char *also = p4d_framework_of(i)->also;
			printf("%s%s%s", before, p4d_framework_of(i)->name, also ? also : "");
			before = "|";
		}
	puts("");
}

int p4d_subject_open(p4d_subject *subject, const p4d_line *line, bool search, p4d_error *err)
{
	const p4d_site_partition *partition;

	subject->request = line->request;
	subject->quick = line->quick;
	subject->site =
	    line->quick ? p4d_site_default(NULL, P4D_MODE_ENFORCE, err) : p4d_line_open_site(line->conf, err);
	if (!subject->site || resolve_model(subject, err) < 0)
		return -1;
	p4d_site_apply_defaults(subject->site, NULL, &subject->request);
	choose_framework(subject, search);
	if (choose_gpu(subject, err) < 0)
		return -1;
	if (line->gpus && spread_gpus(subject, line->gpus, err) < 0)
		return -1;
	choose_geometry(subject, search);
	partition = p4d_site_partition_of(subject->site, NULL);
	subject->mem_bytes = line->mem_bytes;
	if (!subject->mem_bytes && partition && subject->request.origin[P4D_GPU] == P4D_BY_SITE)
		subject->mem_bytes = partition->mem_per_node_bytes;
	subject->capacity.host_bytes = subject->mem_bytes;
	subject->capacity.host_bytes_per_rank = p4d_site_host_bytes_per_rank(subject->site);
	subject->method =
	    subject->request.value[P4D_METHOD] == P4D_METHOD_PAPER ? P4D_METHOD_PAPER : P4D_METHOD_PLAN;
	subject->policy = p4d_site_policy(
	    subject->site,
	    &(p4d_site_job){.gpu = subject->capacity.gpu ? subject->capacity.gpu->name : NULL});
	subject->largest = line->largest;
	subject->assumptions = subject->messages;
	return 0;
}

int p4d_subject_trains(p4d_subject *subject, p4d_error *err)
{
	char flags[1024], workload[16];

	if (subject->request.value[P4D_WORKLOAD] != P4D_WORKLOAD_TRAIN &&
	    !p4d_framework_trains_pairs(&subject->request)) {
		p4d_request_flags(&subject->request, "--", 1u << P4D_BY_USER, flags, sizeof(flags));
		p4d_fail(err, P4D_E_USAGE, "workload=%s: this command is only for training",
			 p4d_request_value_text(&subject->request, P4D_WORKLOAD, workload, sizeof(workload)));
		return p4d_fix(err, "p4d estimate %s%s%s --nodes=%" PRIu64 " --gpus-per-node=%" PRIu64, flags,
			       subject->request.gpu[0] ? " --gpu=" : "", subject->request.gpu, subject->nodes,
			       subject->gpus_per_node);
	}
	p4d_subject_say_unused(subject);
	return 0;
}

void p4d_subject_say_unused(p4d_subject *subject)
{
	const p4d_option unused = p4d_heeds_unused(&subject->request);
	char text[160];

	if (unused != P4D_OPTIONS)
		p4d_subject_say(subject, P4D_E_NO_EFFECT, "", "%s",
				p4d_heeds_unused_text(&subject->request, unused, "--", text, sizeof(text)));
}

void p4d_subject_close(p4d_subject *subject)
{
	p4d_site_free(subject->site);
	subject->site = NULL;
}

const char *p4d_subject_flags(const p4d_request *request, const char *prefix, char *buf, size_t size)
{
	p4d_request shown = *request;
	const bool piped = request->value[P4D_PP] > 1, cut = request->value[P4D_CP] > 1;
	const bool cuts_vocabulary = !p4d_framework_of((int)request->value[P4D_FRAMEWORK])->no_vocab_parallel;

	/* if p4d chose the values of these options, they are printed only if they are on */
	static const p4d_option ends[] = {P4D_ACCOUNT_FOR_EMBEDDING, P4D_ACCOUNT_FOR_LOSS};
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (shown.origin[ends[i]] == P4D_BY_P4D && shown.value[ends[i]])
			shown.origin[ends[i]] = P4D_BY_USER;
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (shown.origin[i] == P4D_BY_P4D)
			shown.origin[i] = P4D_UNSET;
	/* all layout options are printed, so that a later p4d leaves nothing to its defaults */
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++) {
		p4d_option option = p4d_layout_options[i];
		bool of_pipelines =
		    option == P4D_SCHEDULE || option == P4D_VPP || option == P4D_VOCAB_PARALLEL;
		bool of_vocabulary = option == P4D_VOCAB_PARALLEL, of_context = option == P4D_CP_COMM;
		if (p4d_is_set(request, option) && (piped || !of_pipelines) && (cut || !of_context) &&
		    (!of_vocabulary || cuts_vocabulary))
			shown.origin[option] = P4D_BY_USER;
	}
	for (size_t i = 0; i < P4D_SHARING_OPTIONS; i++)
		if (p4d_layout_shares_more(request, p4d_sharing_options[i]))
			shown.origin[p4d_sharing_options[i]] = P4D_BY_USER;
	if (p4d_is_set(request, P4D_FRAMEWORK))
		shown.origin[P4D_FRAMEWORK] = P4D_BY_USER;
	if (p4d_is_set(request, P4D_PIPELINE_SPLIT))
		shown.origin[P4D_PIPELINE_SPLIT] = P4D_BY_USER;
	if (p4d_is_set(request, P4D_SLICE_LENGTHS))
		shown.origin[P4D_SLICE_LENGTHS] = P4D_BY_USER;
	if (p4d_is_set(request, P4D_TP_GRID))
		shown.origin[P4D_TP_GRID] = P4D_BY_USER;
	/* the default of the global batch depends on the micro-batch, which a fix may change */
	if (p4d_is_set(request, P4D_GLOBAL_BATCH) &&
	    p4d_framework_of((int)request->value[P4D_FRAMEWORK])->fine_tunes)
		shown.origin[P4D_GLOBAL_BATCH] = P4D_BY_USER;
	shown.origin[P4D_FIX] = P4D_UNSET;
	p4d_request_flags(&shown, prefix, 1u << P4D_BY_USER, buf, size);
	return buf;
}

const char *p4d_subject_command(const p4d_subject *subject, const p4d_request *request, uint64_t nodes,
				uint64_t gpus_per_node, char *buf, size_t size)
{
	const bool finds = subject->largest != P4D_OPTIONS;
	p4d_request shown = *request;
	char flags[1024];

	if (finds)
		shown.origin[subject->largest] = P4D_UNSET;
	/* the default of the global batch depends on the micro-batch */
	if (subject->largest == P4D_MICRO_BATCH && !p4d_is_set(&subject->request, P4D_GLOBAL_BATCH))
		shown.origin[P4D_GLOBAL_BATCH] = P4D_UNSET;
	snprintf(buf, size, "p4d estimate %s%s%s%s%s%s --nodes=%" PRIu64 " --gpus-per-node=%" PRIu64 "%s",
		 p4d_subject_flags(&shown, "--", flags, sizeof(flags)), finds ? " --" : "",
		 finds ? p4d_request_option_info(subject->largest)->name : "", finds ? "=auto" : "",
		 request->gpu[0] ? " --gpu=" : "", request->gpu, nodes, gpus_per_node,
		 request->value[P4D_METHOD] == P4D_METHOD_PAPER ? " --method=paper" : "");
	return buf;
}

uint64_t p4d_subject_most_gpus(const p4d_subject *subject)
{
	uint64_t usual = whole_node(subject, true);

	return subject->gpus_per_node > usual ? subject->gpus_per_node : usual;
}
