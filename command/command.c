/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "backtest/command_backtest.h"
#include "calibrate/command_calibrate.h"
#include "data/command_data.h"
#include "plot/command_plot.h"
#include "rehearse/command_rehearse.h"
#include "rehearse/nvidia_smi.h"
#include "report/report.h"
#include "usage/command_report.h"
#include "validate/command_validate.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "unknown"
#endif

static int run_help(const p4d_line *line, p4d_error *err);
static int run_completion(const p4d_line *line, p4d_error *err);

static const p4d_subcommand subcommands[] = {
    {"estimate", "MODEL [--gpu NAME] [--gpus N] [--tp N] [--svg FILE] ...",
     "predicts the memory of each GPU of a layout, stage by stage",
     P4D_TAKES_JOB | P4D_TAKES_SVG | P4D_TAKES_PAGE | P4D_TAKES_CONF | P4D_TAKES_JSON | P4D_TAKES_LENGTH, 0,
     p4d_command_estimate, NULL, NULL},
    {"check", "[--json] [--conf FILE] [--gpu NAME] [SBATCH OPTIONS] JOB.sh",
     "prints what sbatch would print for a job script, without submitting it",
     P4D_TAKES_CONF | P4D_TAKES_JSON, 0, NULL, p4d_command_check, p4d_check_options},
    {"backtest", "[--since DATE] [--conf FILE] [--user LIST] [--json|--csv] [--html FILE]",
     "compares p4d's verdicts with how jobs ended",
     P4D_TAKES_HISTORY | P4D_TAKES_PAGE | P4D_TAKES_CONF | P4D_TAKES_JSON, 0, p4d_command_backtest, NULL,
     NULL},
    {"data", "[OPTIONS] -o PREFIX FILE...",
     "converts text files to training data for p4d-train and Megatron-LM", 0, 0, NULL, p4d_command_data,
     p4d_data_options},
    {"export", "[OPTIONS] CHECKPOINT DIR",
     "writes the weights of a p4d-train checkpoint in the format of transformers or PEFT", 0, 0, NULL,
     p4d_command_export, p4d_export_options},
    {"plan", "MODEL [--gpu NAME] [--gpus N] ...",
     "prints the layouts that fit, best first, with options to paste",
     P4D_TAKES_JOB | P4D_TAKES_TOP | P4D_TAKES_PLACES | P4D_TAKES_PAGE | P4D_TAKES_CONF | P4D_TAKES_JSON, 0,
     p4d_command_plan, NULL, NULL},
    {"plot", "[--svg FILE] LOG.jsonl...",
     "draws loss, speed and memory of runs of p4d-train next to each other", P4D_TAKES_SVG, 8,
     p4d_command_plot, NULL, NULL},
    {"read", "[--json] JOB.sh [ARGS]",
     "prints what a job script says about its training, with the line of each value", 0, 0, NULL,
     p4d_command_read, p4d_read_options},
    {"rehearse", "[--gpu NAME] [--ranks LIST] [--json] [SBATCH OPTIONS] JOB.sh [ARGS] | -- PROGRAM [ARGS]",
     "measures the memory of a training program by running it on simulated GPUs", 0, 0, NULL,
     p4d_command_rehearse, p4d_rehearse_help},
    {"simulate", "MODEL [--gpu NAME] [--pp N] [--schedule NAME] [--svg FILE] ...",
     "simulates a step of a layout's pipeline: time, bubble, micro-batches in flight",
     P4D_TAKES_JOB | P4D_TAKES_SVG | P4D_TAKES_TRACE | P4D_TAKES_CONF | P4D_TAKES_JSON, 0,
     p4d_command_simulate, NULL, NULL},
    {"job", "", "prints the path of a job script that runs p4d-train: sbatch ... $(p4d job)", 0, 0,
     p4d_command_job, NULL, NULL},
    {"conf", "[FILE]", "checks a p4d.conf and prints the policy of every partition, or of a job",
     P4D_TAKES_CONF | P4D_TAKES_JSON | P4D_TAKES_POLICY, 1, p4d_command_conf, NULL, NULL},
    {"validate", "FILE.csv", "compares p4d's predictions with measured runs", P4D_TAKES_JSON, 1,
     p4d_command_validate, NULL, NULL},
    {"report", "[--since DATE] [--rows FILE] [--json] | [--note] JOBID...",
     "prints p4d's verdicts on jobs that have ended, and the memory that they used", 0, 0, NULL,
     p4d_command_report, p4d_report_options},
    {"calibrate", "[-o FILE] [--share FILE] ROWS.csv",
     "computes margins for p4d.conf from measured jobs of the site", 0, 0, NULL, p4d_command_calibrate,
     p4d_calibrate_options},
    {"models", "[PATTERN]", "lists the models that p4d knows by name", P4D_TAKES_CONF | P4D_TAKES_JSON, 1,
     p4d_command_models, NULL, NULL},
    {"gpus", "[PATTERN]", "lists the GPUs that p4d knows, with their memory", P4D_TAKES_CONF | P4D_TAKES_JSON,
     1, p4d_command_gpus, NULL, NULL},
    {"explain", "[CODE]", "explains a code such as P4D012, or lists all codes", 0, 1, p4d_command_explain,
     NULL, NULL},
    {"dump-features", "", "prints versions and features of this build, one `key: value` per line", 0, 0,
     p4d_command_dump_features, NULL, NULL},
    {"completion", "bash|zsh|fish", "prints completions for a shell: . <(p4d completion bash)", 0, 1,
     run_completion, NULL, NULL},
    {"help", "[COMMAND [--all] | HEADING]",
     "prints this list, the options of a command, or the options under a heading such as memory",
     P4D_TAKES_HELP, 1, run_help, NULL, NULL},
};

enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

static int run_completion(const p4d_line *line, p4d_error *err)
{
	return p4d_command_completion(line->operands ? line->operand[0] : NULL, subcommands, SUBCOMMANDS,
				      err);
}

static const p4d_subcommand *find(const char *name)
{
	for (size_t i = 0; i < SUBCOMMANDS; i++)
		if (!strcmp(subcommands[i].name, name))
			return &subcommands[i];
	return NULL;
}

/* Words that people type first, with the right command of p4d. %s is replaced by the words that follow. */
static const struct {
	const char *word, *right;
} words[] = {
    {"serve", "p4d estimate %s --workload serve"},
    {"vllm", "p4d estimate %s --workload serve"},
    {"list", "p4d models"},
    {"ls", "p4d models"},
    {"codes", "p4d explain"},
    {"errors", "p4d explain"},
    {"train", "p4d-train --help"},
    {"run", "p4d rehearse JOB.sh"},
    {"submit", "p4d check JOB.sh"},
    {"fit", "p4d estimate %s"},
    {"memory", "p4d estimate %s"},
    {"--json", "p4d COMMAND --json"},
};

/* Endings of file names, and the command for such a file. */
static const struct {
	const char *end, *command;
} files[] = {
    {".sh", "p4d check"},      {".sbatch", "p4d check"},
    {".slurm", "p4d check"},   {".py", "p4d rehearse -- python"},
    {".json", "p4d estimate"},
};

/* Guesses the command from an unknown word: a file, a model, or a word of another program. */
static bool guess_command(const char *name, const char *rest, p4d_error *err)
{
	p4d_request request = {0};
	p4d_error unknown;
	p4d_preset preset;
	const size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].word, name)) {
			const char *hole = strstr(words[i].right, "%s");
			const int before = hole ? (int)(hole - words[i].right) : (int)strlen(words[i].right);
			p4d_fix(err, "%.*s%s%s", before, words[i].right,
				hole ? *rest ? rest : "MODEL --gpu NAME" : "", hole ? hole + 2 : "");
			return true;
		}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const size_t end = strlen(files[i].end);
		if (length > end && !strcmp(name + length - end, files[i].end)) {
			p4d_fix(err, "%s %.200s", files[i].command, name);
			return true;
		}
	}
	if (p4d_request_set_typed(&request, P4D_MODEL, name, &unknown) < 0 ||
	    p4d_model_resolve(&request, p4d_line_data_directory(), &preset, &unknown) < 0)
		return false;
	p4d_fix(err, "p4d estimate %.200s --gpu NAME", name);
	return true;
}

/* after: the words after `name`, up to a NULL. */
static int unknown_subcommand(const char *name, char *const after[], p4d_error *err)
{
	p4d_suggest alike = {.wanted = name};
	char typed[300] = "";
	p4d_text rest = p4d_text_in(typed, sizeof(typed));

	for (; after && *after; after++)
		p4d_text_entry(&rest, " ", "%s", *after);
	p4d_fail(err, P4D_E_USAGE, "unknown command \"%.64s\"", name);
	if (guess_command(name, typed, err))
		return -1;
	for (size_t i = 0; i < SUBCOMMANDS; i++)
		p4d_suggest_offer(&alike, subcommands[i].name);
	p4d_fail(err, P4D_E_USAGE, "unknown command \"%.64s\"%s", name, p4d_suggest_text(&alike));
	/* suggests a command that shares more than half of the word's letters */
	return 2 * alike.shared > strlen(name)
		   ? p4d_fix(err, "p4d %s%s%s", alike.name[0], *typed ? " " : "", typed)
		   : p4d_fix(err, "p4d help");
}

static void print_overview(void)
{
	puts("p4d predicts how much GPU memory a training job needs, before the job is submitted.\n");
	for (size_t i = 0; i < SUBCOMMANDS; i++)
		printf("  p4d %-14s %s\n", subcommands[i].name, subcommands[i].help);
	puts("  p4d --version\n\n"
	     "For example\n\n"
	     "  p4d estimate llama2-13b --gpu h100 --tp 8\n"
	     "  p4d estimate meta-llama/Llama-3.1-8B --gpu rtx4090 --finetune qlora --seq-len 4k\n"
	     "  p4d estimate Qwen/Qwen3-8B --gpu l40s --workload serve\n"
	     "  p4d plan llama3-70b --gpu h100 --gpus 64\n"
	     "  p4d check --gpu h100 job.sh\n\n"
	     "Options of a command: p4d help COMMAND. Manuals: p4d(1), p4d-options(7).");
}

static int run_help(const p4d_line *line, p4d_error *err)
{
	if (!line->operands) {
		print_overview();
		return 0;
	}
	if (p4d_line_help_heading(line->operand[0], find("estimate")))
		return 0;
	const p4d_subcommand *command = find(line->operand[0]);
	if (!command)
		return unknown_subcommand(line->operand[0], NULL, err);
	p4d_line_help(command, line->all);
	return 0;
}

static int run(int argc, char *argv[], p4d_error *err)
{
	p4d_line line = {0};

	if (argc < 2) {
		print_overview();
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
		puts("p4d " PACKAGE_VERSION);
		return 0;
	}
	const bool asks_help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
	const p4d_subcommand *command = find(asks_help ? "help" : argv[1]);
	if (!command)
		return unknown_subcommand(argv[1], argv + 2, err);
	if (command->run_raw)
		return command->run_raw(command, argc - 1, argv + 1, err);
	if (p4d_line_parse(&line, command, argc - 1, argv + 1, err) < 0)
		return -1;
	if (line.help) {
		p4d_line_help(command, line.all);
		return 0;
	}
	int status = command->run(&line, err);
	if (status < 0) {
		p4d_request_without_prefix(err->text);
		p4d_request_without_prefix(err->fix);
	}
	return status;
}

/*
 * Whether the command line has --json. Errors must be JSON even if the command line could not be read to its
 * end.
 */
static bool wants_json(int argc, char *argv[])
{
	for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--json"))
			return true;
	return false;
}

/* Flushes standard output. An error such as a full disk or a closed pipe may appear only when the last
 * buffer is written. */
static int finish_output(int status)
{
	bool failed = ferror(stdout);

	errno = 0;
	if (fclose(stdout) == 0 && !failed)
		return status;
	fprintf(stderr, "p4d: [P4D%03d] output is incomplete: %s\n", P4D_E_IO,
		errno ? strerror(errno) : "it could not be written");
	return status ? status : P4D_E_IO;
}

int main(int argc, char *argv[])
{
	p4d_error err = {P4D_OK, "", ""};
	int status;

	if (p4d_shell_launch_is(argc, argv, &status) || p4d_nvidia_smi_is(argc, argv, &status))
		return status;
	status = run(argc, argv, &err);

	if (status < 0) {
		if (wants_json(argc, argv))
			p4d_report_json_print(p4d_report_json_error(&err), NULL);
		else
			p4d_report_error(&err);
		status = (int)err.code;
	}
	p4d_live_cluster_free();
	return finish_output(status);
}
