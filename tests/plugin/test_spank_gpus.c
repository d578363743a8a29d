/* SPDX-License-Identifier: Apache-2.0 */
/* p4d.so's log line about a step's GPUs after the step's last task. A stand-in replaces NVML. */
#include "support/support.h"

#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "spank_gpus.h"

static uint32_t tasks;
static const char *step_gpus, *job_gpus;
static char logged[512];
static unsigned lines;
static char library[PATH_MAX];

/* a function that slurmstepd provides */
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	va_list args;

	(void)spank;
	va_start(args, item);
	*va_arg(args, uint32_t *) = item == S_JOB_LOCAL_TASK_COUNT ? tasks : item == S_JOB_ID ? 12 : 0;
	va_end(args);
	return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buf, int size)
{
	const char *value = !strcmp(name, "SLURM_STEP_GPUS")  ? step_gpus
			    : !strcmp(name, "SLURM_JOB_GPUS") ? job_gpus
							      : NULL;

	(void)spank;
	if (!value)
		return ESPANK_ENV_NOEXIST;
	snprintf(buf, (size_t)size, "%s", value);
	return ESPANK_SUCCESS;
}

void slurm_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(logged, sizeof(logged), format, args);
	va_end(args);
	lines++;
}

/* Ends two more tasks. They are the last tasks of the step. */
static const char *end(const char *argument)
{
	static uint32_t ended; /* number of ended tasks, as the plugin counts them */
	char word[32];
	char *argv[] = {word};

	snprintf(word, sizeof(word), "%s", argument);
	logged[0] = '\0';
	lines = 0;
	p4d_spank_gpus_start();
	tasks = ended + 2;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(lines, 0);
		p4d_spank_gpus_task_ended(NULL, 1, argv);
	}
	ended += !strcmp(argument, "measure=nvml") ? 2 : 0;
	return logged;
}

static void the_fullest_gpu(void **state)
{
	static const struct {
		const char *list, *processes;
		double gib;
		unsigned gpu, gpus, off;
	} of[] = {
	    {"0,1", "0 10 20.5 200\n1 11 59.8 200\n1 12 3 200\n2 13 70 200", 59.8, 1, 2, 0},
	    {"1-3", "0 10 20.5 200\n1 11 59.8 200\n2 13 70 200", 70, 2, 3, 0},
	    /* one process started before the step, and NVML knows nothing about another */
	    {"0", "0 10 20.5 200\n0 11 70 99\n0 12 -1 200", 20.5, 0, 1, 0},
	    {"0,1", "0 10 20.5 200\n1 off", 20.5, 0, 1, 1},
	    {"2", "", 0, 0, 1, 0},
	    {"x", "0 10 20.5 200", 0, 0, 0, 0},
	    {"", "0 10 20.5 200", 0, 0, 0, 0},
	};
	p4d_spank_gpus gpus;

	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		setenv("FAKE_NVML", of[i].processes, 1);
		assert_true(p4d_spank_gpus_read(library, of[i].list, 100000000, &gpus));
		assert_true(gpus.bytes == (uint64_t)(of[i].gib * (1 << 30)));
		assert_int_equal(gpus.gpu, of[i].gpu);
		assert_int_equal(gpus.gpus, of[i].gpus);
		assert_int_equal(gpus.without_mode, of[i].off);
	}
	unsetenv("FAKE_NVML"); /* without this variable, the stand-in for NVML fails to start */
	assert_false(p4d_spank_gpus_read(library, "0", 0, &gpus));
	assert_false(p4d_spank_gpus_read("/nonexistent.so", "0", 0, &gpus));
	assert_false(p4d_spank_gpus_read("libm.so.6", "0", 0, &gpus));
}

static void one_line_at_the_end(void **state)
{
	(void)state;
	setenv("FAKE_NVML", "0 10 20.5 4000000000\n1 11 59.8 4000000000", 1);
	job_gpus = "0,1";
	assert_string_equal(end("measure=nvml"), "p4d: event=\"end\" job_id=\"12\" step_id=\"0\" node=\"0\" "
						 "max_gib=\"59.80\" gpu=\"1\" text=\"\"");
	assert_int_equal(lines, 1);
}

static void nothing_otherwise(void **state)
{
	(void)state;
	setenv("FAKE_NVML", "0 10 20.5 4000000000\n1 11 59.8 4000000000", 1);
	job_gpus = "0,1";
	assert_string_equal(end("conf=/etc/slurm/p4d.conf"), "");
	job_gpus = NULL;
	assert_string_equal(end("measure=nvml"), "");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_otherwise),
	    cmocka_unit_test(the_fullest_gpu),
	    cmocka_unit_test(one_line_at_the_end),
	};
	char folder[] = "/tmp/p4d-nvml.XXXXXX", real[PATH_MAX];

	(void)argc;
	/* p4d.so opens the driver's library by its name */
	if (!getenv("P4D_TEST_NVML")) {
		const char *build = getenv("P4D_TEST_BUILDDIR");
		snprintf(library, sizeof(library), "%.4000s/tests/doubles/.libs/fake_nvml.so",
			 build ? build : ".");
		if (!realpath(library, real) || !mkdtemp(folder))
			return 1;
		snprintf(library, sizeof(library), "%s/libnvidia-ml.so.1", folder);
		if (symlink(real, library) < 0)
			return 1;
		setenv("P4D_TEST_NVML", folder, 1);
		setenv("LD_LIBRARY_PATH", folder, 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	snprintf(library, sizeof(library), "%s/libnvidia-ml.so.1", getenv("P4D_TEST_NVML"));
	const int rc = cmocka_run_group_tests_name("spank_gpus", tests, NULL, NULL);
	unlink(library);
	rmdir(getenv("P4D_TEST_NVML"));
	return rc;
}
