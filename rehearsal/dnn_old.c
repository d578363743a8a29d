/* SPDX-License-Identifier: Apache-2.0 */
/* Backend descriptors for cuDNN releases before 9.8, which can make plans only on a real device. */
#include <stdlib.h>
#include <string.h>

#include "dnn.h"

typedef struct attribute {
	int name;
	int64_t count;
	void *values;
	struct attribute *next;
} attribute;

typedef struct dnn_descriptor {
	attribute *attributes;
} dnn_descriptor;

int p4d_dnn_old_create(int type, void **d)
{
	(void)type;
	*d = calloc(1, sizeof(dnn_descriptor));
	return *d ? DNN_OK : DNN_NO_MEMORY;
}

int p4d_dnn_old_destroy(void *d)
{
	if (!d)
		return DNN_OK;
	for (attribute *a = ((dnn_descriptor *)d)->attributes, *next; a; a = next) {
		next = a->next;
		free(a->values);
		free(a);
	}
	free(d);
	return DNN_OK;
}

static size_t width(int type)
{
	switch (type) {
	case DNN_TYPE_BOOLEAN:
	case DNN_TYPE_CHAR:
		return 1;
	case DNN_TYPE_HANDLE:
	case DNN_TYPE_INT64:
	case DNN_TYPE_DOUBLE:
	case DNN_TYPE_POINTER:
	case DNN_TYPE_DESCRIPTOR:
		return 8;
	case DNN_TYPE_FRACTION:
		return 16;
	default: /* enums, floats, int32 */
		return 4;
	}
}

static attribute *find(const dnn_descriptor *d, int name)
{
	for (attribute *a = d->attributes; a; a = a->next)
		if (a->name == name)
			return a;
	return NULL;
}

int p4d_dnn_old_set(void *to, int name, int type, int64_t count, const void *values)
{
	dnn_descriptor *d = to;
	size_t bytes = count > 0 ? (size_t)count * width(type) : 0;
	attribute *a = find(d, name);
	void *kept = malloc(bytes + 1);

	if (!kept)
		return DNN_NO_MEMORY;
	if (!a) {
		a = calloc(1, sizeof(*a));
		if (!a) {
			free(kept);
			return DNN_NO_MEMORY;
		}
		*a = (attribute){.name = name, .next = d->attributes};
		d->attributes = a;
	}
	if (bytes)
		memcpy(kept, values, bytes);
	free(a->values);
	a->values = kept;
	a->count = count;
	return DNN_OK;
}

/*
 * Whether an unset attribute has a descriptor as its value. A search finds one engine with index 0 and
 * without workspace; the caller provides the descriptors for it.
 */
static int64_t found_by_search(int name)
{
	return name == DNN_GRAPH_ENGINES || name == DNN_HEURISTICS_RESULTS ||
	       name == DNN_CONFIGURATION_ENGINE;
}

int p4d_dnn_old_get(const void *of, int name, int type, int64_t room, int64_t *count, void *values)
{
	const attribute *a = find(of, name);
	int64_t ignored = 0;

	count = count ? count : &ignored;
	*count = a ? a->count : found_by_search(name) || type == DNN_TYPE_INT64;
	if (name == DNN_PLAN_JSON && !a) {
		*count = 3;
		if (values && room >= 3)
			memcpy(values, "{}", 3);
	} else if (a && values && room > 0) {
		memcpy(values, a->values, (size_t)(room < a->count ? room : a->count) * width(type));
	} else if (type == DNN_TYPE_INT64 && values && room > 0) {
		*(int64_t *)values = name == DNN_GRAPH_ENGINES;
	}
	return DNN_OK;
}
