/* SPDX-License-Identifier: Apache-2.0 */
/* What `p4d data` reads: lines, or JSON lines with texts or tokens, by the first byte. An error names the
 * line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	p4d_documents documents = {.field = "text"};
	p4d_document_text document;
	p4d_error err = {.code = P4D_OK};
	char path[32];
	uint64_t sum = 0;
	int rc, fd = memfd_create("documents", MFD_CLOEXEC);

	if (!size) {
		close(fd);
		return 0;
	}
	documents.form = (p4d_document_form)(data[0] % 3);
	documents.tokens = data[0] & 4;
	check(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	check(p4d_documents__open(&documents, path, &err) == 0);
	while ((rc = p4d_documents__next(&documents, &document, &err)) > 0) {
		check((document.text != NULL) != (document.ids != NULL));
		for (size_t i = 0; document.ids && i < document.length; i++)
			check(document.ids[i] >= 0);
		/* sanitizers see whether all of it is there */
		for (size_t i = 0; document.text && i < document.length; i++)
			sum += (uint8_t)document.text[i];
	}
	check(rc == 0 || (err.code == P4D_E_JSON && !strncmp(err.text, path, strlen(path))));
	check(documents.read_bytes <= size && sum <= 255 * (uint64_t)size);
	p4d_documents__free(&documents);
	close(fd);
	return 0;
}
