/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "trainer/trainer.h"

/*
 * Returns the functions with which checkpoints read and write a trainer's weights and optimizer states.
 * trainer and layout are borrowed. After loading, call p4d_trainer_restore. vocab: rows of the vocabulary,
 * without padding.
 */
p4d_checkpoint_storage p4d_checkpoint_storage_of(p4d_trainer *trainer, const p4d_layout *layout,
						 uint64_t vocab);

/*
 * Returns the functions with which checkpoints communicate with all ranks of the group. The group must have
 * the ranks in the order of their numbers; it is borrowed.
 */
p4d_checkpoint_peers p4d_checkpoint_peers_of(p4d_group *group);
