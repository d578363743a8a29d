/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's accounting: what sacct prints in each release, and what users may write into it. */
#include "support/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "accounting/accounting.h"

static char directory[] = "/tmp/p4d-accounting.XXXXXX";

static void put(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FILE *to = fopen(path, "w");
	assert_non_null(to);
	fputs(text, to);
	assert_int_equal(fclose(to), 0);
}

#define FIELDS \
	"Account AdminComment AllocTRES Cluster ElapsedRaw End ExitCode\nJobID JobIDRaw JobName NNodes " \
	"NTasks Partition QOS\nReqTRES Reservation Start State Submit SubmitLine TRESUsageInMax\n" \
	"TRESUsageInTot User WorkDir"
#define HEADER \
	"JobID\tJobIDRaw\tUser\tState\tExitCode\tReqTRES\tAllocTRES\tTRESUsageInMax\tSubmit\tStart\tEnd\t" \
	"ElapsedRaw\tNNodes\tNTasks\tSubmitLine\tStdOut\n"

static p4d_accounting *open_release(const char *version, const char *fields)
{
	p4d_error err = {.code = P4D_OK};

	put("version", version);
	put("fields", fields);
	p4d_accounting *a = p4d_accounting_open(&err);
	if (!a)
		fail_msg("%s", err.text);
	return a;
}

static p4d_accounting_jobs find(p4d_accounting *a, const char *lines, bool all)
{
	const p4d_accounting_query query = {.since = "now-1days", .all = all};
	p4d_accounting_jobs jobs = {.count = 0};
	p4d_error err = {.code = P4D_OK};

	put("jobs", lines);
	if (p4d_accounting_find(a, &query, &jobs, &err) < 0)
		fail_msg("%s", err.text);
	return jobs;
}

static void jobs_and_their_steps(void **state)
{
	p4d_accounting *a = open_release("slurm-wlm 22.05.8\n", FIELDS);
	p4d_accounting_jobs jobs = find(
	    a,
	    HEADER
	    "1\t1\tann\tCOMPLETED\t0:0\tcpu=1\tcpu=1\t\t100\t110\t120\t10\t1\t\tsbatch x\n"
	    "3_1\t7\tbob\tFAILED\t1:0\tgres/gpu=16,node=2\tcpu=8,gres/gpu:h100=16,gres/gpu=16,node=2\t\t"
	    "1796006133\t1796006138\t1796009738\t3600\t2\t\tsbatch --wrap=a\\nb | c\tlog-%j\n"
	    "3_1.batch\t7.batch\t\tFAILED\t1:0\t\tgres/gpu=8\t\t\t\t\t3600\t1\t1\t\n"
	    "3_1.0\t7.0\t\tFAILED\t1:0\t\tgres/gpu=16\tcpu=1,gres/gpumem=70G,mem=9\t\t\t\t3600\t2\t16\t\n"
	    "9+1\t10\tbob\tCANCELLED by "
	    "1000\t0:15\tgres/gpu:a100=3,gres/gpu:h100=1\t\t\t5\tUnknown\tUnknown\t0\t1\t\t\n",
	    false);

	(void)state;
	assert_int_equal(p4d_accounting_release(a), 2205);
	assert_false(p4d_accounting_has(a, "StdOut"));
	assert_true(p4d_accounting_has(a, "jobidraw"));
	assert_int_equal(jobs.seen, 3);
	assert_int_equal(jobs.malformed, 0);
	assert_int_equal(jobs.count, 2);
	const p4d_accounting_job *job = &jobs.job[0];
	assert_string_equal(job->id, "3_1");
	assert_string_equal(job->raw, "7");
	assert_string_equal(job->submit_line, "sbatch --wrap=a\nb | c");
	assert_string_equal(job->gpu_type, "h100");
	assert_string_equal(job->std_out, "");
	assert_int_equal(job->end, P4D_END_FAILED);
	assert_int_equal(job->exit_code, 1);
	assert_int_equal(job->gpus, 16);
	assert_int_equal(job->submit, 1796006133);
	assert_true(p4d_accounting_gpu_hours(job) == 16);
	assert_int_equal(job->steps, 2);
	assert_string_equal(job->step[1].id, "0");
	assert_int_equal(job->step[1].tasks, 16);
	p4d_accounting_measured how;
	assert_int_equal(p4d_accounting_gpu_memory(a, job, &how), (uint64_t)70 << 30);
	assert_int_equal(how, P4D_MEASURED_GPU);
	assert_int_equal(jobs.job[1].gpus_asked, 4);
	assert_string_equal(jobs.job[1].id, "9+1");
	assert_int_equal(jobs.job[1].end, P4D_END_CANCELLED);
	assert_int_equal(jobs.job[1].exit_signal, 15);
	assert_int_equal(jobs.job[1].gpus, 4);
	assert_int_equal(jobs.job[1].submit, 5);
	assert_int_equal(jobs.job[1].start, 0);
	assert_true(p4d_accounting_gpu_hours(&jobs.job[1]) == 0);
	p4d_accounting_jobs_free(&jobs);
	p4d_accounting_close(a);
}

/* A step with one task on all eight GPUs of a node, as torchrun starts it. What its gpumem means depends
 * on the release of Slurm. */
static void memory_depends_on_the_release(void **state)
{
	static const char lines[] = HEADER
	    "1\t1\tann\tCOMPLETED\t0:0\tgres/gpu=8\tgres/gpu=8\t\t1\t2\t3\t1\t1\t\t\n"
	    "1.0\t1.0\t\tCOMPLETED\t0:0\t\tgres/gpu=8\tgres/gpumem=64G\t\t\t\t1\t1\t1\n"
	    "1.1\t1.1\t\tCOMPLETED\t0:0\t\tgres/gpu=8\tgres/gpumem=18446744073709551614\t\t\t\t1\t1\t1\n";
	static const struct {
		const char *version;
		unsigned release;
		uint64_t gib;
		p4d_accounting_measured how;
	} releases[] = {{"slurm 23.11.4\n", 2311, 64, P4D_MEASURED_LAST},
			{"slurm 24.11.5\n", 2411, 8, P4D_MEASURED_MEAN},
			{"slurm 26.05.0-0rc1\n", 2605, 8, P4D_MEASURED_MEAN}};

	(void)state;
	for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++) {
		p4d_accounting *a = open_release(releases[i].version, FIELDS " StdOut StdErr Extra");
		p4d_accounting_jobs jobs = find(a, lines, false);
		p4d_accounting_measured how;
		assert_int_equal(p4d_accounting_release(a), releases[i].release);
		assert_int_equal(p4d_accounting_gpu_memory(a, &jobs.job[0], &how) >> 30, releases[i].gib);
		assert_int_equal(how, releases[i].how);
		p4d_accounting_jobs_free(&jobs);
		p4d_accounting_close(a);
	}
}

/* Reading a long script in SubmitLine takes time in proportion to its length. */
static void wrapped_scripts_are_long(void **state)
{
	enum { LINES = 100000 };
	static const char begin[] = HEADER "1\t1\tann\tFAILED\t1:0\t\t\t\t1\t2\t3\t1\t1\t\tsbatch --wrap=";
	char *lines = malloc(sizeof(begin) + 2 * LINES + 1), *at = lines + sizeof(begin) - 1;
	p4d_accounting *a = open_release("slurm 24.11.5\n", FIELDS);

	(void)state;
	assert_non_null(lines);
	memcpy(lines, begin, sizeof(begin));
	for (int i = 0; i < LINES; i++, at += 2)
		memcpy(at, "\\n", 2);
	memcpy(at, "\n", 2);
	p4d_accounting_jobs jobs = find(a, lines, true);
	assert_int_equal(jobs.count, 1);
	assert_int_equal(strlen(jobs.job[0].submit_line), strlen("sbatch --wrap=") + LINES);
	p4d_accounting_jobs_free(&jobs);
	p4d_accounting_close(a);
	free(lines);
}

static void ends_of_jobs(void **state)
{
	static const struct {
		const char *state;
		p4d_accounting_end end;
	} ends[] = {{"RUNNING", P4D_END_NOT_YET},           {"PENDING", P4D_END_NOT_YET},
		    {"COMPLETED", P4D_END_COMPLETED},       {"FAILED", P4D_END_FAILED},
		    {"TIMEOUT", P4D_END_TIMEOUT},           {"CANCELLED", P4D_END_CANCELLED},
		    {"OUT_OF_MEMORY", P4D_END_HOST_MEMORY}, {"NODE_FAIL", P4D_END_OF_SITE},
		    {"PREEMPTED", P4D_END_OF_SITE},         {"COMPLETING", P4D_END_NOT_YET}};
	p4d_accounting *a = open_release("slurm 24.11.5\n", FIELDS);

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		char lines[512];
		snprintf(lines, sizeof(lines), HEADER "1\t1\tann\t%s\t0:0\t\t\t\t\t\t\t\t\n", ends[i].state);
		p4d_accounting_jobs jobs = find(a, lines, true);
		assert_int_equal(jobs.count, 1);
		assert_int_equal(jobs.job[0].end, ends[i].end);
		p4d_accounting_jobs_free(&jobs);
	}
	p4d_accounting_close(a);
}

static void trackable_resources(void **state)
{
	static const char text[] =
	    "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=5,mem=1.5G,x=abc,big=99999999E,node=2";
	uint64_t number = 7;

	(void)state;
	assert_true(p4d_accounting_tres(text, "gres/gpu", 1, &number) && number == 5);
	assert_true(p4d_accounting_tres(text, "gres/gpu:a100", 1, &number) && number == 4);
	assert_true(p4d_accounting_tres(text, "mem", 1 << 20, &number) && number == 3u << 29);
	assert_true(p4d_accounting_tres("mem=3", "mem", 1 << 20, &number) && number == 3u << 20);
	assert_true(p4d_accounting_tres(text, "node", 1, &number) && number == 2);
	assert_false(p4d_accounting_tres(text, "gpu", 1, &number));
	assert_false(p4d_accounting_tres(text, "x", 1, &number));
	assert_false(p4d_accounting_tres(text, "big", 1, &number));
	assert_false(p4d_accounting_tres("", "cpu", 1, &number));
	assert_int_equal(number, 2);
}

/* Stores each text at the index of its id. */
static bool gather(void *context, size_t index, char *text, size_t length)
{
	char **texts = context;

	assert_null(texts[index]);
	assert_int_equal(strlen(text), length);
	texts[index] = strdup(text);
	return true;
}

static void release(char **texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(texts[i]);
}

#define RULE "--------------------------------------------------------------------------------\n"
#define SCRIPT "#!/bin/sh\nsrun python train.py\n"

/* Scripts that contain sacct's heading of another job do not become that job's script. */
static void scripts_that_look_like_others(void **state)
{
	static const char *const ids[] = {"1", "2_0", "2_1", "3", "4", "2_[2-9]"};
	static const char forged[] = "#!/bin/sh\nBatch Script for 2_1\n" RULE "#!/bin/sh\nevil\n"
				     "Batch Script for 77\n" RULE "x\n";
	char *texts[6] = {NULL};
	p4d_error err = {.code = P4D_OK};
	p4d_accounting *a = open_release("slurm 24.11.5\n", FIELDS);

	(void)state;
	put("plain", SCRIPT);
	put("forged", forged);
	put("none", "NONE\n");
	put("scripts", "1 forged\n2_0 plain\n2_1 plain\n3 none\n");
	assert_int_equal(p4d_accounting_stored(a, P4D_KEPT_SCRIPT, ids, 6, gather, texts, &err), 0);
	assert_string_equal(texts[0], forged);
	assert_string_equal(texts[1], SCRIPT);
	assert_string_equal(texts[2], SCRIPT);
	assert_null(texts[3]);
	assert_null(texts[4]);
	/* sacct refuses ids of array tasks that have not started. Without any id, sacct would print all
	 * jobs. */
	assert_null(texts[5]);
	assert_int_equal(p4d_accounting_stored(a, P4D_KEPT_SCRIPT, ids + 5, 1, gather, texts + 5, &err), 0);
	assert_null(texts[5]);
	release(texts, 6);
	p4d_accounting_close(a);
}

static void environments_without_secrets(void **state)
{
	static const char *const ids[] = {"1"};
	char *texts[1] = {NULL};
	p4d_error err = {.code = P4D_OK};
	p4d_accounting *a = open_release("slurm 26.05.1\n", FIELDS);

	(void)state;
	put("env",
	    "SSH_KEY=-----BEGIN\nMIIEvQIBADANBgkq=\nEND\n"
	    "HOME=/home/ann\nSBATCH_PARTITION=h100\nHF_TOKEN=hf_secret\nHF_HOME=/scratch/hf\nSLURM_JWT=x\n"
	    "P4D_JOB_KEY=0123\nAWS_SECRET_ACCESS_KEY=y\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
	    "SLURM_NNODES=2\nHF_HOME_TOO=z\n");
	put("environments", "1 env\n");
	assert_int_equal(p4d_accounting_stored(a, P4D_KEPT_ENVIRONMENT, ids, 1, gather, texts, &err), 0);
	assert_string_equal(
	    texts[0], "SSH_KEY\nHOME\nSBATCH_PARTITION=h100\nHF_TOKEN\nHF_HOME=/scratch/"
		      "hf\nSLURM_JWT\nP4D_JOB_KEY\nAWS_SECRET_ACCESS_KEY\n"
		      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\nSLURM_NNODES=2\nHF_HOME_TOO\n");
	release(texts, 1);
	/* the last line has no line break, but is not lost */
	put("env", "SLURM_JOB_ID=1\nSLURM_NNODES=2");
	put("environments", "1 env -n\n");
	texts[0] = NULL;
	assert_int_equal(p4d_accounting_stored(a, P4D_KEPT_ENVIRONMENT, ids, 1, gather, texts, &err), 0);
	assert_string_equal(texts[0], "SLURM_JOB_ID=1\nSLURM_NNODES=2");
	release(texts, 1);
	p4d_accounting_close(a);
}

static void failures_are_those_of_sacct(void **state)
{
	const p4d_accounting_query bad = {.since = "bad"};
	p4d_accounting_jobs jobs = {.count = 0};
	p4d_error err = {.code = P4D_OK};
	p4d_accounting *a = open_release("slurm 24.11.5\n", FIELDS);

	(void)state;
	assert_int_equal(p4d_accounting_find(a, &bad, &jobs, &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
	assert_string_equal(err.text, "sacct: Invalid time specification (pos=0): bad");
	p4d_accounting_jobs_free(&jobs);
	p4d_accounting_close(a);
	char *path = strdup(getenv("PATH"));
	setenv("PATH", directory, 1);
	assert_null(p4d_accounting_open(&err));
	assert_non_null(strstr(err.text, "sacct is not in PATH"));
	setenv("PATH", path, 1);
	free(path);
}

static int begin(void **state)
{
	char path[4096];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/tests/doubles/slurm:%s", getenv("P4D_TEST_SRCDIR"), getenv("PATH"));
	setenv("PATH", path, 1);
	return setenv("SACCT", directory, 1);
}

static int end(void **state)
{
	static const char *const names[] = {"version", "fields",  "jobs", "plain",        "forged",
					    "none",    "scripts", "env",  "environments", "asked"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[256];
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(jobs_and_their_steps),         cmocka_unit_test(memory_depends_on_the_release),
	    cmocka_unit_test(wrapped_scripts_are_long),     cmocka_unit_test(ends_of_jobs),
	    cmocka_unit_test(trackable_resources),          cmocka_unit_test(scripts_that_look_like_others),
	    cmocka_unit_test(environments_without_secrets), cmocka_unit_test(failures_are_those_of_sacct),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
