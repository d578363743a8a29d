/* SPDX-License-Identifier: Apache-2.0 */
#include "run/logits_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Length of the header: magic, version, length of the description, and the description. Blanks pad the
 * description, so that the numbers are aligned.
 */
enum { HEADER = 128, PREFIX = 10 };

static void write_header(const p4d_logits_file *f, char header[HEADER])
{
	static const unsigned char prefix[PREFIX] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, HEADER - PREFIX, 0};
	char text[HEADER];

	const int length =
	    snprintf(text, sizeof(text),
		     "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }",
		     f->rows, f->columns);
	memset(header, ' ', HEADER);
	memcpy(header, prefix, PREFIX);
	memcpy(header + PREFIX, text, (size_t)length);
	header[HEADER - 1] = '\n';
}

int p4d_logits_file_open(p4d_logits_file *f, const char *path, uint64_t columns, p4d_error *err)
{
	char header[HEADER];

	*f = (p4d_logits_file){.columns = columns};
	if (p4d_new_file_open(&f->file, path, err) < 0)
		return -1;
	write_header(f, header);
	return p4d_new_file_write(&f->file, header, sizeof(header), err);
}

int p4d_logits_file_add(p4d_logits_file *f, const float *row, p4d_error *err)
{
	f->rows++;
	return p4d_new_file_write(&f->file, row, f->columns * sizeof(*row), err);
}

int p4d_logits_file_publish(p4d_logits_file *f, p4d_error *err)
{
	char header[HEADER];

	write_header(f, header);
	if (p4d_new_file_rewrite(&f->file, 0, header, sizeof(header), err) < 0 ||
	    p4d_new_file_sync(&f->file, err) < 0)
		return -1;
	return p4d_new_file_publish(&f->file, err);
}

void p4d_logits_file_abandon(p4d_logits_file *f)
{
	p4d_new_file_abandon(&f->file);
}
