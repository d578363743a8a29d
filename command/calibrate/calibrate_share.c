/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the rows in a form that a site can publish: models as shapes, months instead of days, and no
 * users and jobs. It omits groups with fewer than five users. */
#include <stdlib.h>
#include <string.h>

#include "base/new_file.h"
#include "base/text.h"
#include "calibrate/calibrate_internal.h"
#include "request/framework.h"
#include "validate/predicted_run.h"
#include "validate/run_options.h"

enum { LEAST_USERS = 5, MONTH = 7 };

/* Whether a group has rows of enough different users. Rows without a user do not count. */
static bool has_users(const p4d_calibrate *all, size_t group)
{
	const char *user[LEAST_USERS];
	unsigned count = 0;

	for (size_t i = 0; i < all->count && count < LEAST_USERS; i++) {
		const p4d_calibrate_row *row = &all->row[i];
		bool known = row->group != group || !*row->measured.user;
		for (unsigned k = 0; k < count && !known; k++)
			known = !strcmp(user[k], row->measured.user);
		if (!known)
			user[count++] = row->measured.user;
	}
	return count == LEAST_USERS;
}

/* Whether a text looks like "24.05", and cannot be a name. */
static const char *release(const char *text)
{
	return text[strspn(text, "0123456789.")] ? "" : text;
}

/* Writes one row. Returns false if the row would contain a name. */
static bool add_row(p4d_text *text, const p4d_calibrate *all, const p4d_calibrate_row *row, unsigned number)
{
	const p4d_measured *m = &row->measured;
	char options[sizeof(m->options)];
	uint64_t nodes, per_node;
	p4d_request request;

	if (p4d_predicted_run_request(&all->gpus, m, &request, &nodes, &per_node, NULL) < 0 ||
	    !p4d_run_options_write(&request, true, options, sizeof(options)))
		return false;
	p4d_text_print(text, "r%u,%s,%s,1,\"%s\",%s,", number,
		       p4d_framework_of(all->group[row->group].framework)->name, m->gpu, options,
		       m->oom ? "device" : m->what);
	if (!m->oom)
		p4d_text_print(text, "%.2f", m->allocated_gib);
	p4d_text_print(text, ",%d,,%.*s,%s,%s\n", m->oom, MONTH, m->date, release(m->slurm),
		       release(m->driver));
	return true;
}

int p4d_calibrate__share(const p4d_calibrate *all, const char *path, unsigned *shared, unsigned *withheld,
			 p4d_error *err)
{
	p4d_text text = {.grows = true};

	*shared = *withheld = 0;
	p4d_text_add(&text,
		     "row_id,class,gpu,validate,options,what,measured_gib,oom,seen,date,slurm,driver\n");
	for (size_t g = 0; g < all->groups; g++) {
		const bool many = has_users(all, g);
		for (size_t i = 0; i < all->count; i++) {
			if (all->row[i].group != g)
				continue;
			if (many && add_row(&text, all, &all->row[i], *shared + 1))
				++*shared;
			else
				++*withheld;
		}
	}
	return p4d_new_file_put_text(path, &text, err);
}
