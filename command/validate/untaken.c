/* SPDX-License-Identifier: Apache-2.0 */
/* p4d validate: lists rows that it cannot use after all others, instead of stopping. */
#include <stdio.h>

#include "base/json_file.h"
#include "validate/command_validate.h"

/* Maximum number of rows that are printed; the JSON has all. */
enum { PRINTED = 20 };

int p4d_validate__leave(p4d_validate_untaken *untaken, const p4d_measured_file *file, const char *id,
			const p4d_error *err)
{
	struct json_object *object = json_object_new_object();

	if (!untaken->rows)
		untaken->rows = json_object_new_array();
	if (!untaken->count)
		untaken->first = *err;
	untaken->count++;
	json_object_object_add(object, "line", json_object_new_int64(file->line));
	json_object_object_add(object, "row", *id ? json_object_new_string(id) : NULL);
	json_object_object_add(object, "why", json_object_new_string(err->text));
	json_object_array_add(untaken->rows, object);
	return err->code == P4D_E_NO_MEMORY ? -1 : 0;
}

int p4d_validate__none_taken(const p4d_validate_untaken *untaken, p4d_error *err)
{
	*err = untaken->first;
	return -1;
}

void p4d_validate__print_untaken(const p4d_validate_untaken *untaken)
{
	if (!untaken->count)
		return;
	printf("\n%u row%s that p4d cannot use:\n", untaken->count, untaken->count == 1 ? "" : "s");
	for (unsigned i = 0; i < untaken->count && i < PRINTED; i++) {
		struct json_object *row = json_object_array_get_idx(untaken->rows, i);
		printf("  %s\n", json_object_get_string(json_object_object_get(row, "why")));
	}
	if (untaken->count > PRINTED)
		printf("  and %u more; --json has all\n", untaken->count - PRINTED);
}

void p4d_validate__add_untaken(struct json_object *object, const p4d_validate_untaken *untaken)
{
	json_object_object_add(object, "not_taken",
			       untaken->rows ? json_object_get(untaken->rows) : json_object_new_array());
}

void p4d_validate__free_untaken(p4d_validate_untaken *untaken)
{
	json_object_put(untaken->rows);
}
