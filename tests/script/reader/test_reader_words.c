/* SPDX-License-Identifier: Apache-2.0 */
/* Which scripts p4d reads. It must miss no program that a reader knows, and not read common jobs of other
 * kinds. */
#include "support/support.h"

#include "reader/reader_internal.h"
#include "reader/reader_words.h"

static void may(const char *text)
{
	if (!p4d_reader_may_train(text, strlen(text)))
		fail_msg("%s would not be read", text);
}

static void every_reader_is_found(void **state)
{
	const p4d_reader *reader;
	size_t count = 0;

	(void)state;
	for (; (reader = p4d_reader__at(count)); count++) {
		for (int i = 0; i < P4D_READ_PROGRAMS && reader->programs[i]; i++)
			may(reader->programs[i]);
		for (int i = 0; i < P4D_READ_ALONE && reader->arguments_alone[i]; i++)
			may(reader->arguments_alone[i]);
	}
	assert_true(count > 1);
	may("source env.sh\n");
}

static void other_scripts_are_not(void **state)
{
	static const char *const scripts[] = {
	    "#!/bin/bash\n#SBATCH -N4 --gpus-per-node=8\nsrun hostname\n",
	    "#!/bin/sh\nmodule load gromacs\nsrun gmx_mpi mdrun -deffnm md\n",
	    "#!/usr/bin/env bash\npython analyze.py --input data.csv\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
		assert_false(p4d_reader_may_train(scripts[i], strlen(scripts[i])));
	/* if a script is mostly data, its beginning decides */
	static char data[1 << 20];
	memset(data, 'x', sizeof(data));
	memcpy(data + sizeof(data) - 6, "train", 6);
	assert_false(p4d_reader_may_train(data, sizeof(data)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_reader_is_found),
	    cmocka_unit_test(other_scripts_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
