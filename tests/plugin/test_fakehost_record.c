/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a verdict that slurmctld stores with the job, in each mode, and also for jobs without p4d
 * options. */
#include "support/support.h"

#include "doubles/slurm/hosted.h"
#include "guard/verdict_record.h"

/* 13B on 8 H100 without tensor parallelism, which needs 219 GiB. */
static const char script[] =
    "#!/bin/sh\ntorchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 "
    "--ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096 "
    "--position-embedding-type rope --swiglu --normalization RMSNorm --vocab-size 32000 "
    "--untie-embeddings-and-output-weights --disable-bias-linear --bf16 --hidden-dropout 0 "
    "--micro-batch-size 1 --global-batch-size 64\n";
/* slurmctld does not read the file with the options. */
static const char elsewhere[] =
    "#!/bin/sh\n. ./sizes.sh\ntorchrun --nproc_per_node 8 pretrain_gpt.py $ARGS\n";

static p4d_verdict_record record_of(const char *partition, const char *text, const char *note)
{
	job_desc_msg_t *desc = job_plain(partition);
	p4d_verdict_record record;

	fakehost_set(&desc->script, text);
	if (note)
		fakehost_spank_env(desc, "P4D_VERDICT", note);
	fakehost_forget();
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	p4d_verdict_record_read(desc->admin_comment, &record);
	fakehost_free(desc);
	return record;
}

static void a_script_is_recorded_in_every_mode(void **state)
{
	static const char *const partitions[] = {"h100", "warn", "observe"};
	static const char *const modes[] = {"enforce", "warn", "observe"};
	char digest[P4D_DIGEST_TEXT] = "", logged[64];

	(void)state;
	for (int i = 0; i < 3; i++) {
		const p4d_verdict_record r = record_of(partitions[i], script, NULL);
		assert_string_equal(r.verdict, "would-refuse");
		assert_false(r.approved); /* a script has no plan that steps must agree with */
		assert_string_equal(r.mode, modes[i]);
		assert_string_equal(r.framework, "megatron");
		assert_string_equal(r.gpu, "h100-80gb");
		assert_string_equal(r.read, "script");
		assert_string_equal(r.by, "");
		assert_true(r.phase[0] && r.need_gib > 100 && r.capacity_gib > 79 && r.capacity_gib < 80);
		assert_memory_equal(r.code, "P4D012", 6);
		assert_int_equal(strlen(r.digest), 32);
		assert_true(!i || !strcmp(r.digest, digest));
		memcpy(digest, r.digest, sizeof(digest));
		snprintf(logged, sizeof(logged), " id=\"%s\" ", r.id);
		assert_non_null(strstr(fakehost_log(), logged));
		snprintf(logged, sizeof(logged), " digest=\"%s\" ", r.digest);
		assert_non_null(strstr(fakehost_log(), logged));
	}
	const p4d_verdict_record off = record_of("off", script, NULL),
				 plain = record_of("h100", "#!/bin/sh\n", NULL);
	assert_string_equal(off.verdict, "");
	assert_string_equal(plain.verdict, "");
}

static void what_only_sbatch_judged_is_recorded_as_its_word(void **state)
{
	static const char refused[] = "would-refuse\tP4D012,P4D118\tx\ty\tscript\t\t219.0of79.1GiB,nodes=1,"
				      "gpus-per-node=8,tp=2,model=mine,"
				      "framework=megatron,phase=train,gpu=h100-80gb,verdict=would-refuse,"
				      "digest=0123456789abcdef0123456789abcdef";
	static const char passed[] = "pass\t\t\t\tscript\t\t42.2of79.1GiB,framework=ddp,verdict=pass";
	static const char forged[] = "pass\t\t\t\tscript\t\t1.0of79.1GiB,model=a%20p4d%3ax%0a,verdict=fine,"
				     "mode=off,by=controller,id=1";

	(void)state;
	p4d_verdict_record r = record_of("h100", elsewhere, refused);
	assert_string_equal(r.verdict, "would-refuse");
	assert_string_equal(r.by, "client");
	assert_string_equal(r.code, "P4D012+P4D118");
	assert_string_equal(r.digest, "0123456789abcdef0123456789abcdef");
	assert_string_equal(r.mode, "enforce");
	assert_string_equal(r.model, "mine");
	assert_non_null(strstr(fakehost_log(),
			       " framework=\"megatron\" gpu=\"h100-80gb\" nodes=\"1\" phase=\"train\" "
			       "need_gib=\"219.0\" capacity_gib=\"79.1\" fraction=\"2.769\" "));
	r = record_of("h100", elsewhere, passed);
	assert_string_equal(r.verdict, "pass");
	assert_string_equal(r.by, "client");
	assert_string_equal(r.framework, "ddp");
	assert_true(r.need_gib > 42 && r.need_gib < 43);
	/* p4d never writes this note, so it is ignored */
	r = record_of("h100", elsewhere, forged);
	assert_string_equal(r.verdict, "not-judged");
	assert_string_equal(r.by, "");
	assert_string_equal(r.model, "");
	assert_string_equal(r.mode, "enforce");
	/* p4d reads the note of an earlier release */
	r = record_of("warn", elsewhere, "not-judged\tP4D117\tx\ty\tscript");
	assert_string_equal(r.verdict, "not-judged");
	assert_string_equal(r.code, "P4D117");
	/* a note that says that the job passed does not replace slurmctld's own verdict */
	r = record_of("h100", script, passed);
	assert_string_equal(r.by, "");
	assert_string_equal(r.framework, "megatron");
	assert_string_equal(r.verdict, "would-refuse");
}

/* Writes a p4d.conf with this line, and waits until the plugin has read it. */
static void put_conf(const char *line)
{
	char text[512];

	snprintf(
	    text, sizeof(text),
	    "data = \"%s\"\nmode = enforce\n%s\npartition h100 { gpu = { \"h100-80gb\" } }\nversion = 1\n",
	    test_datadir(), line);
	fakehost_forget();
	site_write(text);
	assert_true(hosted_logged("reloaded"));
}

static void the_site_says_where(void **state)
{
	job_desc_msg_t *desc;
	p4d_verdict_record r;

	(void)state;
	put_conf("record = none");
	assert_string_equal(record_of("h100", script, NULL).verdict, "");
	desc = job_planned("h100", HOSTED_GOOD);
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_true(p4d_verdict_record_read(desc->admin_comment, &r) && r.approved);
	fakehost_free(desc);
	/* with admin_comment = none, p4d writes to admin_comment only if `record` says so */
	put_conf("admin_comment = none");
	assert_string_equal(record_of("h100", script, NULL).verdict, "");
	put_conf("admin_comment = none\nrecord = admin_comment");
	assert_string_equal(record_of("h100", script, NULL).verdict, "would-refuse");
	put_conf("record = extra");
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 2, 0)
	assert_true(hosted_logged(
	    "record = extra: Slurm has Extra from release 23.02 on, so slurmctld stores no records"));
#endif
	assert_string_equal(record_of("h100", script, NULL).verdict, "");
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
/* Submits a job with this script and this Extra. Returns the Extra that the job then has. *record: the
 * record in it, or zeros. */
static char *submitted(const char *text, const char *extra, p4d_verdict_record *record)
{
	static char left[2048];
	job_desc_msg_t *desc = job_plain("h100");

	fakehost_set(&desc->script, text);
	fakehost_set(&desc->extra, extra);
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	assert_null(desc->admin_comment);
	p4d_verdict_record_read(desc->extra, record);
	snprintf(left, sizeof(left), "%s", desc->extra ? desc->extra : "(none)");
	fakehost_free(desc);
	return left;
}

static void users_write_no_record_into_extra(void **state)
{
	char longest[1024];
	p4d_verdict_record r;

	(void)state;
	put_conf("record = extra");
	assert_memory_equal(submitted(script, "mine p4d-verdict:verdict=pass,id=1", &r),
			    "mine p4d-verdict:", 17);
	assert_string_equal(r.framework, "megatron");
	/* p4d removes words of the user that look like its own, even if it has no verdict or no room for
	 * its own word */
	assert_string_equal(submitted("#!/bin/sh\n", "mine p4d:0123:verdict=pass", &r), "mine ");
	assert_string_equal(submitted("#!/bin/sh\n", "p4d-verdict:verdict=pass", &r), "(none)");
	memset(longest, 'x', sizeof(longest));
	memcpy(longest, "p4d-verdict:verdict=pass ", 25);
	longest[1000] = '\0';
	assert_string_equal(submitted(script, longest, &r), longest + 25);
	assert_string_equal(r.verdict, "");
	/* with extra_constraints, Extra is a constraint for Slurm, so p4d does not change it */
	fakehost_scheduler_parameters("defer,extra_constraints");
	assert_string_equal(submitted(script, "p4d:a=1", &r), "p4d:a=1");
	fakehost_scheduler_parameters(NULL);
}

/* A task of an array with this Extra, which the test updates. */
static job_desc_msg_t *task(const char *extra)
{
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);

	fakehost_set(&desc->extra, extra);
	return desc;
}

/* Updates a task like slurmctld: if the update has an Extra, the task gets a copy of it. */
static void update_task(job_desc_msg_t *update, job_desc_msg_t *one, p4d_verdict_record *record)
{
	assert_int_equal(fakehost_modify(&hosted, update, one, &hosted_said), SLURM_SUCCESS);
	if (update->extra)
		fakehost_set(&one->extra, update->extra);
	p4d_verdict_record_read(one->extra, record);
}

/* slurmctld calls the plugin for each task with the same description, which still has what the plugin
 * wrote for the previous task. */
static void an_update_is_of_all_tasks(void **state)
{
	static const char *const extras[] = {"one p4d-verdict:verdict=pass,id=1-1", NULL,
					     "p4d-verdict:verdict=pass,id=1-1 three"};
	static const char *const starts[] = {"one p4d-verdict:", "p4d-verdict:", "three p4d-verdict:"};
	p4d_verdict_record first, r;

	(void)state;
	put_conf("record = extra");
	/* the update has no Extra: each task keeps its own words and gets a new record */
	job_desc_msg_t *change = fakehost_desc(), *one[3];
	change->num_tasks = 8;
	for (int i = 0; i < 3; i++) {
		one[i] = task(extras[i]);
		update_task(change, one[i], &r);
		assert_memory_equal(one[i]->extra, starts[i], strlen(starts[i]));
		assert_true(strlen(r.id) > 3);
		assert_true(!i || strcmp(r.id, first.id) != 0);
		first = i ? first : r;
	}
	fakehost_free(change);
	/* the update has an Extra with a forged record: each task gets the user's other words and its own
	 * record */
	change = fakehost_desc();
	change->num_tasks = 8;
	fakehost_set(&change->extra, "p4d-verdict:verdict=refuse,id=x new");
	for (int i = 0; i < 3; i++) {
		update_task(change, one[i], &r);
		assert_memory_equal(one[i]->extra, "new p4d-verdict:", 16);
		assert_string_equal(r.verdict, "pass");
		assert_true(!i || strcmp(r.id, first.id) != 0);
		first = r;
	}
	fakehost_free(change);
	/* the update changes only Extra: the records stay the same */
	change = fakehost_desc();
	fakehost_set(&change->extra, "newer p4d:0123:verdict=refuse,id=x");
	for (int i = 0; i < 3; i++) {
		p4d_verdict_record_read(one[i]->extra, &first);
		update_task(change, one[i], &r);
		assert_memory_equal(one[i]->extra, "newer p4d-verdict:", 18);
		assert_memory_equal(&r, &first, sizeof(r));
	}
	fakehost_free(change);
	/* the update empties Extra, and the job has no record */
	change = fakehost_desc();
	fakehost_set(&change->extra, "");
	fakehost_set(&one[0]->extra, "words");
	update_task(change, one[0], &r);
	assert_string_equal(one[0]->extra, "");
	fakehost_free(change);
	for (int i = 0; i < 3; i++)
		fakehost_free(one[i]);
	put_conf("record = none");
}

/* Before 23.11, slurmctld frees its configuration while the plugin's thread runs. */
static void the_thread_reads_the_configuration_under_its_lock(void **state)
{
	(void)state;
	put_conf("record = none");
	fakehost_scheduler_parameters("extra_constraints");
	const unsigned before = fakehost_conf_locks();
	put_conf("record = extra");
	assert_true(
	    hosted_logged("extra_constraints reads Extra as a constraint, so slurmctld stores no records"));
	assert_true(fakehost_conf_locks() > before);
	fakehost_scheduler_parameters(NULL);
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOSTED_TEST(a_script_is_recorded_in_every_mode),
		HOSTED_TEST(what_only_sbatch_judged_is_recorded_as_its_word),
		HOSTED_TEST(the_site_says_where),
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
		HOSTED_TEST(users_write_no_record_into_extra),
		HOSTED_TEST(an_update_is_of_all_tasks),
		HOSTED_TEST(the_thread_reads_the_configuration_under_its_lock),
#endif
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
