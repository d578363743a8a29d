/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

/* For checkpoint*.c and huggingface.c. */

enum { P4D_CHECKPOINT_VERSION = 2, P4D_PATH = 4096 };

/* A file of a checkpoint. */
typedef struct p4d_checkpoint_rank_file {
	uint32_t rank;
	uint64_t bytes, checksum; /* bytes of the file; checksum of its header */
} p4d_checkpoint_rank_file;

/* checkpoint_files.c: names in the directory */

/* Formats a path. Errors: VALUE if it does not fit. */
int p4d_checkpoint__join_path(char path[P4D_PATH], p4d_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The directory in which a checkpoint is written before it gets its name. */
int p4d_checkpoint__partial_path(const char *dir, uint64_t step, char path[P4D_PATH], p4d_error *err);
int p4d_checkpoint__rank_path(const char *path, uint32_t rank, char file[P4D_PATH], p4d_error *err);
int p4d_checkpoint__make_directory(const char *path, p4d_error *err);
/* Makes the directory of one step; a symbolic link in its place is an error. All ranks may call it at the
 * same time. */
int p4d_checkpoint__make_partial(const char *dir, uint64_t step, char path[P4D_PATH], p4d_error *err);
/* Removes leftovers of killed processes; failures are ignored. */
void p4d_checkpoint__remove_leftovers(const char *dir);
/*
 * Locks the directory for this run until it is unlocked, or the process ends. A lock that the same job took
 * before Slurm requeued it does not count, because on NFS the lock of a dead node persists for a while.
 * Errors: CHECKPOINT, with the host and the process that has it; IO. If the file system has no locks, *fd is
 * -1, and no other run is excluded.
 */
int p4d_checkpoint__lock(const char *dir, int *fd, p4d_error *err);
void p4d_checkpoint__unlock(const char *dir, int fd);
/* Gives a partial checkpoint its final name, and renames checkpoints of later steps. Errors: IO. */
int p4d_checkpoint__publish(const char *dir, uint64_t step, p4d_error *err);
/* Removes the oldest checkpoints until `keep` are left. Errors: IO. */
int p4d_checkpoint__remove_old(const char *dir, uint32_t keep, p4d_error *err);
/* Makes DIR/best point to the checkpoint of a step. Errors: IO. */
int p4d_checkpoint__name_best(const char *dir, uint64_t step, p4d_error *err);
/* Whether a directory is a checkpoint itself, and not a directory with a run's checkpoints. */
bool p4d_checkpoint__is_one(const char *dir);

/* checkpoint_manifest.c */
int p4d_checkpoint_manifest__write(const char *path, const p4d_checkpoint_info *info,
				   const p4d_checkpoint_rank_file *files, uint32_t count, p4d_error *err);
/* Reads a manifest. The caller frees *files. Errors: CHECKPOINT, NO_MEMORY. */
int p4d_checkpoint_manifest__read(const char *path, p4d_checkpoint_info *info,
				  p4d_checkpoint_rank_file **files, uint32_t *count, p4d_error *err);
/* Like p4d_checkpoint_manifest__read, for a text. name: its file's name in messages. */
int p4d_checkpoint_manifest__parse(const char *name, const char *text, size_t size, p4d_checkpoint_info *info,
				   p4d_checkpoint_rank_file **files, uint32_t *count, p4d_error *err);

/* checkpoint_save.c */

/* Elements of all shards of a rank. */
uint64_t p4d_checkpoint__shard_elements(const p4d_layout *layout, const p4d_weights *weights,
					p4d_place place);
/* Copies this rank's shards. staged: (states, elements). */
int p4d_checkpoint__stage_shards(const p4d_checkpoint_storage *storage, float *staged, p4d_error *err);
/* Writes the file of a rank. If *stop becomes true, it ends early with P4D_E_IO; stop may be NULL. */
int p4d_checkpoint__write_rank_file(const char *path, uint32_t rank, const p4d_checkpoint_info *info,
				    const p4d_optimizer *optimizer, const float *staged, uint64_t elements,
				    const atomic_bool *stop, p4d_checkpoint_rank_file *out, p4d_error *err);

/* checkpoint_map.c: finds the rank whose file holds an element of a tensor. */
typedef struct p4d_checkpoint_map_slice {
	p4d_weight_slice slice;
	uint32_t stage, tp, segment;
} p4d_checkpoint_map_slice;

typedef struct p4d_checkpoint_map {
	p4d_layout layout;
	uint64_t vocab;
	p4d_weights *stage; /* (pp) */
	p4d_checkpoint_map_slice *slice;
	size_t count, room; /* sorted by name */
} p4d_checkpoint_map;

/* Consecutive elements in the file of a rank. */
typedef struct p4d_extent {
	uint32_t rank;
	uint64_t first, count;
} p4d_extent;

/*
 * Opens the map for the layout of a plan line. model: the map has all weights of the model, also those that
 * are frozen. Errors: CHECKPOINT.
 */
int p4d_checkpoint_map__open(p4d_checkpoint_map *map, const char *plan, bool model, p4d_error *err);
void p4d_checkpoint_map__close(p4d_checkpoint_map *map);
/* False with P4D_E_CHECKPOINT if the storage is of another model. */
bool p4d_checkpoint_map__same_model(const p4d_checkpoint_map *map, const p4d_checkpoint_storage *storage,
				    p4d_error *err);
/* Whether the map's layout and another one store the same elements at the same places on each rank. */
bool p4d_checkpoint_map__same_storage(const p4d_checkpoint_map *map, const p4d_layout *layout);
/* Returns the first slice of a tensor; its other slices follow in the table. NULL: there is none. */
const p4d_checkpoint_map_slice *p4d_checkpoint_map__named(const p4d_checkpoint_map *map, const char *name);
/*
 * Finds elements of a slice in the files. Takes element `at` and as many of the next count - 1 elements (row
 * by row) as follow it in the same file. *hint: 0 at first; it makes the next call faster. Errors: CHECKPOINT
 * if no file has element `at`.
 */
int p4d_checkpoint_map__find(const p4d_checkpoint_map *map, const p4d_weight_slice *slice, uint64_t at,
			     uint64_t count, size_t *hint, p4d_extent *out, p4d_error *err);
/*
 * Like p4d_checkpoint_map__find, for elements from `at` on in a segment of the flat buffer. stage, tp: the
 * place of the ranks with this buffer.
 */
void p4d_checkpoint_map__flat(const p4d_checkpoint_map *map, uint32_t stage, uint32_t tp, uint32_t segment,
			      uint64_t at, uint64_t count, p4d_extent *out);

/* The name under which a tensor is stored: a tied head is the embedding. */
const char *p4d_checkpoint__tensor_name(const p4d_layout *layout, const char *name);

/* checkpoint_read.c: a checkpoint that is open for reading */
typedef struct p4d_checkpoint_reader p4d_checkpoint_reader;
int p4d_checkpoint_reader__open(p4d_checkpoint_reader **reader, const char *path, p4d_checkpoint_info *info,
				p4d_error *err);
void p4d_checkpoint_reader__close(p4d_checkpoint_reader *reader);
const p4d_checkpoint_map *p4d_checkpoint_reader__map(const p4d_checkpoint_reader *reader);
int p4d_checkpoint_reader__read(p4d_checkpoint_reader *reader, p4d_state state, const p4d_extent *from,
				float *to, p4d_error *err);
/* Reads elements at .. at+count-1 of a slice, from any file. */
int p4d_checkpoint_reader__slice(p4d_checkpoint_reader *reader, p4d_state state,
				 const p4d_weight_slice *slice, uint64_t at, uint64_t count, float *to,
				 p4d_error *err);

/*
 * checkpoint_load.c: fills all shards of a storage. Calls `fetch` for runs of elements of slices. Padding
 * becomes 0.
 */
typedef int (*p4d_fetch)(void *context, p4d_state state, const p4d_weight_slice *slice, uint64_t at,
			 uint64_t count, float *to, p4d_error *err);
int p4d_checkpoint__fill_storage(const p4d_checkpoint_storage *storage, p4d_fetch fetch, void *context,
				 p4d_error *err);
/*
 * Like p4d_checkpoint__fill_storage, for frozen weights. They have only master copies, and are read one MiB
 * at a time.
 */
int p4d_checkpoint__fill_frozen(const p4d_checkpoint_storage *storage, p4d_fetch fetch, void *context,
				p4d_error *err);
