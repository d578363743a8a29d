/* SPDX-License-Identifier: Apache-2.0 */
#include "reader/reader_words.h"

#include <string.h>

/* In each program and argument that a reader is known by; test_reader_words holds them against the readers.
 */
static const char *const words[] = {"train",    "parallel-size", "parallel_size", "run_clm",   "run_mlm",
				    "finetune", "sft",           "dpo",           "deepspeed", ".sh",
				    NULL};

enum { MOST = 64 << 10 };

bool p4d_reader_may_train(const char *text, size_t length)
{
	length = length < MOST ? length : MOST;
	for (const char *const *word = words; *word; word++)
		if (memmem(text, length, *word, strlen(*word)))
			return true;
	return false;
}
