/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/weights.h"
#include "plan/plan_line.h"
#include "request/layout.h"

/*
 * Checkpoints. DIR/step-00000200/ holds manifest.json and one file rank-00003.safetensors per rank that owns
 * optimizer shards (of what is trained: adapters alone, where there are any): one tensor per state of the
 * optimizer (fp32; the rank's shards of all segments, one behind the other) and "checksums" (XXH3 of every
 * P4D_CHECKPOINT_BLOCK bytes of each of these, so that a reader can check the part it needs). The manifest
 * says step, samples consumed, seed, the plan line, and of each file its size and the checksum of its header,
 * which contains the checksums of its tensors.
 *
 * A checkpoint is made under a hidden name; files are synced, the manifest is written last, then the
 * directory gets its name. So what is called step-* is complete, unless the disk changed it later; that is
 * noticed by sizes and checksums. The latest is the highest number; no link or file says so.
 *
 * DIR/best is a symbolic link to the checkpoint of the lowest validation loss, if the run names one. It is
 * kept in addition to the newest ones. Where DIR is a checkpoint itself, it is its own latest.
 */
enum { P4D_CHECKPOINT_BLOCK = 1 << 20, P4D_CHECKPOINT_TEXT = 1024 };

typedef struct p4d_checkpoint_info {
	char plan[P4D_PLAN_MAX]; /* plan line with nodes and gpus-per-node: the layout of the weights */
	uint64_t step;           /* optimizer steps done */
	uint64_t consumed;       /* samples: the position in the data */
	uint64_t seed;
	bool document_mask;
	char data[P4D_CHECKPOINT_TEXT]; /* the caller's description of its data; not interpreted */
	char update[512];               /* how the caller updates weights; not interpreted */
	uint64_t samples;               /* what its samples are, as a number of the caller's; 0: not known */
	/* the folder of the released model that training began with; "": none, or not known */
	char released[P4D_CHECKPOINT_TEXT];
	/* the lowest validation loss, its step (0: none is known), and the validations since then */
	double best_loss;
	uint64_t best_step, worse;
	uint64_t best_samples; /* what they validated, as a number of the caller's; 0: not known */
	bool best;             /* name this one DIR/best; not stored */
	/* for adapters: LoRA's alpha, and the frozen weights with which they were trained: their folder, and
	 * p4d_huggingface_hash of them; else 0 */
	double alpha;
	char base[P4D_CHECKPOINT_TEXT];
	uint64_t base_hash;
} p4d_checkpoint_info;

/*
 * The storage of one rank, which a trainer, or a test, fills in. read and write move one shard as
 * p4d_weights_shard_of says, all `count` elements of it, padding included. Both may be called from the thread
 * that saves or loads only. A rank that owns nothing is written to, but not read. write_frozen: elements from
 * an offset of the flat buffer on, of weights that are not trained; it may change the numbers.
 */
typedef struct p4d_checkpoint_storage {
	const p4d_layout *layout;
	uint64_t vocab; /* rows of the real vocabulary */
	const p4d_weights *weights;
	p4d_place place;
	int (*read)(void *context, uint32_t segment, p4d_state state, float *to, p4d_error *err);
	int (*write)(void *context, uint32_t segment, p4d_state state, const float *from, p4d_error *err);
	void (*write_frozen)(void *context, uint64_t offset, float *numbers, uint64_t count);
	/* of quantized ones: numbers of a part, as p4d_quantized_put takes them */
	int (*write_quantized)(void *context, const p4d_weight *weight, const p4d_quantized_part *part,
			       uint64_t at, float *numbers, uint64_t count, p4d_error *err);
	/* what weights begin with that no released model has: losses of stages */
	void (*initial)(void *context, const p4d_weight_slice *slice, uint64_t at, uint64_t count, float *to);
	void *context;
} p4d_checkpoint_storage;

/* True when the rank's shards are no copy of another rank's. */
bool p4d_checkpoint__owns_shards(const p4d_layout *layout, p4d_place place);
/* Host memory that saving uses on this rank: a copy of its shards. 0 when it owns none. */
uint64_t p4d_checkpoint_staging_bytes(const p4d_layout *layout, const p4d_weights *weights, p4d_place place);

/* The other ranks. gather as p4d_comm_all_gather: all (world*bytes); NULL when world is 1. */
typedef struct p4d_checkpoint_peers {
	uint32_t rank, world;
	int (*gather)(void *context, void *all, const void *mine, uint64_t bytes, p4d_error *err);
	void *context;
} p4d_checkpoint_peers;

/* Saving in the background. All ranks make the same calls in the same order. */
typedef struct p4d_checkpoint_saver p4d_checkpoint_saver;

/*
 * dir is created if needed; leftovers of killed processes are removed. keep: complete checkpoints to keep, 0:
 * all. storage and peers are copied; the memory that they point to must stay. Allocates the staging copy and
 * starts a thread. Errors: IO, NO_MEMORY, VALUE, RANK.
 */
int p4d_checkpoint_saver_open(p4d_checkpoint_saver **saver, const char *dir, uint32_t keep,
			      const p4d_checkpoint_storage *storage, const p4d_checkpoint_peers *peers,
			      p4d_error *err);
/*
 * Begins a checkpoint: copies the shards, and returns. If one is still being written, it waits for that
 * first. Checkpoints of later steps than this (training went back) are renamed to abandoned-step-*. Errors:
 * as p4d_checkpoint_saver_poll.
 */
int p4d_checkpoint_saver_begin(p4d_checkpoint_saver *saver, const p4d_checkpoint_info *info, p4d_error *err);
/*
 * Once per step: cheap when nothing is being written. Fails on all ranks when one could not write (IO: what
 * and where; a full disk), and there is no new checkpoint then; older ones are left. wait: until it is
 * complete. *done (may be NULL): a checkpoint was completed in this call.
 */
int p4d_checkpoint_saver_poll(p4d_checkpoint_saver *saver, bool wait, bool *done, p4d_error *err);
/* Aborts one that is not complete. NULL is fine. */
void p4d_checkpoint_saver_close(p4d_checkpoint_saver *saver);

/*
 * Loads the latest checkpoint that all ranks can read, of any layout of the same model. A torn, truncated or
 * modified one is skipped for the one before it, with a call of `warn` (may be NULL) on rank 0. *found false:
 * there is none. On the layout that saved it, all bits are as they were; on others all values, and padding is
 * zero. Afterwards the caller restores parameters from masters. Errors: CHECKPOINT (all are unusable, or of
 * another model), NO_MEMORY, RANK; storage then holds anything.
 */
int p4d_checkpoint_resume(const char *dir, const p4d_checkpoint_storage *storage,
			  const p4d_checkpoint_peers *peers, void (*warn)(void *context, const char *text),
			  void *context, p4d_checkpoint_info *info, bool *found, p4d_error *err);

/* The individual steps, without waiting for other ranks. path: that of one checkpoint. */

/* Highest step below `below` that has a complete checkpoint. false: none. Errors: IO. */
int p4d_checkpoint_latest(const char *dir, uint64_t below, uint64_t *step, bool *found, p4d_error *err);
/* The step of DIR/best. False: there is none, or it is gone. */
bool p4d_checkpoint_best(const char *dir, uint64_t *step);
/* "DIR/step-00000200". Errors: VALUE when it does not fit. */
int p4d_checkpoint_path(const char *dir, uint64_t step, char *path, size_t size, p4d_error *err);
/* What its manifest says. Errors: CHECKPOINT, NO_MEMORY. */
int p4d_checkpoint_read_info(const char *path, p4d_checkpoint_info *info, p4d_error *err);
/* Loads this rank's part of one checkpoint and reads only that. Errors: CHECKPOINT, NO_MEMORY. */
int p4d_checkpoint_load(const char *path, const p4d_checkpoint_storage *storage, p4d_checkpoint_info *info,
			p4d_error *err);
