/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/weights.h"
#include "plan/plan_line.h"
#include "request/layout.h"

/*
 * Checkpoints. DIR/step-00000200/ holds manifest.json, and one file rank-00003.safetensors per rank that owns
 * optimizer shards. If adapters are trained, a checkpoint has only the adapters. The file has one tensor per
 * state of the optimizer (fp32; the rank's shards of all segments, one after another). It also has the tensor
 * "checksums": XXH3 of every P4D_CHECKPOINT_BLOCK bytes of each tensor, so that a reader can check just the
 * part that it needs. The manifest has the step, samples consumed, seed, the plan line, and for each file its
 * size and the checksum of its header, which contains the checksums of its tensors.
 *
 * A checkpoint is written to a directory with a hidden name. Files are synced, the manifest is written last,
 * and then the directory is renamed. So a directory step-* is complete. Sizes and checksums detect if the
 * disk changes it later. The latest checkpoint is the one with the highest number; no link or file names it.
 *
 * If the run keeps the checkpoint with the lowest validation loss, the symbolic link DIR/best points to it.
 * This checkpoint is kept in addition to the newest checkpoints. If DIR itself is a checkpoint, it counts as
 * the latest one.
 */
enum { P4D_CHECKPOINT_BLOCK = 1 << 20, P4D_CHECKPOINT_TEXT = 1024 };

typedef struct p4d_checkpoint_info {
	char plan[P4D_PLAN_MAX]; /* plan line with nodes and gpus-per-node: the layout of the weights */
	uint64_t step;           /* number of finished optimizer steps */
	uint64_t consumed;       /* number of consumed samples: the position in the data */
	uint64_t seed;
	bool document_mask;
	char data[P4D_CHECKPOINT_TEXT]; /* text in which the caller describes its data; stored unchanged */
	char update[512]; /* text in which the caller describes its optimizer settings; stored unchanged */
	uint64_t samples; /* number by which the caller recognizes its training samples; 0: unknown */
	/* folder of the released model from which training started; "": none, or unknown */
	char released[P4D_CHECKPOINT_TEXT];
	/* the lowest validation loss, its step (0: none is known), and the number of validations since
	 * then */
	double best_loss;
	uint64_t best_step, worse;
	uint64_t best_samples; /* number by which the caller recognizes the validation samples; 0: unknown */
	bool best;             /* DIR/best is to point to this checkpoint; this member is not stored */
	/*
	 * only for adapters, else 0: LoRA's alpha; the frozen weights with which they were trained, as the
	 * folder of these weights and their p4d_huggingface_hash
	 */
	double alpha;
	char base[P4D_CHECKPOINT_TEXT];
	uint64_t base_hash;
} p4d_checkpoint_info;

/*
 * The storage of one rank, implemented by a trainer or a test. read and write copy one shard, as
 * p4d_weights_shard_of defines it: all `count` elements, including padding. Only the thread that saves or
 * loads calls them. On a rank that owns no shard, write is called but read is not. write_frozen stores
 * elements of frozen weights from an offset of the flat buffer on; it may change the numbers.
 */
typedef struct p4d_checkpoint_storage {
	const p4d_layout *layout;
	uint64_t vocab; /* rows of the real vocabulary */
	const p4d_weights *weights;
	p4d_place place;
	int (*read)(void *context, uint32_t segment, p4d_state state, float *to, p4d_error *err);
	int (*write)(void *context, uint32_t segment, p4d_state state, const float *from, p4d_error *err);
	void (*write_frozen)(void *context, uint64_t offset, float *numbers, uint64_t count);
	/* for quantized weights: stores numbers of a part, in the order of p4d_quantized_put */
	int (*write_quantized)(void *context, const p4d_weight *weight, const p4d_quantized_part *part,
			       uint64_t at, float *numbers, uint64_t count, p4d_error *err);
	/* initializes weights that released models do not have: the heads of local losses */
	void (*initial)(void *context, const p4d_weight_slice *slice, uint64_t at, uint64_t count, float *to);
	void *context;
} p4d_checkpoint_storage;

/* Whether this rank stores its shards. If not, they are copies of shards that another rank stores. */
bool p4d_checkpoint__owns_shards(const p4d_layout *layout, p4d_place place);
/* Bytes of host memory that saving uses on this rank, for a copy of its shards. 0 if it stores none. */
uint64_t p4d_checkpoint_staging_bytes(const p4d_layout *layout, const p4d_weights *weights, p4d_place place);

/*
 * Communication with the other ranks. gather: like p4d_comm_all_gather, to `all` (world*bytes); NULL if world
 * is 1.
 */
typedef struct p4d_checkpoint_peers {
	uint32_t rank, world;
	int (*gather)(void *context, void *all, const void *mine, uint64_t bytes, p4d_error *err);
	void *context;
} p4d_checkpoint_peers;

/* Saving in the background. All ranks make the same calls in the same order. */
typedef struct p4d_checkpoint_saver p4d_checkpoint_saver;

/*
 * Creates dir if needed, and removes leftovers of killed processes. keep: number of complete checkpoints to
 * keep, 0: all. storage and peers are copied; the memory that they point to must stay valid. Allocates the
 * staging copy and starts a thread. Errors: IO, NO_MEMORY, VALUE, RANK.
 */
int p4d_checkpoint_saver_open(p4d_checkpoint_saver **saver, const char *dir, uint32_t keep,
			      const p4d_checkpoint_storage *storage, const p4d_checkpoint_peers *peers,
			      p4d_error *err);
/*
 * Begins a checkpoint: copies the shards, and returns. If the previous checkpoint is still being written, it
 * waits for that first. If training went back, checkpoints of later steps exist; they are renamed to
 * abandoned-step-*. Errors: those of p4d_checkpoint_saver_poll.
 */
int p4d_checkpoint_saver_begin(p4d_checkpoint_saver *saver, const p4d_checkpoint_info *info, p4d_error *err);
/*
 * Call it once per step; it is cheap if nothing is being written. If a rank could not write, for instance
 * because a disk is full, the call fails on all ranks (IO, with what and where). Then there is no new
 * checkpoint, and older ones remain. wait: waits until the checkpoint is complete. *done (may be NULL): a
 * checkpoint was completed in this call.
 */
int p4d_checkpoint_saver_poll(p4d_checkpoint_saver *saver, bool wait, bool *done, p4d_error *err);
/* Aborts a checkpoint that is not complete. NULL is allowed. */
void p4d_checkpoint_saver_close(p4d_checkpoint_saver *saver);

/*
 * Loads the latest checkpoint that all ranks can read, from any layout of the same model. If a checkpoint is
 * incomplete, truncated or modified, tries the one before it, and calls `warn` (may be NULL) on rank 0.
 * *found false: there is no checkpoint. The layout that saved a checkpoint gets all its bits back. Other
 * layouts get all its values, and zeros as padding. Afterwards the caller must restore parameters from the
 * master copies. Errors: CHECKPOINT (all are unusable, or of another model), NO_MEMORY, RANK; the storage's
 * content is then undefined.
 */
int p4d_checkpoint_resume(const char *dir, const p4d_checkpoint_storage *storage,
			  const p4d_checkpoint_peers *peers, void (*warn)(void *context, const char *text),
			  void *context, p4d_checkpoint_info *info, bool *found, p4d_error *err);

/* The steps of loading. They do not wait for other ranks. path: path of one checkpoint. */

/*
 * Finds the highest step below `below` that has a complete checkpoint. *found false: there is none. Errors:
 * IO.
 */
int p4d_checkpoint_latest(const char *dir, uint64_t below, uint64_t *step, bool *found, p4d_error *err);
/* Finds the step of DIR/best. False: there is no such link, or its checkpoint is gone. */
bool p4d_checkpoint_best(const char *dir, uint64_t *step);
/*
 * Writes the path of a step's checkpoint, such as "DIR/step-00000200"; if dir is itself a checkpoint, writes
 * dir. Errors: VALUE if the path does not fit.
 */
int p4d_checkpoint_path(const char *dir, uint64_t step, char *path, size_t size, p4d_error *err);
/* Reads its manifest. Errors: CHECKPOINT, NO_MEMORY. */
int p4d_checkpoint_read_info(const char *path, p4d_checkpoint_info *info, p4d_error *err);
/* Loads this rank's part of one checkpoint, and reads only that part. Errors: CHECKPOINT, NO_MEMORY. */
int p4d_checkpoint_load(const char *path, const p4d_checkpoint_storage *storage, p4d_checkpoint_info *info,
			p4d_error *err);
