/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that start other commands: srun, torchrun, python -m ..., containers. */
#include <ctype.h>
#include <string.h>

#include "reader/reader_internal.h"

typedef struct launcher {
	const char *name,
	    *subcommand;      /* subcommand that starts programs, as in accelerate launch; NULL: none */
	const char *switches; /* long options without a value, separated by blanks */
	const char *short_switches;
	unsigned operands; /* number of words between the options and the command */
	/* What the launcher starts. MPI: a command; its own long options have one dash. REMOTE: a command, or
	 * one word with shell commands. DASHES: the words after "--". EITHER: a command or, after -m, a
	 * Python module. */
	enum { COMMAND, MPI, PYTHON, SHELL, REMOTE, DASHES, EITHER } starts;
	const char *prefix; /* prefix of the launcher's options that affect the training; NULL: none do */
} launcher;

static const char torchrun_switches[] =
    " standalone no-python module use-env run-path virtual-local-rank no_python use_env "
    "run_path virtual_local_rank ";

static const char mpi_switches[] =
    " allow-run-as-root oversubscribe nooversubscribe nolocal report-bindings bind-to-core bind-to-socket "
    "bynode "
    "byslot tag-output timestamp-output display-map display-allocation merge-stderr-to-stdout "
    "use-hwthread-cpus enable-recovery verbose quiet genvall envall genvnone envnone ";

/* Programs that run a command in a container image, which has its own Python. */
static const char images[] = " apptainer singularity enroot sarus shifter podman podman-hpc docker ch-run ";

/* Options of MPI launchers that take two values. */
static const char mpi_pairs[] = " mca gmca omca pmixmca prtemca genv env ";

static const launcher launchers[] = {
    {"srun", NULL,
     " exclusive overlap unbuffered label pty quiet verbose no-kill disable-status interactive "
     "kill-on-bad-exit "
     "contiguous spread-job use-min-nodes overcommit oversubscribe preserve-env multi-prog hold reboot "
     "container-mount-home no-container-mount-home container-remap-root no-container-remap-root "
     "container-writable no-container-writable no-container-entrypoint container-entrypoint "
     "no-container-remap-root ",
     "lsuOQvkqXZEHK", 0, COMMAND, NULL},
    {"mpirun", NULL, mpi_switches, "vqV", 0, MPI, NULL},
    {"mpiexec", NULL, mpi_switches, "vqV", 0, MPI, NULL},
    {"mpiexec.hydra", NULL, mpi_switches, "v", 0, MPI, NULL},
    {"orterun", NULL, mpi_switches, "vqV", 0, MPI, NULL},
    {"horovodrun", NULL, " verbose disable-cache start-timeout ", "", 0, MPI, NULL},
    {"jsrun", NULL, " immediate stdio_mode ", "", 0, MPI, NULL},
    {"ibrun", NULL, "", "", 0, MPI, NULL},
    {"flux", "run", " exclusive verbose label-io ", "vxl", 0, COMMAND, NULL},
    {"flux", "start", " verbose ", "vx", 0, REMOTE, NULL},
    {"aprun", NULL, "", "bqR", 0, COMMAND, NULL},
    {"ch-run", NULL, " write no-home unset-env private-tmp ", "wt", 1, COMMAND, NULL},
    {"torchrun", NULL, torchrun_switches, "", 0, PYTHON, NULL},
    {"torch.distributed.run", NULL, torchrun_switches, "", 0, PYTHON, NULL},
    {"torch.distributed.launch", NULL, torchrun_switches, "", 0, PYTHON, NULL},
    {"accelerate", "launch",
     " multi_gpu use_fsdp use_deepspeed use_megatron_lm same_network cpu tpu quiet no_python module debug "
     "dynamo_use_fullgraph dynamo_use_dynamic multi-gpu use-fsdp use-deepspeed ",
     "qm", 0, PYTHON, "--accelerate."},
    {"accelerate.commands.launch", NULL,
     " multi_gpu use_fsdp use_deepspeed same_network cpu quiet no_python module debug ", "qm", 0, PYTHON,
     "--accelerate."},
    {"accelerate-launch", NULL,
     " multi_gpu use_fsdp use_deepspeed same_network cpu quiet no_python module debug ", "qm", 0, PYTHON,
     "--accelerate."},
    {"deepspeed", NULL,
     " module no_python no_local_rank force_multi no_ssh no_ssh_check save_pid enable_each_rank_log "
     "bind_cores_to_rank elastic_training ",
     "", 0, PYTHON, NULL},
    {"composer", NULL, " verbose module command_mode ", "vm", 0, PYTHON, NULL},
    {"tune", "run", torchrun_switches, "", 0, COMMAND, NULL},
    {"python", NULL, " version help ", "uOBEIsSvq", 0, PYTHON, NULL},
    {"python3", NULL, " version help ", "uOBEIsSvq", 0, PYTHON, NULL},
    {"bash", NULL, " login norc noprofile posix ", "lexuin", 0, SHELL, NULL},
    {"sh", NULL, "", "exul", 0, SHELL, NULL},
    {"ssh", NULL, "", "46AaCfGgKkMNnqsTtVvXxYy", 1, REMOTE, NULL},
    {"pdsh", NULL, "", "SNdhqb", 0, REMOTE, NULL},
    {"ray", "job", "", "", 0, DASHES, NULL},
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
    {"enroot", "start", " root rw ", "rw", 1, COMMAND, NULL},
    {"sarus", "run", " mpi ssh tty ", "t", 1, COMMAND, NULL},
    {"shifter", NULL, "", "", 0, COMMAND, NULL},
    {"podman", "run", " rm interactive tty detach privileged init gpu mpi nccl ", "itd", 1, COMMAND, NULL},
    {"podman-hpc", "run", " rm interactive tty detach privileged init gpu mpi nccl cvmfs ", "itd", 1, COMMAND,
     NULL},
    {"docker", "run", " rm interactive tty detach privileged init ", "itd", 1, COMMAND, NULL},
    {"setsid", NULL, " ctty fork wait ", "cfw", 0, COMMAND, NULL},
    {"ncu", NULL, "", "", 0, COMMAND, NULL},
    {"pixi", "run",
     " frozen locked as-is no-install no-lockfile-update force-activate clean-env quiet verbose ", "qv", 0,
     COMMAND, NULL},
    {"oumi", "distributed", "", "", 0, COMMAND, NULL},
    {"colossalai", "run", " ", "", 0, PYTHON, NULL},
    {"uv", "run",
     " active frozen no-sync isolated locked exact offline quiet verbose no-dev only-dev all-extras "
     "all-groups "
     "all-packages no-default-groups no-editable no-project no-config no-cache no-env-file no-progress ",
     "qvn", 0, EITHER, NULL},
    {"poetry", "run", "", "", 0, COMMAND, NULL},
    {"pdm", "run", " site-packages json no-env-file ", "sv", 0, COMMAND, NULL},
    {"hatch", "run", "", "", 0, COMMAND, NULL},
    {"rye", "run", "", "", 0, COMMAND, NULL},
    {"pipenv", "run", "", "", 0, COMMAND, NULL},
    {"conda", "run", " no-capture-output live-stream ", "", 0, COMMAND, NULL},
    {"mamba", "run", " no-capture-output live-stream ", "", 0, COMMAND, NULL},
    {"micromamba", "run", "", "", 0, COMMAND, NULL},
};
enum { LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]) };

/* The part of a path after its last slash. */
static p4d_value last_part(p4d_value path)
{
	for (uint32_t i = path.length; i; i--)
		if (!path.at[i - 1].unknown && path.at[i - 1].c == '/')
			return (p4d_value){path.at + i, path.length - i};
	return path;
}

/*
 * The first launcher with this name after `from`; NULL: none. last: the last part of a path. python3.11
 * counts as python.
 */
static const launcher *find_launcher(const launcher *from, p4d_value last)
{
	static const char python[] = "python3.";
	const uint32_t length = sizeof(python) - 1;

	if (!last.length || last.at[0].unknown)
		return NULL;
	if (last.length > length && p4d_value_is((p4d_value){last.at, length}, python))
		last.length = length - 1;
	for (; from < launchers + LAUNCHERS; from++)
		if (from->name[0] == last.at[0].c && p4d_value_is(last, from->name))
			return from;
	return NULL;
}

static bool ends_with(p4d_value word, const char *text)
{
	uint32_t length = (uint32_t)strlen(text);

	return word.length > length &&
	       p4d_value_is((p4d_value){word.at + word.length - length, length}, text);
}

/* Whether a word is NAME=VALUE, an assignment before a command. */
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

static bool is_among(const char *names, const char *name)
{
	const char *at = *name ? strstr(names, name) : NULL;
	const size_t length = strlen(name);

	for (; at; at = strstr(at + 1, name))
		if (at > names && at[-1] == ' ' && at[length] == ' ')
			return true;
	return false;
}

/* Stores an option of torchrun or a similar launcher, with its value. */
static void note(p4d_launch *launch, const launcher *l, p4d_value word, const char *name, p4d_value value)
{
	static const char *const nodes[] = {"nnodes", "num_nodes", "num_machines", "nodes"};
	static const char *const gpus[] = {"nproc_per_node", "num_gpus", "gpus_per_node", "nproc"};
	static const char of_step[] = " gpus gpus_per_node gpus_per_task gres ";
	char plain[32];
	size_t i = 0;

	for (; i < sizeof(plain) - 1 && name[i]; i++)
		plain[i] = name[i] == '-' ? '_' : name[i];
	plain[i] = '\0';
	p4d_reader__note_setting(launch, l->name, plain, value);
	if (!strcmp(l->name, "srun") && !strcmp(plain, "export"))
		launch->exports = value;
	if (!strcmp(l->name, "srun") && !strncmp(plain, "container", strlen("container")))
		launch->container = true;
	if (!strcmp(l->name, "srun") && name[0] == 'N') /* srun's -N, as in -N1 or -N 1 */
		launch->step_nodes = word.length > 1 ? (p4d_value){word.at + 1, word.length - 1} : value;
	if (!strcmp(l->name, "srun") && is_among(of_step, plain))
		launch->step_gpus = value;
	if (!strcmp(l->name, "srun") && name[0] == 'G') /* srun's -G, as in -G1 or -G 1 */
		launch->step_gpus = word.length > 1 ? (p4d_value){word.at + 1, word.length - 1} : value;
	if (!strcmp(l->name, "composer") && !strcmp(plain, "n"))
		launch->gpus_per_node = value;
	if (!strcmp(l->name, "deepspeed") && (!strcmp(plain, "include") || !strcmp(plain, "i")))
		launch->included = value;
	if (!strcmp(l->name, "deepspeed") && (!strcmp(plain, "exclude") || !strcmp(plain, "e")))
		launch->excluded = value;
	if (l->prefix && launch->options < P4D_LAUNCH_OPTIONS)
		launch->option[launch->options++] = (p4d_launch_option){l->prefix, word, value};
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!strcmp(plain, nodes[i]))
			launch->nodes = value;
	for (i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++)
		if (!strcmp(plain, gpus[i]) && (p4d_value_is(value, "gpu") || p4d_value_is(value, "auto")))
			launch->every_gpu = true; /* the value is torchrun's word for all GPUs of a node */
		else if (!strcmp(plain, gpus[i])) {
			launch->gpus_per_node = value;
			launch->gpus_option = word;
		}
}

/* Whether a word is a Python file or another launcher. Such a word must be the program, whatever precedes
 * it. */
static bool is_known_program(p4d_value word)
{
	return ends_with(word, ".py") || find_launcher(launchers, last_part(word));
}

static bool is_image(p4d_value word)
{
	return ends_with(word, ".sif") || ends_with(word, ".simg") || ends_with(word, ".sqsh");
}

/* Whether words[0], whose value is unknown, may be more options, or empty. */
static bool may_be_options(const launcher *l, const p4d_value *words, size_t count)
{
	const p4d_value last = last_part(words[0]);

	if (count < 2 || !words[0].at[0].unknown || words[0].at[0].quoted)
		return false;
	if (last.length && last.length < words[0].length && !p4d_value_unknown(last))
		return false; /* a path such as "$DIR/train.py" is no option */
	if (l->operands)
		return is_image(words[1]);
	return is_known_program(words[1]) || (words[1].length > 1 && words[1].at[0].c == '-');
}

/* Options of a shell: -c, -s, -euo pipefail, -eox pipefail, -O extglob. Returns the number of words they
 * occupy. */
static size_t shell_options(const char *letters, p4d_launch *launch, bool *text)
{
	size_t words = 1;

	for (; *letters; letters++) {
		*text = *text || *letters == 'c';
		launch->shell_input = launch->shell_input || *letters == 's';
		words += *letters == 'o' || *letters == 'O';
	}
	return words;
}

/* Whether a word cannot be the value of the unknown long option before it. That option must then be a
 * switch. */
static bool is_no_value(const launcher *l, p4d_value word)
{
	if (word.length < 2 || word.at[0].unknown)
		return false;
	if (word.at[0].c == '-')
		return word.at[1].c != '.' && !isdigit((unsigned char)word.at[1].c);
	return !l->operands && (ends_with(word, ".py") || ((l->starts == COMMAND || l->starts == MPI) &&
							   find_launcher(launchers, last_part(word))));
}

/* Skips the options of a launcher. *module: words[result] is a Python module, because an option says so. */
static size_t behind_options(const launcher *l, const p4d_value *words, size_t count, size_t at,
			     p4d_launch *launch, bool *module, bool *text)
{
	char name[64];

	while (at < count) {
		p4d_value w = words[at];
		if (w.length && may_be_options(l, words + at, count - at)) {
			at++;
			continue;
		}
		const bool plus =
		    l->starts == SHELL && w.length && w.at[0].c == '+'; /* an option such as bash +x */
		if (!w.length || w.at[0].unknown || (w.at[0].c != '-' && !plus) || w.length == 1)
			break;
		uint32_t dashes = w.length > 1 && w.at[1].c == '-' ? 2 : 1, equals = dashes;
		if (dashes == 2 && w.length == 2)
			return at + 1;
		while (equals < w.length && (w.at[equals].unknown || w.at[equals].c != '='))
			equals++;
		const p4d_value word = {w.at + dashes, equals - dashes};
		p4d_value_text(word, name, sizeof(name));
		const bool is_long = dashes == 2 || (l->starts == MPI && strlen(name) > 1);
		if ((l->starts == PYTHON || l->starts == EITHER) &&
		    (!strcmp(name, "m") || !strcmp(name, "module"))) {
			*module = true;
			return at + 1;
		}
		if (l->starts == SHELL && dashes == 1) {
			at += shell_options(name, launch, text);
			continue;
		}
		if (dashes == 1 && l->starts == PYTHON && !strcmp(name, "c"))
			return count; /* python -c has its program on the command line */
		if (equals < w.length) {
			note(launch, l, word, name, (p4d_value){w.at + equals + 1, w.length - equals - 1});
			at++;
		} else if (is_long
			       ? is_among(l->switches, name) ||
				     (at + 1 < count && !(l->starts == MPI && is_among(mpi_pairs, name)) &&
				      is_no_value(l, words[at + 1]))
			       : (strlen(name) > 1 || (*name && strchr(l->short_switches, *name)))) {
			note(launch, l, word, name, (p4d_value){0});
			at++;
		} else {
			if (at + 1 < count)
				note(launch, l, word, name, words[at + 1]);
			at += l->starts == MPI && is_among(mpi_pairs, name) ? 3 : 2;
		}
	}
	return at < count ? at : count;
}

static size_t behind_dashes(const p4d_value *words, size_t count, size_t at)
{
	while (at < count && !p4d_value_is(words[at], "--"))
		at++;
	return at + (at < count);
}

/* Skips a word with an unknown value, such as "$LAUNCHER" or "$PYTHON", if a known program follows it. */
static size_t behind_unknown(const p4d_value *words, size_t count, size_t at)
{
	const p4d_value last = last_part(words[at]);
	bool plain = true; /* no option has come so far */

	if (at + 1 >= count || !last.length || !p4d_value_unknown(last))
		return at;
	for (size_t i = at + 1; i < count; i++) {
		const bool option = words[i].length && words[i].at[0].c == '-';
		if (is_known_program(words[i]) || (plain && !option))
			return i;
		if (p4d_value_is(words[i], "-m") && i + 1 < count)
			return i + 1;
		plain = plain && !option;
	}
	return at;
}

/* Whether words[at] starts one rank per GPU, and a Python program follows it. */
static bool starts_ranks(const p4d_value *words, size_t count, size_t at)
{
	const launcher *l = find_launcher(launchers, last_part(words[at]));

	if (!l || l->starts != PYTHON || !strncmp(l->name, "python", strlen("python")) ||
	    (l->subcommand && (at + 1 >= count || !p4d_value_is(words[at + 1], l->subcommand))))
		return false;
	for (size_t i = at + 1; i < count; i++)
		if (ends_with(words[i], ".py") || p4d_value_is(words[i], "-m") ||
		    p4d_value_is(words[i], "--module"))
			return true;
	return false;
}

/* Skips a command that p4d does not know and its options, as in `wrapper -v run torchrun train.py`. */
static size_t behind_wrapper(const p4d_value *words, size_t count, size_t at)
{
	if (!words[at].length || p4d_value_unknown(words[at]) || words[at].at[0].c == '-' ||
	    ends_with(words[at], ".py") || ends_with(words[at], ".sh"))
		return at;
	for (size_t i = at + 1; i < count; i++)
		/* after an option, the word may be the option's value: --launcher torchrun */
		if (words[i - 1].length && words[i - 1].at[0].c != '-' && starts_ranks(words, count, i))
			return i;
	return at;
}

void p4d_reader__launch(const p4d_value *words, size_t count, p4d_launch *launch)
{
	bool oumi = false;
	size_t at = 0;

	*launch = (p4d_launch){.words = words, .count = count};

	for (bool again = true; again && at < count;) {
		const size_t known = behind_unknown(words, count, at);
		again = known != at;
		at = known;
		if (again)
			continue;
		if (is_assignment(words[at]) && at + 1 < count) {
			p4d_reader__note_setting(launch, "env", NULL, words[at++]);
			again = true;
			continue;
		}
		const p4d_value last = last_part(words[at]);
		for (const launcher *l = launchers; (l = find_launcher(l, last)); l++) {
			bool module = false, text = false;
			if (l->subcommand && (at + 1 >= count || !p4d_value_is(words[at + 1], l->subcommand)))
				continue;
			size_t next = at + 1 + (l->subcommand != NULL);
			if (l->starts == DASHES)
				next = behind_dashes(words, count, next);
			else
				next = behind_options(l, words, count, next, launch, &module, &text) +
				       l->operands;
			/* an option after the image belongs to the program that the image starts */
			const bool of_image = l->operands && is_among(images, l->name) && next < count &&
					      words[next].length && words[next].at[0].c == '-';
			next -= of_image;
			text = text || (l->starts == REMOTE && next + 1 == count);
			if (launch->launchers < P4D_LAUNCHERS)
				launch->launcher[launch->launchers++] = (p4d_launcher){
				    l->name, l->subcommand, at, next, module, l->starts == SHELL};
			if (l->starts == SHELL && !text && (next >= count || launch->shell_input)) {
				launch->shell_input = true;
				launch->words = words + (next < count ? next : count);
				launch->count = count - (next < count ? next : count);
				return;
			}
			if (next >= count) {
				launch->count = 0;
				return;
			}
			launch->accelerates = launch->accelerates || l->prefix;
			launch->starts_ranks =
			    launch->starts_ranks || l->switches == torchrun_switches ||
			    (l->starts == PYTHON && strncmp(l->name, "python", strlen("python")) != 0);
			/* oumi passes the job's nodes to torchrun */
			launch->torchrun = launch->torchrun || (l->switches == torchrun_switches && !oumi);
			oumi = oumi || !strcmp(l->name, "oumi");
			launch->python = launch->python || l->starts == PYTHON;
			launch->container = launch->container || is_among(images, l->name);
			launch->every_gpu = launch->every_gpu || l->prefix || !strcmp(l->name, "deepspeed");
			launch->shell_text = text;
			launch->shell_script = l->starts == SHELL && !text;
			at = next;
			again = !text && !launch->shell_script && !of_image;
			break;
		}
		if (!again && !launch->shell_text && !launch->shell_script) {
			const size_t inner = behind_wrapper(words, count, at);
			again = inner != at;
			at = inner;
		}
	}
	launch->words = words + at;
	launch->count = count - at;
	if (launch->count && ends_with(launch->words[0], ".sh") && !launch->shell_text)
		launch->shell_script = true;
}

void p4d_reader_launchers(p4d_launchers *to, const p4d_value *words, size_t count)
{
	p4d_launch launch;

	p4d_reader__launch(words, count, &launch);
	*to = (p4d_launchers){
	    .count = launch.launchers,
	    .program = launch.count ? (size_t)(launch.words - words) : count,
	    .shell = launch.shell_script || launch.shell_text || launch.shell_input,
	    .container = launch.container,
	};
	memcpy(to->at, launch.launcher, sizeof(to->at));
}
