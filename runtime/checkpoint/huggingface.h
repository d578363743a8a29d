/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

/*
 * Weights of released models in the transformers library's form. In the files of most models, names are those
 * of p4d_weight_slice and matrices are (out, in); huggingface_names.h describes the other files. The two
 * halves of a head that RoPE pairs are as in p4d_heads, so nothing is permuted.
 */

/*
 * Fills this rank's master copies or, if the layout has frozen weights, its frozen weights. path: a file, an
 * index or a directory (see p4d_safetensors__open). Moments become zero. Types: F32, BF16, F16. All tensors
 * of the model must be present and have the model's shapes. Other tensors are ignored. A tied model needs no
 * lm_head. Errors: CHECKPOINT, NO_MEMORY.
 */
int p4d_huggingface_import(const char *path, const p4d_checkpoint_storage *storage, p4d_error *err);

/*
 * Computes a hash of released weights: of the names, types and shapes of tensors, and of the beginning and
 * end of their data. It does not depend on the order of tensors, or on how they are split into files. Errors:
 * CHECKPOINT, NO_MEMORY.
 */
int p4d_huggingface_hash(const char *path, uint64_t *hash, p4d_error *err);

/*
 * Counts tensors in released weights that the model of a plan line does not have, and names two of them.
 * Constants that older files store do not count. Errors: CHECKPOINT, NO_MEMORY.
 */
int p4d_huggingface_unused(const char *path, const char *plan, char *names, size_t size, uint64_t *count,
			   p4d_error *err);

/*
 * Writes the weights of a checkpoint (see p4d_checkpoint_path) to a directory, which is created if needed. If
 * the weights fit into file_bytes (0: no limit), it writes model.safetensors; otherwise files of at most that
 * size, with at least one tensor each, and their index. It also writes config.json (see
 * huggingface_config.h). type: BF16 (rounded to nearest even) or F32. Only one process may call it; it needs
 * a few MiB of memory and memory for the names. It verifies the checksum of every byte that it reads. Errors:
 * CHECKPOINT, IO, VALUE, NO_MEMORY.
 */
int p4d_huggingface_export(const char *checkpoint, const char *directory, p4d_safetensors_type type,
			   uint64_t file_bytes, p4d_error *err);

/*
 * Like p4d_huggingface_export, for a checkpoint of adapters: adds the adapters to the weights at `base`, and
 * writes the result. The adapters must have been trained with these weights.
 */
int p4d_huggingface_export_merged(const char *checkpoint, const char *base, const char *directory,
				  p4d_safetensors_type type, uint64_t file_bytes, p4d_error *err);

/*
 * Writes only the adapters, in PEFT's form: adapter_model.safetensors and adapter_config.json. Errors: as
 * above.
 */
int p4d_huggingface_export_adapters(const char *checkpoint, const char *directory, p4d_safetensors_type type,
				    p4d_error *err);
