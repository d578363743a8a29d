/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

/*
 * Weights of Hugging Face's Llama (or Mistral, Qwen2, Qwen3, depending on the layout). Names are those of
 * p4d_weight_slice, matrices are (out, in), and rotary halves are as in p4d_heads, so nothing is permuted.
 */

/*
 * Fills this rank's masters, or its frozen weights if it has any, from a file, an index or a directory (see
 * p4d_safetensors__open); moments become zero. Types: F32, BF16, F16. All tensors of the model must be
 * present, with its shapes; others are ignored. A tied model needs no lm_head. Errors: CHECKPOINT, NO_MEMORY.
 */
int p4d_huggingface_import(const char *path, const p4d_checkpoint_storage *storage, p4d_error *err);

/*
 * A hash of the names, types and shapes of such weights, and of the beginnings and ends of their data. It
 * does not depend on the order of tensors or the split into files. Errors: CHECKPOINT, NO_MEMORY.
 */
int p4d_huggingface_hash(const char *path, uint64_t *hash, p4d_error *err);

/*
 * Counts tensors in released weights that the model of a plan line does not have (except constants that are
 * stored needlessly), and names two of them. Errors: CHECKPOINT, NO_MEMORY.
 */
int p4d_huggingface_unused(const char *path, const char *plan, char *names, size_t size, uint64_t *count,
			   p4d_error *err);

/*
 * Writes the weights of a checkpoint (see p4d_checkpoint_path) to a directory, which is created if needed.
 * Writes model.safetensors or, if they need more than file_bytes (0: no limit), files of at most that size
 * (at least one tensor each) and their index; and config.json (see huggingface_config.h). type: BF16 (rounded
 * to nearest even) or F32. One process does this, with memory for a few MiB and the names. Every byte that is
 * read is checked. Errors: CHECKPOINT, IO, VALUE, NO_MEMORY.
 */
int p4d_huggingface_export(const char *checkpoint, const char *directory, p4d_safetensors_type type,
			   uint64_t file_bytes, p4d_error *err);

/*
 * Like p4d_huggingface_export, for a checkpoint of adapters: writes the weights at `base`, with which the
 * adapters must have been trained, after adding the adapters to them.
 */
int p4d_huggingface_export_merged(const char *checkpoint, const char *base, const char *directory,
				  p4d_safetensors_type type, uint64_t file_bytes, p4d_error *err);

/*
 * Writes only the adapters, in PEFT's form: adapter_model.safetensors and adapter_config.json. Errors: as
 * above.
 */
int p4d_huggingface_export_adapters(const char *checkpoint, const char *directory, p4d_safetensors_type type,
				    p4d_error *err);
