/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the nodes and GPUs of a training, and options that follow from the environment of its process. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "reader/reader_internal.h"

p4d_read_value p4d_reader__place_of(const p4d_shell *shell, p4d_value value)
{
	p4d_read_given given;

	p4d_reader__place(shell, value, &given);
	return (p4d_read_value){.file = given.file, .line = given.line};
}

static void take_launched(p4d_reading *r, const p4d_shell *shell, p4d_option option, p4d_value value)
{
	uint64_t number;
	p4d_read_value found = p4d_reader__place_of(shell, value);

	if (!value.length)
		return;
	if (p4d_value_unknown(value)) {
		p4d_reader__unknown(r, p4d_request_option_info(option)->name, "%s",
				    p4d_shell_unknown(shell, p4d_value_unknown(value)));
		return;
	}
	p4d_value_text(value, found.text, sizeof(found.text));
	if (value.at[0].expanded && r->line && (found.line != r->line || strcmp(found.file, r->file) != 0)) {
		found.named_file = r->file;
		found.named_line = r->line;
	}
	if (p4d_number_whole(found.text, 1, UINT32_MAX, &number))
		r->value[option] = found; /* only numbers are stored: not "gpu", "auto" or "1:4" */
}

/*
 * The GPUs in CUDA_VISIBLE_DEVICES, if the script sets it: "0,1,2,3". In the job, Slurm replaces the value of
 * sbatch's environment. False: the script does not choose them.
 */
static bool sees_some(p4d_shell *shell, p4d_value *value, p4d_read_value *place)
{
	static const char name[] = "CUDA_VISIBLE_DEVICES";

	if (!p4d_shell_assigned(shell, name) || !p4d_shell_variable(shell, name, value) || !value->length)
		return false;
	*place = p4d_reader__place_of(shell, *value);
	return place->file && (place->file[0] != '$' || strcmp(place->file + 1, name) != 0);
}

/* Whether srun's options request GPUs for the step. The number of processes does not change these GPUs. */
static bool has_step_gpus(p4d_shell *shell, const p4d_launch *launch)
{
	const char *file =
	    launch->step_gpus.length ? p4d_reader__place_of(shell, launch->step_gpus).file : NULL;

	return file && file[0] != '$';
}

/* Stores the launcher's option for the number of processes. */
static void take_option(p4d_reading *r, p4d_shell *shell, const p4d_launch *launch)
{
	char name[sizeof(r->processes) - 2];
	p4d_read_value place;
	p4d_value value;

	r->names_gpus = sees_some(shell, &value, &place) || has_step_gpus(shell, launch) ||
			launch->included.length || launch->excluded.length;
	if (launch->gpus_option.length)
		snprintf(r->processes, sizeof(r->processes), "--%s",
			 p4d_value_text(launch->gpus_option, name, sizeof(name)));
}

static bool take_visible(p4d_reading *r, p4d_shell *shell)
{
	p4d_read_value place;
	p4d_value value;
	uint64_t gpus = 1;

	if (!sees_some(shell, &value, &place))
		return false;
	for (uint32_t i = 0; i < value.length; i++)
		gpus += value.at[i].c == ',';
	if (p4d_value_unknown(value))
		p4d_reader__forget(r, P4D_GPUS_PER_NODE);
	else
		p4d_reader__put(r, P4D_GPUS_PER_NODE, &place, "%" PRIu64, gpus);
	return true;
}

/*
 * Sets the GPUs per node for a launcher that starts one rank per GPU: those that the script makes visible,
 * otherwise Slurm's number.
 */
static void take_every_gpu(p4d_reading *r, p4d_shell *shell)
{
	p4d_value value;

	if (p4d_reader__set(&r->value[P4D_GPUS_PER_NODE]) || r->value[P4D_GPUS_PER_NODE].unknown)
		return;
	if (!take_visible(r, shell) && p4d_shell_variable(shell, "SLURM_GPUS_ON_NODE", &value) &&
	    !p4d_value_unknown(value))
		take_launched(r, shell, P4D_GPUS_PER_NODE, value);
}

/*
 * Counts the GPUs per node in DeepSpeed's --include, which lists nodes with their GPUs:
 * "worker-0:0,1@worker-1:2,3"; a node without a list uses all its GPUs (launcher/runner.py,
 * parse_resource_filter). 0: nodes have different numbers of GPUs, or the text is malformed.
 */
static uint64_t count_included(const char *text, uint64_t *nodes, bool *every_gpu)
{
	uint64_t each = 0;

	*nodes = 0;
	*every_gpu = false;
	for (const char *at = text; *at; at += *at == '@') {
		const size_t length = strcspn(at, "@");
		const char *colon = memchr(at, ':', length);
		uint64_t gpus = colon != NULL;
		for (const char *c = colon; c && c < at + length; c++)
			gpus += *c == ',';
		if (!length || (*nodes && gpus != each))
			return 0;
		each = gpus;
		++*nodes;
		at += length;
	}
	*every_gpu = *nodes && !each;
	return each;
}

static void take_included(p4d_reading *r, p4d_shell *shell, const p4d_launch *launch)
{
	const bool excludes = launch->excluded.length;
	const p4d_value told = excludes ? launch->excluded : launch->included;
	char text[sizeof(r->value[0].text)];
	uint64_t nodes, each = 0;
	bool every_gpu = false;

	if (!told.length)
		return;
	const p4d_read_value place = p4d_reader__place_of(shell, told);
	if (!excludes && !p4d_value_unknown(told) && told.length < sizeof(text))
		each = count_included(p4d_value_text(told, text, sizeof(text)), &nodes, &every_gpu);
	if (each || every_gpu)
		p4d_reader__put(r, P4D_NODES, &place, "%" PRIu64, nodes);
	if (each)
		p4d_reader__put(r, P4D_GPUS_PER_NODE, &place, "%" PRIu64, each);
	if (each || every_gpu)
		return;
	p4d_reader__forget(r, P4D_NODES);
	p4d_reader__forget(r, P4D_GPUS_PER_NODE);
	p4d_reader__unknown(r, "gpus-per-node", "--%s (%.60s:%u)",
			    excludes ? "exclude leaves out some GPUs"
				     : "include names different numbers of GPUs on the nodes",
			    place.file, place.line);
}

static bool is_one(p4d_shell *shell, const char *name)
{
	p4d_value value;
	char text[8];

	return p4d_shell_variable(shell, name, &value) && !p4d_value_unknown(value) && value.length == 1 &&
	       !strcmp(p4d_value_text(value, text, sizeof(text)), "1");
}

/* Reads the variable that configures PyTorch's allocator. */
static void take_allocator(p4d_reading *r, p4d_shell *shell)
{
	static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
	char text[256];
	p4d_value value;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!p4d_shell_variable(shell, names[i], &value) ||
		    !strstr(p4d_value_text(value, text, sizeof(text)), "expandable_segments:True"))
			continue;
		const p4d_read_value place = p4d_reader__place_of(shell, value);
		p4d_reader__put(r, P4D_ALLOCATOR, &place, "expandable");
	}
}

/*
 * Sets the nodes and their GPUs for a program that srun or MPI starts once per GPU: PyTorch takes the number
 * of processes from WORLD_SIZE, which the script then exports.
 */
static void take_world(p4d_reading *r, p4d_shell *shell, const p4d_launch *launch)
{
	p4d_value world, nodes;
	char text[24];
	uint64_t ranks, each;

	if (launch->starts_ranks || launch->every_gpu || r->reader->every_gpu ||
	    p4d_reader__set(&r->value[P4D_GPUS_PER_NODE]) || r->value[P4D_GPUS_PER_NODE].unknown ||
	    p4d_reader__set(&r->value[P4D_NODES]) || r->value[P4D_NODES].unknown ||
	    !p4d_shell_exported(shell, "WORLD_SIZE", &world) || p4d_value_unknown(world) ||
	    !p4d_shell_variable(shell, "SLURM_NNODES", &nodes) || p4d_value_unknown(nodes))
		return;
	if (p4d_number_whole(p4d_value_text(world, text, sizeof(text)), 2, UINT32_MAX, &ranks) &&
	    p4d_number_whole(p4d_value_text(nodes, text, sizeof(text)), 1, UINT32_MAX, &each) &&
	    ranks % each == 0) {
		const p4d_read_value place = p4d_reader__place_of(shell, world);
		p4d_reader__put(r, P4D_NODES, &place, "%" PRIu64, each);
		p4d_reader__put(r, P4D_GPUS_PER_NODE, &place, "%" PRIu64, ranks / each);
	}
}

void p4d_reader__launched(p4d_reading *r, p4d_shell *shell, const p4d_launch *launch, p4d_value nodes,
			  p4d_value gpus_per_node)
{
	take_launched(r, shell, P4D_NODES, nodes);
	take_launched(r, shell, P4D_GPUS_PER_NODE, gpus_per_node);
	take_option(r, shell, launch);
	take_included(r, shell, launch);
	take_world(r, shell, launch);
	/* a program without a launcher is one process, so it can train only on one GPU */
	r->alone = !r->reader->every_gpu && !launch->every_gpu &&
		   !p4d_reader__set(&r->value[P4D_GPUS_PER_NODE]) && is_one(shell, "SLURM_NNODES") &&
		   is_one(shell, "SLURM_GPUS_ON_NODE");
	if (r->alone || r->reader->every_gpu || launch->every_gpu)
		take_every_gpu(r, shell);
	take_allocator(r, shell);
}

void p4d_reader__in_step(p4d_reading *r, p4d_shell *shell, p4d_value nodes)
{
	if (!p4d_reader__set(&r->value[P4D_NODES]) || r->by_default[P4D_NODES]) {
		take_launched(r, shell, P4D_NODES, nodes);
		r->by_default[P4D_NODES] = r->by_default[P4D_NODES] && !nodes.length;
	}
}

void p4d_reader__one_node(p4d_reading *r, p4d_shell *shell, const p4d_launch *launch)
{
	/* LLaMA-Factory and ms-swift start torchrun themselves */
	const bool by_itself = r->reader->variables && !strcmp(r->reader->variables->name, "NNODES") &&
			       p4d_reader__set(&r->value[P4D_GPUS_PER_NODE]);
	p4d_value nodes;

	if (p4d_reader__set(&r->value[P4D_NODES]) || r->value[P4D_NODES].unknown ||
	    is_one(shell, "SLURM_NNODES") || !p4d_shell_variable(shell, "SLURM_NNODES", &nodes) ||
	    !nodes.length || p4d_value_unknown(nodes) || !(launch->torchrun || by_itself))
		return;
	p4d_reader__put_default(r, P4D_NODES, "1");
	r->value[P4D_NODES].argument = launch->torchrun ? "torchrun --nnodes" : "NNODES";
}
