/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin in slurmctld follows changes of p4d.conf and of the accounting. */
#include "support/support.h"

#include <errno.h>

#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "doubles/slurm/hosted.h"

static void a_bad_edit_changes_nothing(void **state)
{
	(void)state;
	job_desc_msg_t *good = job_planned("h100", HOSTED_GOOD), *large = job_planned("h100", HOSTED_LARGE);

	fakehost_forget();
	site_write("mode = off\nversion = 1\nmode =");
	assert_true(hosted_logged("the previous configuration stays in force"));
	hosted_expect(good, true, "");
	hosted_expect(large, false, "[P4D012]");
}

static void a_good_edit_takes_effect(void **state)
{
	(void)state;
	char text[512];

	fakehost_forget();
	snprintf(text, sizeof(text),
		 "mode = off\ndata = \"%s\"\npartition h100 { gpu = { \"h100-80gb\" } }\nversion = 1\n",
		 test_datadir());
	site_write(text);
	assert_true(hosted_logged("reloaded"));
	hosted_expect(job_plain("strict"), true, "");
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
	hosted_expect(job_plain("strict"), false, "[P4D043]");
}

static void a_file_others_can_write_is_not_trusted(void **state)
{
	(void)state;
	char path[300];

	snprintf(path, sizeof(path), "%s/p4d.conf", (const char *)*state);
	fakehost_forget();
	chmod(path, 0666);
	assert_true(hosted_logged("[P4D064]"));
	hosted_expect(job_plain("strict"), false, "[P4D043]");
	fakehost_forget();
	chmod(path, 0644);
	assert_true(hosted_logged("reloaded"));
}

/* Restarts the plugin, as a restart of slurmctld would. */
static void restart(void)
{
	hosted.fini();
	fakehost_forget();
	assert_int_equal(hosted.init(), SLURM_SUCCESS);
}

/* Submits a job whose verdict depends on the cluster. note: sbatch's note; NULL: none. */
static int submit_live(const char *note)
{
	job_desc_msg_t *desc = job_plain("live");

	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "llama13b");
	if (note)
		fakehost_spank_env(desc, "P4D_VERDICT", note);
	const int rc = fakehost_submit(&hosted, desc, &hosted_said);
	fakehost_free(desc);
	return rc;
}

/*
 * Expects that slurmctld returns EAGAIN for such a job, so that sbatch submits it again, and that it then
 * refuses the job with this code. The plugin queries the cluster a second after its start. On a busy
 * machine it may already know the cluster at the first job; the test then restarts it.
 */
static void comes_back(const char *note, const char *code)
{
	enum { STARTS = 100 };
	int rc = SLURM_SUCCESS;

	for (int i = 0; rc != EAGAIN && i < STARTS; i++) {
		restart();
		rc = submit_live(note);
	}
	assert_int_equal(rc, EAGAIN);
	for (int i = 0; rc == EAGAIN && i < HOSTED_TRIES; i++) {
		assert_string_equal(hosted_said, "");
		usleep(HOSTED_TRY_US);
		rc = submit_live(note);
	}
	assert_int_not_equal(rc, SLURM_SUCCESS);
	assert_non_null(strstr(hosted_said, code));
}

/* Expects that slurmctld refuses the job at once, without EAGAIN. p4d.so knew the cluster when it found
 * the mistake, so waiting would not change the result. */
static void the_same_fault_does_not_come_back(const char *note, int expected)
{
	enum { STARTS = 20 };

	for (int i = 0; i < STARTS; i++) {
		job_desc_msg_t *desc = job_plain("live");
		restart();
		fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "llama13b");
		fakehost_spank_env(desc, "P4D_VERDICT", note);
		fakehost_set(&desc->tres_per_socket, "gres:gpu:4");
		fakehost_set(&desc->tres_per_node, NULL);
		desc->sockets_per_node = 2;
		assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), expected);
		fakehost_free(desc);
	}
}

/* Right after its start, the plugin does not know the cluster. It must not accept jobs unchecked. */
static void a_start_is_no_way_past_the_check(void **state)
{
	(void)state;
	job_desc_msg_t *planned = job_planned("live", HOSTED_GOOD);

	site_write("mode = enforce\nversion = 1\n");
	comes_back(NULL, "[P4D040]");
	/* sbatch submits the job although p4d.so refused it, because p4d.so is optional */
	comes_back("refuse\tP4D028\ttp=8 does not divide the 3 GPUs of a node\t", "[P4D028]");
	/* a mistake that does not depend on the cluster is refused at once */
	the_same_fault_does_not_come_back("refuse\tP4D035\t--gpus-per-socket=4 on 2 sockets\t",
					  ESLURM_INVALID_GRES);
	restart();
	hosted_expect(planned, true, "");
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

static void the_last_good_file_outlives_a_restart(void **state)
{
	char path[300], kept[320];
	struct stat st;

	snprintf(path, sizeof(path), "%s/p4d.conf", (const char *)*state);
	snprintf(kept, sizeof(kept), "%s.good", path);
	assert_int_equal(stat(kept, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	site_write("partition {");
	restart();
	assert_non_null(strstr(fakehost_log(), "the last good configuration is in force"));
	hosted_expect(job_plain("strict"), false, "[P4D043]");
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
	chmod(path, 0666);
	restart();
	hosted_expect(job_plain("strict"), false, "[P4D043]");
	unlink(path);
	restart();
	hosted_expect(job_plain("strict"), false, "[P4D043]");
	/* the plugin refuses a stored copy that others can write to, like p4d.conf itself */
	chmod(kept, 0666);
	restart();
	hosted_expect(job_plain("strict"), true, "");
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
	hosted_expect(job_plain("strict"), false, "[P4D043]");
}

/* Without a p4d.conf, the plugin refuses no job. It logs jobs that it would refuse. */
static void it_observes_where_nobody_wrote_a_configuration(void **state)
{
	char path[300], kept[320];
	job_desc_msg_t *large = job_planned("h100", HOSTED_LARGE);

	snprintf(path, sizeof(path), "%s/p4d.conf", (const char *)*state);
	snprintf(kept, sizeof(kept), "%s.good", path);
	unlink(path);
	unlink(kept);
	restart();
	fakehost_set(&large->tres_per_node, "gres:gpu:h100:8");
	hosted_expect(large, true, "");
	assert_non_null(strstr(fakehost_log(), "P4D012"));
	assert_non_null(
	    strstr(fakehost_log(), "started with no p4d.conf (p4d " PACKAGE_VERSION "): mode = observe"));
	site_write("mode = enforced\nversion = 1\n");
	restart();
	assert_non_null(strstr(fakehost_log(), "p4d.conf:1: mode = enforced"));
	hosted_expect(job_plain("h100"), true, "");
	/* the plugin logs this only once */
	fakehost_forget();
	sleep(2);
	assert_null(strstr(fakehost_log(), "enforced"));
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

static void a_fix_in_an_included_file_is_seen(void **state)
{
	char text[512], more[300];
	FILE *file;

	snprintf(more, sizeof(more), "%s/more.conf", (const char *)*state);
	file = fopen(more, "w");
	fputs("mode = enforced\nversion = 1\n", file);
	fclose(file);
	chmod(more, 0644);
	fakehost_forget();
	snprintf(text, sizeof(text), "include = \"%s\"\ndata = \"%s\"\nversion = 1\n", more, test_datadir());
	site_write(text);
	assert_true(hosted_logged("more.conf:1: mode = enforced"));
	file = fopen(more, "w");
	fputs("mode = off\nversion = 1\n", file);
	fclose(file);
	assert_true(hosted_logged("reloaded"));
	assert_true(hosted_logged("mode = off\n"));
	hosted_expect(job_plain("strict"), true, "");
	/* the plugin also logs a later change of the file */
	fakehost_forget();
	file = fopen(more, "w");
	fputs("require_plan = strict\nmode = enforce\nversion = 1\n", file);
	fclose(file);
	assert_true(hosted_logged("reloaded"));
	hosted_expect(job_plain("strict"), false, "[P4D043]");
	unlink(more);
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

/* Waits until plain GPU jobs of this kind are refused for lack of a plan, or until they pass. EAGAIN
 * counts as neither. */
static bool becomes(const char *partition, const char *account, const char *qos, bool refused)
{
	for (int i = 0; i < HOSTED_TRIES; i++) {
		job_desc_msg_t *desc = job_plain(partition);
		fakehost_set(&desc->account, account);
		fakehost_set(&desc->qos, qos);
		const int rc = fakehost_submit(&hosted, desc, &hosted_said);
		fakehost_free(desc);
		if (rc != EAGAIN && (rc != SLURM_SUCCESS) == refused)
			return true;
		usleep(HOSTED_TRY_US);
	}
	return false;
}

/* Writes a p4d.conf whose policy depends on accounts, followed by `more`. */
static void write_accounts(const char *more)
{
	char text[1024];

	fakehost_forget();
	snprintf(text, sizeof(text), "mode = enforce\ndata = \"%s\"\n%s\nversion = 1\n", test_datadir(),
		 more);
	site_write(text);
	assert_true(hosted_logged("reloaded"));
}

static void accounts_and_qos_that_nobody_typed_count(void **state)
{
	(void)state;
	/* without accounting, p4d uses the account that the user gives */
	write_accounts("account staff { require_plan = true }\nexempt_accounts = { trusted }");
	assert_true(becomes("bare", "staff", NULL, true));
	assert_true(becomes("bare", NULL, NULL, false));

	fakehost_account(NULL, 0, "root", NULL, 0, false);
	fakehost_account(NULL, 0, "staff", "root", 0, false);
	fakehost_account(NULL, 0, "Physics", "staff", 0, false);
	fakehost_account(NULL, 0, "guests", "root", 0, false);
	fakehost_account(NULL, 0, "trusted", "root", 0, false);
	fakehost_account("alice", FAKEHOST_UID, "physics", NULL, 2, true);
	fakehost_account("alice", FAKEHOST_UID, "guests", NULL, 0, false);
	fakehost_account("bob", FAKEHOST_UID + 1, "trusted", NULL, 0, true);
	write_accounts("account staff { require_plan = true }\nexempt_accounts = { trusted }");
	assert_true(becomes("h100", NULL, NULL,
			    true)); /* the section of the parent of the user's default account applies */
	assert_non_null(strstr(fakehost_log(), " account=\"physics\" partition=\"h100\" "));
	assert_true(becomes("h100", "physics", NULL, true));
	assert_true(becomes("h100", "guests", NULL, false));
	/* the account's exemption has no effect, because the user does not have this account */
	assert_true(becomes("h100", "trusted", NULL, true));
	write_accounts("account staff { require_plan = true }\naccount physics { mode = off }");
	assert_true(becomes("h100", NULL, NULL, false)); /* the section of the nearer account applies */
	write_accounts("qos large { require_plan = true }");
	assert_true(hosted_logged("(p4d " PACKAGE_VERSION "): mode = enforce\n"));
	assert_true(becomes("h100", NULL, NULL, true)); /* the default QOS of the association applies */
	assert_non_null(strstr(fakehost_log(), " qos=\"large\" "));
	assert_true(becomes("h100", NULL, "normal", false));
	assert_true(becomes("h100", "guests", NULL, false));
	assert_true(becomes("bare", "guests", NULL, true)); /* the QOS of the partition applies */
	write_accounts("user alice { require_plan = true }");
	assert_true(becomes("h100", NULL, NULL, true));
	write_accounts("user \"al*\" { require_plan = true }\nexempt_accounts = { staff }");
	assert_true(becomes("h100", "guests", NULL, true));
	assert_true(becomes("h100", NULL, NULL, false)); /* accounts below an exempt account are also
							  * exempt */
	/* an update concerns a job of the same user */
	write_accounts("user alice { require_plan = true }\npartition h100 { gpu = \"h100-80gb\" }");
	assert_true(becomes("h100", NULL, NULL, true));
	job_desc_msg_t *job = job_plain("h100"), *change = fakehost_desc();
	job->user_id = FAKEHOST_UID;
	change->num_tasks = 4;
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
	fakehost_account(NULL, 0, NULL, NULL, 0, false);
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

static void reservations_have_their_own_policy(void **state)
{
	(void)state;
	write_accounts("reservation exam { require_plan = true }");
	job_desc_msg_t *job = job_plain("bare");
	fakehost_set(&job->reservation, "exam");
	hosted_expect(job, false, "[P4D043]");
	hosted_expect(job_plain("bare"), true, "");

	job = job_plain("bare");
	job_desc_msg_t *change = fakehost_desc();
	fakehost_set(&change->reservation, "exam");
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTED_TEST(a_bad_edit_changes_nothing),
	    HOSTED_TEST(a_good_edit_takes_effect),
	    HOSTED_TEST(a_file_others_can_write_is_not_trusted),
	    HOSTED_TEST(accounts_and_qos_that_nobody_typed_count),
	    HOSTED_TEST(reservations_have_their_own_policy),
	    HOSTED_TEST(a_fix_in_an_included_file_is_seen),
	    HOSTED_TEST(a_start_is_no_way_past_the_check),
	    HOSTED_TEST(the_last_good_file_outlives_a_restart),
	    HOSTED_TEST(it_observes_where_nobody_wrote_a_configuration),
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
