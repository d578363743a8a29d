/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that slurmctld logs about its own verdicts and about those of sbatch. */
#include "support/support.h"

#include "doubles/slurm/hosted.h"

/* The end of a quoted value that begins after `at`; NULL: there is none. */
static const char *end_of_value(const char *at)
{
	for (at += *at == '"'; *at != '"'; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return NULL;
		at += *at == '\\';
	}
	return at + 1;
}

/* Checks each line of the log with a verdict against the format of p4d.conf(5). Returns the number of such
 * lines. */
static int verdicts_logged(void)
{
	static const char *const keys[] = {
	    "event",        "verdict",  "code",  "job",       "job_id", "id",    "uid",    "account",
	    "partition",    "qos",      "model", "framework", "gpu",    "nodes", "phase",  "need_gib",
	    "capacity_gib", "fraction", "limit", "digest",    "mode",   "read",  "source", "text"};
	int lines = 0;

	for (const char *at = fakehost_log(); *at; at += *at == '\n') {
		if (strncmp(at, "p4d: event=", 11) != 0)
			fail_msg("a line of its own: %.200s", at);
		at += strlen("p4d:");
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			char wanted[32];
			int length = snprintf(wanted, sizeof(wanted), " %s=\"", keys[i]);
			const char *end =
			    strncmp(at, wanted, (size_t)length) ? NULL : end_of_value(at + length - 1);
			if (!end)
				fail_msg("no %s here: %.200s", keys[i], at);
			at = end;
		}
		assert_int_equal(*at, '\n');
		lines++;
	}
	return lines;
}

static void nobody_writes_lines_of_the_log(void **state)
{
	static const char evil[] = "x\" verdict=\"pass\"\n[2026-11-22T00:00:00] forged\r\x1b[2J\\";

	(void)state;
	fakehost_forget();
	for (int field = 0; field < 6; field++) {
		job_desc_msg_t *desc = job_planned("h100", field ? HOSTED_LARGE : HOSTED_GOOD);
		char **fields[] = {&desc->name, &desc->name,          &desc->account,
				   &desc->qos,  &desc->tres_per_node, &desc->partition};
		fakehost_set(fields[field], field == 4 ? "gres:gpu:\n8" : evil);
		fakehost_submit(&hosted, desc, &hosted_said);
		assert_null(strpbrk(hosted_said, "\r\x1b"));
		fakehost_free(desc);
	}
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	hosted_edit(desc, "P4D_TP", evil);
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_null(strstr(hosted_said, "\n["));
	fakehost_free(desc);
	desc = job_plain("h100");
	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", evil);
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_null(strstr(hosted_said, "\n["));
	fakehost_free(desc);
	assert_int_equal(verdicts_logged(), 8);
	assert_non_null(strstr(fakehost_log(), " verdict=\"pass\" code=\"\" job=\"x\\\" verdict"));
	assert_non_null(strstr(fakehost_log(), " phase=\"train\" need_gib=\""));
}

/* A job with options but without a plan, and with sbatch's note about the options. */
static job_desc_msg_t *job_noted(const char *partition, const char *note)
{
	job_desc_msg_t *desc = job_plain(partition);

	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "lama13b");
	fakehost_spank_env(desc, "P4D_VERDICT", note);
	return desc;
}

static void what_sbatch_decided_is_logged(void **state)
{
	static const char unknown[] = "would-refuse\tP4D007\tunknown model \"lama13b\"\t--p4d-model=llama13b";
	static const char site[] = "not-judged\tP4D060,P4D115\tp4d.conf:1: syntax\t";
	static const char *const forged[] = {
	    "pass\tP4D007\tx\t",
	    "would-refuse\tP4D007x\tx\t",
	    "would-refuse\tP4D999\tx\t",
	    "would-refuse\t\t\t",
	    "would-refuse\tP4D007,P4D007,P4D007,P4D007,P4D007\tx\t",
	    "refuse",
	    "",
	    "\t\t\t\t",
	};

	(void)state;
	/* the message has the reason why there is no plan; it does not say that p4d did not run */
	fakehost_forget();
	hosted_expect(job_noted("observe", unknown), true, "");
	hosted_expect(job_noted("warn", unknown), true, "");
	assert_int_equal(verdicts_logged(), 2);
	assert_null(strstr(fakehost_log(), "P4D040"));
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D007\""));
	assert_non_null(strstr(fakehost_log(), "source=\"client\" text=\"unknown model \\\"lama13b\\\"\""));
	hosted_expect(job_noted("h100", unknown), false,
		      "[P4D007] unknown model \"lama13b\"\np4d: fix: --p4d-model=llama13b");
	/* the site's configuration was wrong, so the job passes unless the partition requires a plan */
	fakehost_forget();
	hosted_expect(job_noted("h100", site), true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"not-judged\" code=\"P4D060,P4D115\""));
	hosted_expect(job_noted("strict", site), false, "[P4D060]");
	/* a note that sbatch would not write is ignored */
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++)
		hosted_expect(job_noted("h100", forged[i]), false, "[P4D040]");
	/* no note approves a plan that does not fit, or replaces slurmctld's verdict */
	job_desc_msg_t *desc = job_planned("h100", HOSTED_LARGE);
	fakehost_spank_env(desc, "P4D_VERDICT", site);
	hosted_expect(desc, false, "[P4D012]");
	desc = job_planned("observe", HOSTED_LARGE);
	fakehost_spank_env(desc, "P4D_VERDICT", "warn\tP4D112\tx\t");
	fakehost_forget();
	hosted_expect(desc, true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D012\""));
	/* if slurmctld refuses for the reason of the note, it repeats the fix that sbatch found */
	desc = job_planned("h100", HOSTED_LARGE);
	fakehost_spank_env(desc, "P4D_VERDICT", "would-refuse\tP4D012\tx\t--p4d-pp=2\x1b");
	hosted_expect(desc, false, "p4d: fix: --p4d-pp=2\\x1b");
	desc = job_planned("h100", HOSTED_GOOD);
	fakehost_spank_env(desc, "P4D_VERDICT", "rewrite\tP4D111\tchanged to pp=1\t");
	fakehost_forget();
	hosted_expect(desc, true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"rewrite\" code=\"P4D111\""));
}

/* A job whose plan fits, with a note of sbatch. */
static job_desc_msg_t *good_noted(const char *partition, const char *note)
{
	job_desc_msg_t *desc = job_planned(partition, HOSTED_GOOD);

	fakehost_spank_env(desc, "P4D_VERDICT", note);
	return desc;
}

static void a_note_makes_nothing_milder(void **state)
{
	static const char contradiction[] =
	    "refuse\tP4D011,P4D046\t--p4d-tp=8 does not reach the program:\t--p4d-tp=1";
	static const char idle[] = "pass\t\t\t\tscript";

	(void)state;
	/* only sbatch saw the contradiction in the script; slurmctld refuses the job because of the note,
	 * if the partition enforces */
	hosted_expect(good_noted("h100", contradiction), false,
		      "refused, for the reason that p4d gave above");
	hosted_expect(good_noted("warn", contradiction), true, "");
	hosted_expect(good_noted("observe", contradiction), true, "");
	/* a note refuses no job for a reason that slurmctld can check itself */
	hosted_expect(good_noted("h100", "refuse\tP4D012\tx\t"), true, "");
	hosted_expect(good_noted("h100", idle), true, "");
	/* if the options change nothing, the job counts as one without options */
	hosted_expect(job_noted("h100", idle), true, "");
	job_desc_msg_t *desc = job_planned("h100", HOSTED_LARGE);
	fakehost_spank_env(desc, "P4D_VERDICT", idle);
	hosted_expect(desc, false, "[P4D012]");
	/* slurmctld would refuse this script, but sbatch let it pass: slurmctld only warns, unless sbatch
	 * has already given the reason */
	static const char script[] =
	    "#!/bin/sh\ntorchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 "
	    "--ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings "
	    "4096 "
	    "--position-embedding-type rope --swiglu --normalization RMSNorm --vocab-size 32000 "
	    "--untie-embeddings-and-output-weights --disable-bias-linear --bf16 --hidden-dropout 0 "
	    "--micro-batch-size 1 --global-batch-size 64\n";
	static const char *const before[] = {idle, "would-refuse\tP4D012,P4D118\tx\ty\tscript"};
	for (size_t i = 0; i < 2; i++) {
		desc = job_plain("h100");
		fakehost_set(&desc->script, script);
		fakehost_spank_env(desc, "P4D_VERDICT", before[i]);
		hosted_expect(desc, true, i ? "" : "[P4D012]");
	}
	/* a note that options contradict variables, which only sbatch saw, refuses the job */
	desc = job_plain("h100");
	fakehost_set(&desc->script, script);
	fakehost_spank_env(desc, "P4D_VERDICT", "refuse\tP4D046\t--p4d-model=x is judged, but\t\tscript");
	hosted_expect(desc, false, "P4D046");
	/* if the partition requires a message, sbatch's note about the training in the script is enough */
	static const struct {
		const char *note;
		bool accepted;
	} required[] = {{idle, true},
			{"not-judged\tP4D117\tx\t\tscript", false},
			{"refuse\tP4D043\tx\t\tscript", false},
			{"would-refuse\tP4D043\tx\t\tscript", false},
			{"pass\t\t\t\t", false}};
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
		desc = job_plain("strict");
		fakehost_set(&desc->script, "#!/bin/sh\n. sizes.sh\n");
		fakehost_spank_env(desc, "P4D_VERDICT", required[i].note);
		hosted_expect(desc, required[i].accepted, required[i].accepted ? "" : "P4D043");
	}
}

/* A job whose script uses files that only sbatch sees, with sbatch's note. */
static job_desc_msg_t *script_noted(const char *note)
{
	job_desc_msg_t *desc = job_plain("h100");

	fakehost_set(&desc->script, "#!/bin/sh\n. sizes.sh\n");
	fakehost_spank_env(desc, "P4D_VERDICT", note);
	return desc;
}

/* If p4d.so is optional, sbatch submits a job although p4d.so refused its script. */
static void a_script_is_refused_if_sbatch_refused_it(void **state)
{
	static const char refused[] = "refuse\tP4D028\ttp=4 does not divide the 1 GPUs of a node\t\tscript";

	(void)state;
	hosted_expect(script_noted(refused), true, ""); /* scripts = advise */
	fakehost_forget();
	site_write("mode = enforce\nlog = all\nscripts = judge\npartition h100 {\n\tgpu = { \"h100-80gb\" }\n"
		   "\tgpus_per_node = 8\n}\nversion = 1\n");
	assert_true(hosted_logged("reloaded"));
	hosted_expect(script_noted(refused), false, "P4D028");
	hosted_expect(script_noted("would-refuse\tP4D028\tx\t\tscript"), true, "");
	hosted_expect(script_noted("not-judged\tP4D117\tx\t\tscript"), true, "");
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTED_TEST(nobody_writes_lines_of_the_log),
	    HOSTED_TEST(what_sbatch_decided_is_logged),
	    HOSTED_TEST(a_note_makes_nothing_milder),
	    HOSTED_TEST(a_script_is_refused_if_sbatch_refused_it),
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
