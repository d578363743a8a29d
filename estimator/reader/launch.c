/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that start other commands: srun, torchrun, python -m ..., containers. */
#include <ctype.h>
#include <string.h>

#include "reader/reader_internal.h"

typedef struct launcher {
	const char *name, *subcommand; /* subcommand: of accelerate launch; NULL none */
	const char *switches;          /* long options without a value, each between blanks */
	const char *short_switches;
	unsigned operands; /* behind the options, before the command */
	enum { COMMAND, PYTHON, SHELL } starts;
	const char *prefix; /* of its options, which say something about the training; NULL: they do not */
} launcher;

static const char torchrun_switches[] = " standalone no-python module use-env run-path no_python use_env ";

static const launcher launchers[] = {
    {"srun", NULL,
     " exclusive overlap unbuffered label pty quiet verbose no-kill disable-status interactive "
     "kill-on-bad-exit "
     "contiguous spread-job use-min-nodes overcommit oversubscribe preserve-env multi-prog hold reboot "
     "container-mount-home no-container-mount-home container-remap-root no-container-remap-root "
     "container-writable no-container-writable no-container-entrypoint container-entrypoint "
     "no-container-remap-root ",
     "lsuOQvkqXZEHK", 0, COMMAND, NULL},
    {"mpirun", NULL, " allow-run-as-root oversubscribe report-bindings bind-to-core tag-output display-map ",
     "vq", 0, COMMAND, NULL},
    {"mpiexec", NULL, " allow-run-as-root oversubscribe ", "vq", 0, COMMAND, NULL},
    {"torchrun", NULL, torchrun_switches, "", 0, PYTHON, NULL},
    {"torch.distributed.run", NULL, torchrun_switches, "", 0, PYTHON, NULL},
    {"torch.distributed.launch", NULL, torchrun_switches, "", 0, PYTHON, NULL},
    {"accelerate", "launch",
     " multi_gpu use_fsdp use_deepspeed use_megatron_lm same_network cpu tpu quiet no_python module debug "
     "dynamo_use_fullgraph dynamo_use_dynamic multi-gpu use-fsdp use-deepspeed ",
     "qm", 0, PYTHON, "--accelerate."},
    {"accelerate-launch", NULL,
     " multi_gpu use_fsdp use_deepspeed same_network cpu quiet no_python module debug ", "qm", 0, PYTHON,
     "--accelerate."},
    {"deepspeed", NULL,
     " module no_python no_local_rank force_multi no_ssh no_ssh_check save_pid enable_each_rank_log "
     "bind_cores_to_rank elastic_training ",
     "", 0, PYTHON, NULL},
    {"tune", "run", torchrun_switches, "", 0, COMMAND, NULL},
    {"python", NULL, " version help ", "uOBEIsSvq", 0, PYTHON, NULL},
    {"python3", NULL, " version help ", "uOBEIsSvq", 0, PYTHON, NULL},
    {"bash", NULL, " login norc noprofile posix ", "lexuin", 0, SHELL, NULL},
    {"sh", NULL, "", "exul", 0, SHELL, NULL},
    {"env", NULL, " ignore-environment ", "i0v", 0, COMMAND, NULL},
    {"nohup", NULL, "", "", 0, COMMAND, NULL},
    {"exec", NULL, "", "cl", 0, COMMAND, NULL},
    {"command", NULL, "", "p", 0, COMMAND, NULL},
    {"time", NULL, " portability ", "p", 0, COMMAND, NULL},
    {"sudo", NULL, " preserve-env non-interactive ", "EnHS", 0, COMMAND, NULL},
    {"nice", NULL, "", "", 0, COMMAND, NULL},
    {"stdbuf", NULL, "", "", 0, COMMAND, NULL},
    {"timeout", NULL, " foreground preserve-status verbose ", "v", 1, COMMAND, NULL},
    {"taskset", NULL, " cpu-list all-tasks ", "ac", 1, COMMAND, NULL},
    {"numactl", NULL, " localalloc show hardware ", "lsH", 0, COMMAND, NULL},
    {"nsys", "profile", "", "", 0, COMMAND, NULL},
    {"apptainer", "exec",
     " nv rocm cleanenv contain containall no-home writable writable-tmpfs fakeroot no-mount ", "ceC", 1,
     COMMAND, NULL},
    {"singularity", "exec", " nv rocm cleanenv contain containall no-home writable writable-tmpfs fakeroot ",
     "ceC", 1, COMMAND, NULL},
    {"apptainer", "run", " nv rocm cleanenv contain containall no-home writable-tmpfs ", "ceC", 1, COMMAND,
     NULL},
    {"singularity", "run", " nv rocm cleanenv contain containall no-home writable-tmpfs ", "ceC", 1, COMMAND,
     NULL},
    {"docker", "run", " rm interactive tty detach privileged init ", "itd", 1, COMMAND, NULL},
    {"uv", "run", " active frozen no-sync isolated locked ", "", 0, COMMAND, NULL},
    {"poetry", "run", "", "", 0, COMMAND, NULL},
    {"pipenv", "run", "", "", 0, COMMAND, NULL},
    {"conda", "run", " no-capture-output live-stream ", "", 0, COMMAND, NULL},
    {"micromamba", "run", "", "", 0, COMMAND, NULL},
};

/* What is behind the last slash. */
static p4d_value last_part(p4d_value path)
{
	for (uint32_t i = path.length; i; i--)
		if (!path.at[i - 1].unknown && path.at[i - 1].c == '/')
			return (p4d_value){path.at + i, path.length - i};
	return path;
}

/* Also python3.11. */
static bool is_program(p4d_value word, const char *name)
{
	p4d_value last = last_part(word);
	uint32_t length = (uint32_t)strlen(name);

	if (!strcmp(name, "python3") && last.length > length && last.at[length].c == '.')
		last.length = length;
	return p4d_value_is(last, name);
}

static bool ends_with(p4d_value word, const char *text)
{
	uint32_t length = (uint32_t)strlen(text);

	return word.length > length &&
	       p4d_value_is((p4d_value){word.at + word.length - length, length}, text);
}

/* NAME=VALUE before a command. */
static bool is_assignment(p4d_value word)
{
	for (uint32_t i = 0; i < word.length && !word.at[i].unknown; i++) {
		if (word.at[i].c == '=')
			return i > 0;
		if (!isalnum((unsigned char)word.at[i].c) && word.at[i].c != '_')
			return false;
	}
	return false;
}

static bool is_switch(const launcher *l, const char *name)
{
	const char *at = *name ? strstr(l->switches, name) : NULL;
	const size_t length = strlen(name);

	for (; at; at = strstr(at + 1, name))
		if (at > l->switches && at[-1] == ' ' && at[length] == ' ')
			return true;
	return false;
}

/* What torchrun and others were told about the job: option and value. */
static void note(p4d_launch *launch, const launcher *l, p4d_value word, const char *name, p4d_value value)
{
	static const char *const nodes[] = {"nnodes", "num_nodes", "num_machines", "nodes"};
	static const char *const gpus[] = {"nproc_per_node", "num_gpus", "gpus_per_node"};
	char plain[32];
	size_t i = 0;

	for (; i < sizeof(plain) - 1 && name[i]; i++)
		plain[i] = name[i] == '-' ? '_' : name[i];
	plain[i] = '\0';
	if (l->prefix && launch->options < P4D_LAUNCH_OPTIONS)
		launch->option[launch->options++] = (p4d_launch_option){l->prefix, word, value};
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!strcmp(plain, nodes[i]))
			launch->nodes = value;
	for (i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++)
		if (!strcmp(plain, gpus[i]))
			launch->gpus_per_node = value;
}

/* Behind the options of a launcher. *module: it was told that a Python module follows, which is
 * words[result]. */
static size_t behind_options(const launcher *l, const p4d_value *words, size_t count, size_t at,
			     p4d_launch *launch, bool *module, bool *text)
{
	char name[64];

	while (at < count) {
		p4d_value w = words[at];
		if (!w.length || w.at[0].unknown || w.at[0].c != '-' || w.length == 1)
			break;
		uint32_t dashes = w.length > 1 && w.at[1].c == '-' ? 2 : 1, equals = dashes;
		if (dashes == 2 && w.length == 2)
			return at + 1;
		while (equals < w.length && (w.at[equals].unknown || w.at[equals].c != '='))
			equals++;
		const p4d_value word = {w.at + dashes, equals - dashes};
		p4d_value_text(word, name, sizeof(name));
		if (l->starts == PYTHON && (!strcmp(name, "m") || !strcmp(name, "module"))) {
			*module = true;
			return at + 1;
		}
		if (l->starts == SHELL && dashes == 1 && strchr(name, 'c')) {
			*text = true;
			return at + 1;
		}
		if (dashes == 1 && l->starts == PYTHON && !strcmp(name, "c"))
			return count; /* a program on the command line */
		if (equals < w.length) {
			note(launch, l, word, name, (p4d_value){w.at + equals + 1, w.length - equals - 1});
			at++;
		} else if (dashes == 2 ? is_switch(l, name)
				       : (strlen(name) > 1 || (*name && strchr(l->short_switches, *name)))) {
			note(launch, l, word, name, (p4d_value){0});
			at++;
		} else {
			if (at + 1 < count)
				note(launch, l, word, name, words[at + 1]);
			at += 2;
		}
	}
	return at < count ? at : count;
}

void p4d_reader__launch(const p4d_value *words, size_t count, p4d_launch *launch)
{
	size_t at = 0;

	*launch = (p4d_launch){.words = words, .count = count};

	for (bool again = true; again && at < count;) {
		again = false;
		if (is_assignment(words[at]) && at + 1 < count) {
			at++;
			again = true;
			continue;
		}
		for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && !again; i++) {
			const launcher *l = &launchers[i];
			bool module = false, text = false;
			if (!is_program(words[at], l->name))
				continue;
			if (l->subcommand && (at + 1 >= count || !p4d_value_is(words[at + 1], l->subcommand)))
				continue;
			size_t next = behind_options(l, words, count, at + 1 + (l->subcommand != NULL),
						     launch, &module, &text);
			next += l->operands;
			if (next >= count) {
				launch->count = 0;
				return;
			}
			launch->shell_text = text;
			launch->shell_script = l->starts == SHELL && !text;
			at = next;
			again = !text && !launch->shell_script;
		}
	}
	launch->words = words + at;
	launch->count = count - at;
	if (launch->count && ends_with(launch->words[0], ".sh") && !launch->shell_text)
		launch->shell_script = true;
}
