/* SPDX-License-Identifier: Apache-2.0 */
#include "run/checkpoint_trainer.h"

static int read_trainer(void *context, uint32_t segment, p4d_state state, float *to, p4d_error *err)
{
	return p4d_trainer_read(context, segment, state, to, err);
}

static int write_trainer(void *context, uint32_t segment, p4d_state state, const float *from, p4d_error *err)
{
	return p4d_trainer_write(context, segment, state, from, err);
}

static void write_frozen(void *context, uint64_t offset, float *numbers, uint64_t count)
{
	p4d_trainer_write_frozen(context, offset, numbers, count);
}

static int write_quantized(void *context, const p4d_weight *weight, const p4d_quantized_part *part,
			   uint64_t at, float *numbers, uint64_t count, p4d_error *err)
{
	return p4d_trainer_write_quantized(context, weight, part, at, numbers, count, err);
}

static void initial(void *context, const p4d_weight_slice *slice, uint64_t at, uint64_t count, float *to)
{
	p4d_trainer_draw_local(context, slice, at, count, to);
}

p4d_checkpoint_storage p4d_checkpoint_storage_of(p4d_trainer *trainer, const p4d_layout *layout,
						 uint64_t vocab)
{
	return (p4d_checkpoint_storage){.layout = layout,
					.vocab = vocab,
					.weights = p4d_trainer_weights(trainer),
					.place = p4d_trainer_place(trainer),
					.read = read_trainer,
					.write = write_trainer,
					.write_frozen = write_frozen,
					.write_quantized = write_quantized,
					.initial = initial,
					.context = trainer};
}

static int gather_group(void *context, void *all, const void *mine, uint64_t bytes, p4d_error *err)
{
	return p4d_comm_all_gather(context, all, mine, bytes, err);
}

p4d_checkpoint_peers p4d_checkpoint_peers_of(p4d_group *group)
{
	return (p4d_checkpoint_peers){.rank = p4d_group_index(group),
				      .world = p4d_group_size(group),
				      .gather = gather_group,
				      .context = group};
}
