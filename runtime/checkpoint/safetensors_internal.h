/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "base/mapping.h"
#include "checkpoint/safetensors.h"

/* One file, for safetensors*.c. */
typedef struct p4d_safetensors_shard {
	char *name; /* for messages */
	p4d_mapping file;
	bool mapped;
	struct json_object *header;     /* owns the names of tensors */
	uint64_t header_bytes;          /* bytes of the header, including its length field */
	p4d_safetensors_tensor *tensor; /* sorted by name */
	size_t count;
} p4d_safetensors_shard;

enum { P4D_HEADER_LIMIT = 100000000 };
#define P4D_CHECKSUM_KEY "xxh3:"

/* safetensors_header.c: reads and checks the header of shard->file. Errors: CHECKPOINT, NO_MEMORY. */
int p4d_safetensors__shard_parse(p4d_safetensors_shard *shard, p4d_error *err);
const p4d_safetensors_tensor *p4d_safetensors__tensor_find(const p4d_safetensors_tensor *sorted, size_t count,
							   const char *name);
void p4d_safetensors__tensor_sort(p4d_safetensors_tensor *tensors, size_t count);
