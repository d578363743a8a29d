/* SPDX-License-Identifier: Apache-2.0 */
/* The Python environment that runs a program: its release of transformers, and the folder of its files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/reader_internal.h"

enum { FIRST_MINOR = 9, LAST_MINOR = 14, BEGINNING = 16 << 10, FIRST_RELEASE = 3, LAST_RELEASE = 99 };

/* Finds DIRECTORY in the path DIRECTORY/bin/NAME. False: the path has another form. */
static bool in_bin(const char *path, const char *name, char *directory, size_t size)
{
	const size_t length = strlen(path), tail = strlen("/bin/") + strlen(name);

	if (length <= tail || length - tail >= size || strcmp(path + length - strlen(name), name) != 0 ||
	    memcmp(path + length - tail, "/bin/", 5) != 0)
		return false;
	snprintf(directory, size, "%.*s", (int)(length - tail), path);
	return true;
}

static void take_directory(p4d_read_python *python, const char *directory)
{
	python->pinned.major = 0; /* the script may have installed that release into another environment */
	if (*python->directory && strcmp(python->directory, directory) != 0)
		python->unknown = true; /* the command has words that p4d does not know and that may select
					   the environment */
	snprintf(python->directory, sizeof(python->directory), "%s", directory);
}

/* Notes that programs after this command may use another environment, or none. */
static void leave_directory(p4d_read_python *python)
{
	python->pinned.major = 0;
	python->left = python->left || *python->directory;
}

void p4d_reader__python_file(p4d_read_python *python, const char *path, const char *text, size_t length)
{
	static const char sets[] = "VIRTUAL_ENV=";
	char directory[sizeof(python->directory)];

	if (!in_bin(path, "activate", directory, sizeof(directory)))
		return;
	take_directory(python, directory);
	python->sets = text && memmem(text, length, sets, strlen(sets));
}

void p4d_reader__python_unread(p4d_read_python *python, const char *path)
{
	char directory[sizeof(python->directory)];

	if (!in_bin(path, "activate", directory, sizeof(directory)) ||
	    strcmp(directory, python->directory) != 0)
		leave_directory(python);
}

static bool is_among(p4d_value word, const char *const *names)
{
	while (*names && !p4d_value_is(word, *names))
		names++;
	return *names;
}

void p4d_reader__python_command(p4d_read_python *python, const p4d_value *words, size_t count)
{
	static const char *const others[] = {"conda", "mamba", "micromamba", "module",
					     "ml",    "spack", "deactivate"};
	static const char *const asks[] = {"avail", "clean", "config", "create", "help",   "info", "list",
					   "show",  "shell", "search", "spider", "whatis", NULL};
	enum { CONDAS = 3, OTHERS = sizeof(others) / sizeof(*others) };
	char path[sizeof(python->directory)];
	size_t which = 0;

	while (count && which < OTHERS && !p4d_value_is(words[0], others[which]))
		which++;
	if (!count || which == OTHERS)
		return;
	python->changed = true; /* the environment that is active when the user types sbatch may not be the
				   one that the job uses */
	if (count > 1 && is_among(words[1], asks))
		return;
	if (count < 3 || which >= CONDAS || !p4d_value_is(words[1], "activate")) {
		leave_directory(python);
		return;
	}
	if (words[2].length < sizeof(path) && !p4d_value_unknown(words[2]) &&
	    *p4d_value_text(words[2], path, sizeof(path)) == '/') {
		take_directory(python, path);
		python->sets = false;
	} else {
		leave_directory(python);
		python->unknown = true;
	}
}

/* A command that installs packages: the words after its name, and what p4d found in them. */
typedef struct installation {
	const p4d_value *words;
	size_t count;
	char directory[256]; /* environment of a pip with a path, as in /opt/venv/bin/pip; "": the active
				environment */
	bool plain;          /* the command has a requirement whose release p4d knows */
	bool adds;
	bool harms; /* the command may change the release of transformers */
} installation;

/*
 * The last part of a program's path, if it is the name of an installer; stores the environment's directory.
 * NULL: another name.
 */
static const char *installer(installation *in, p4d_value program)
{
	static const char *const names[] = {"pip",    "pip3", "python",   "python3", "uv",           "poetry",
					    "pipenv", "pdm",  "pip-sync", "pixi",    "easy_install", "rye"};
	char path[256];

	if (program.length >= sizeof(path))
		return NULL;
	const char *slash = strrchr(p4d_value_text(program, path, sizeof(path)), '/');
	const char *const name = slash ? slash + 1 : path;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		/* python3.11 and pip3.11 may belong to another Python than the one that runs the training */
		const size_t length = strlen(names[i]);
		if (strncmp(name, names[i], length) != 0 ||
		    name[length + strspn(name + length, ".0123456789")])
			continue;
		if (name[length] && i + 1 < sizeof(names) / sizeof(*names) && !strcmp(name, names[i + 1]))
			continue;
		in->plain =
		    !name[length] && !p4d_value_unknown(program) &&
		    (!slash || (*path == '/' && in_bin(path, name, in->directory, sizeof(in->directory))));
		return names[i];
	}
	return NULL;
}

/* Whether a command installs something. */
static bool installs(installation *in, const p4d_value *words, size_t count)
{
	static const char *const verbs[] = {"install", "uninstall", "sync", NULL};
	static const char *const others[] = {"venv",    "cache",     "lock",   "python", "tool",  "self",
					     "version", "--version", "export", "tree",   "build", NULL};
	const char *const name = count ? installer(in, words[0]) : NULL;
	size_t at = 1;

	if (!name) { /* the installer may be unknown: $PIP install */
		for (at = 1; at < count && p4d_value_unknown(words[0]) && !in->harms; at++)
			in->harms = is_among(words[at], verbs);
		return in->harms;
	}
	if (!strncmp(name, "python", 6)) {
		while (at < count && !p4d_value_is(words[at], "-m"))
			at++;
		if (at + 1 >= count || !p4d_value_is(words[at + 1], "pip"))
			return false;
		at += 2;
	} else if (!strcmp(name, "uv") && count > 1 && p4d_value_is(words[1], "pip")) {
		at = 2;
	} else if (strcmp(name, "pip") != 0 && strcmp(name, "pip3") != 0) {
		in->harms = count > 1 && !is_among(words[1], others);
		return in->harms;
	}
	for (size_t i = at; i < count; i++)
		if (is_among(words[i], verbs)) {
			in->adds = p4d_value_is(words[i], "install");
			in->words = words + i + 1;
			in->count = count - i - 1;
			in->plain = in->plain && i == at;
			return true;
		}
	return false;
}

/*
 * The requirement's release of transformers: "==4.57.1", ">=4.50"; "": any; NULL: the requirement is for
 * another package.
 */
static const char *wanted_release(const char *requirement)
{
	static const char name[] = "transformers";
	const char *rest = requirement + strlen(name);

	if (strstr(requirement, "/transformers")) /* the requirement is a repository or a folder */
		return "";
	if (strncmp(requirement, name, strlen(name)) != 0 || (*rest && !strchr("[=<>!~@; ", *rest)))
		return NULL;
	if (*rest == '[')
		rest = strchr(rest, ']') ? strchr(rest, ']') + 1 : "";
	return rest;
}

/* Whether a package does not need transformers, so that installing it does not change the release. */
static bool is_apart(const char *requirement)
{
	static const char *const names[] = {
	    "accelerate",    "bitsandbytes",    "datasets",    "deepspeed",    "einops",       "evaluate",
	    "flash-attn",    "flash_attn",      "hydra-core",  "liger-kernel", "ninja",        "nltk",
	    "numpy",         "omegaconf",       "packaging",   "pandas",       "pip",          "protobuf",
	    "pyyaml",        "huggingface_hub", "rouge-score", "safetensors",  "scikit-learn", "scipy",
	    "sentencepiece", "setuptools",      "tensorboard", "tiktoken",     "tokenizers",   "torch",
	    "torchaudio",    "torchvision",     "tqdm",        "triton",       "wandb",        "wheel",
	    "xformers"};
	const size_t length = strcspn(requirement, "[=<>!~@; ");

	if (strchr(requirement, '@'))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == length && !memcmp(names[i], requirement, length))
			return true;
	return false;
}

/* Number of words of an option that changes neither the packages nor their place; 0: it may change them. */
static size_t plain_option(p4d_value word)
{
	static const char *const alone[] = {"-q",
					    "-qq",
					    "-U",
					    "-qU",
					    "-Uq",
					    "-v",
					    "-I",
					    "--quiet",
					    "--upgrade",
					    "--verbose",
					    "--pre",
					    "--no-cache-dir",
					    "--no-cache",
					    "--no-deps",
					    "--force-reinstall",
					    "--ignore-installed",
					    "--no-build-isolation",
					    "--disable-pip-version-check",
					    "--no-input",
					    "--no-index",
					    "--prefer-binary",
					    "--break-system-packages",
					    NULL};
	static const char *const valued[] = {
	    "-i",          "-f",        "--index-url",    "--extra-index-url", "--find-links",
	    "--timeout",   "--retries", "--progress-bar", "--trusted-host",    "--root-user-action",
	    "--cache-dir", NULL};
	char text[96];

	if (is_among(word, alone))
		return 1;
	if (is_among(word, valued))
		return 2;
	p4d_value_text(word, text, sizeof(text));
	for (size_t i = 2; valued[i]; i++)
		if (!strncmp(text, valued[i], strlen(valued[i])) && text[strlen(valued[i])] == '=')
			return 1;
	return 0;
}

/* The release that "==4.57.1" names; 0: uncertain, for instance because of an environment marker. */
static p4d_read_release exact_release(const char *wanted)
{
	p4d_read_release release = {.major = 0};
	char *end;

	if (strncmp(wanted, "==", 2) != 0 || wanted[2 + strspn(wanted + 2, "0123456789.abcdeoprstv*")])
		return release;
	release.major = strtoul(wanted + 2, &end, 10);
	release.minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	return release;
}

/* Reads the words of an installation. */
static p4d_read_release installed(installation *in, const p4d_shell *shell)
{
	p4d_read_release release = {.major = 0};
	char text[96];

	for (size_t i = 0; i < in->count; i++) {
		const char *const word = p4d_value_text(in->words[i], text, sizeof(text));
		const char *const wanted = wanted_release(word);
		p4d_read_given given = {.name = "transformers"};
		const size_t option = *word == '-' ? plain_option(in->words[i]) : 1;
		in->plain = in->plain && option && !p4d_value_unknown(in->words[i]);
		in->harms = in->harms || !option || (*word != '-' && (wanted || !is_apart(word)));
		i += option > 1;
		if (*word == '-' || !wanted)
			continue;
		release = exact_release(wanted);
		p4d_reader__place(shell, in->words[i], &given);
		release.place = (p4d_read_value){.file = given.file, .line = given.line};
	}
	return release;
}

bool p4d_reader__python_install(p4d_read_python *python, p4d_shell *shell, const p4d_value *words,
				size_t count, bool certain)
{
	installation in = {.count = 0};

	if (!installs(&in, words, count))
		return false;
	const p4d_read_release release = installed(&in, shell);
	if (!in.harms)
		return true;
	python->reinstalled = true;
	python->pinned = release;
	python->pinned_at = p4d_shell_commands(shell);
	snprintf(python->pinned_in, sizeof(python->pinned_in), "%s", in.directory);
	if (!certain || !in.plain || !in.adds)
		python->pinned.major = 0;
	return true;
}

void p4d_reader__python_otherwise(p4d_read_python *python, uint32_t since)
{
	if (python->pinned_at > since)
		python->pinned.major = 0;
}

/* The launcher's path, such as /opt/venv/bin/torchrun, also names an environment. */
static bool of_program(const p4d_launch *launch, const p4d_value *words, char *directory, size_t size)
{
	static const char *const names[] = {"python", "python3", "torchrun", "accelerate", "deepspeed"};
	char path[256];

	for (const p4d_value *word = words; word < launch->words; word++) {
		if (p4d_value_unknown(*word) || word->length >= sizeof(path) ||
		    *p4d_value_text(*word, path, sizeof(path)) != '/')
			continue;
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			if (in_bin(path, names[i], directory, size))
				return true;
	}
	return false;
}

/* The environment that was active when the user typed sbatch, if the job still uses it. */
static bool of_environment(p4d_shell *shell, const p4d_read_python *python, char *directory, size_t size)
{
	static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
	p4d_value value;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !python->changed; i++)
		if (p4d_shell_variable(shell, names[i], &value) && value.length && value.length < size &&
		    !p4d_value_unknown(value)) {
			p4d_value_text(value, directory, size);
			return true;
		}
	return false;
}

/* Finds `__version__ = "5.23.0"`: the release, and its line. */
static p4d_read_release release_of(const char *text, size_t length)
{
	static const char name[] = "\n__version__ = \"";
	p4d_read_release found = {.place.line = 2};
	char number[8] = "", *end;
	const char *at;

	length = length < BEGINNING ? length : BEGINNING;
	at = memmem(text, length, name, strlen(name));
	if (!at)
		return found;
	for (const char *c = text; c < at; c++)
		found.place.line += *c == '\n';
	at += strlen(name);
	const size_t rest = (size_t)(text + length - at);
	memcpy(number, at, rest < sizeof(number) ? rest : sizeof(number) - 1);
	found.major = strtoul(number, &end, 10);
	found.minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	return found;
}

static void put_release(p4d_reading *r, const p4d_read_release *release)
{
	const bool own = !strcmp(r->reader->framework, "trainer") || !strcmp(r->reader->framework, "trl");
	const bool ddp = p4d_reader__is(&r->value[P4D_FRAMEWORK], "ddp");

	p4d_reader__put(r, P4D_TRANSFORMERS, &release->place, "%lu.%lu", release->major, release->minor);
	/* Before release 5, transformers loads weights in fp32, unless the program names a type. Programs
	 * other than the Trainer and TRL name that of their precision. Only with DDP, parameters keep it. */
	if (ddp && !own && release->major < 5 && !p4d_reader__set(&r->value[P4D_PARAM_DTYPE]) &&
	    p4d_reader__is(&r->value[P4D_PRECISION], "bf16"))
		p4d_reader__put_default(r, P4D_PARAM_DTYPE, "bf16");
}

/* The directory of the environment that runs the program. False: unknown. */
static bool find_environment(p4d_shell *shell, const p4d_reader_host *host, const p4d_read_python *python,
			     const p4d_launch *launch, const p4d_value *words, char *directory, size_t size)
{
	if (!host->shell.file || launch->container)
		return false;
	if (of_program(launch, words, directory, size))
		return true;
	if (python->unknown)
		return false;
	if (*python->directory)
		return snprintf(directory, size, "%s", python->directory) > 0;
	return of_environment(shell, python, directory, size);
}

/* Whether a release that the script installs goes into the program's environment. */
static bool is_pinned(const p4d_read_python *python, const p4d_launch *launch, const p4d_value *words,
		      const char *directory)
{
	char own[sizeof(python->directory)];
	const char *const in = *python->pinned_in ? python->pinned_in : python->directory;

	if (of_program(launch, words, own, sizeof(own)))
		return !strcmp(in, own);
	return !*python->pinned_in || !strcmp(in, directory);
}

/*
 * Whether Python searches other folders for packages first, or the script has deactivated the virtual
 * environment.
 */
static bool is_elsewhere(p4d_shell *shell, const p4d_read_python *python, const p4d_launch *launch,
			 const p4d_value *words, bool of_program)
{
	static const char *const first[] = {"PYTHONPATH", "PYTHONHOME"};
	p4d_value value;
	char text[16];

	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++) {
		if (p4d_shell_exported(shell, first[i], &value) && value.length)
			return true;
		for (const p4d_value *word = words; word < launch->words;
		     word++) /* env sets it: env PYTHONPATH=src */
			if (!strncmp(p4d_value_text(*word, text, sizeof(text)), first[i], strlen(first[i])))
				return true;
	}
	return !of_program && python->sets && !p4d_shell_variable(shell, "VIRTUAL_ENV", &value);
}

bool p4d_reader__python_directory(p4d_shell *shell, const p4d_reader_host *host,
				  const p4d_read_python *python, const p4d_launch *launch,
				  const p4d_value *words, char *directory, size_t size)
{
	return find_environment(shell, host, python, launch, words, directory, size);
}

/*
 * The text of a file of a package in the environment; NULL: there is no such file. place: gets its path for
 * messages.
 */
static const char *package_file(p4d_shell *shell, const p4d_reader_host *host, const char *directory,
				const char *name, size_t *length, p4d_read_value *place)
{
	char path[sizeof(((p4d_read_python *)0)->directory) + 64];

	for (int minor = LAST_MINOR; minor >= FIRST_MINOR; minor--) {
		snprintf(path, sizeof(path), "%s/lib/python3.%d/site-packages/%s", directory, minor, name);
		const char *text = host->shell.file(host->shell.context, path, length);
		if (!text)
			continue;
		place->file = p4d_shell_keep(shell, path);
		return place->file ? text : NULL;
	}
	return NULL;
}

static p4d_read_release find_release(p4d_shell *shell, const p4d_reader_host *host, const char *directory)
{
	const p4d_read_release none = {.major = 0};
	p4d_read_value place = {.file = NULL};
	size_t length;
	const char *text = package_file(shell, host, directory, "transformers/__init__.py", &length, &place);

	if (!text)
		return none;
	p4d_read_release found = release_of(text, length);
	found.place.file = place.file;
	return found.major >= FIRST_RELEASE && found.major <= LAST_RELEASE ? found : none;
}

/* Whether programs of other directories in PATH precede those of the environment, as after `export
 * PATH=/opt/x/bin:$PATH`. */
static bool is_behind(p4d_shell *shell, const char *directory)
{
	char path[4096];
	const size_t length = strlen(directory);
	p4d_value value;

	if (!length || !p4d_shell_exported(shell, "PATH", &value))
		return false;
	p4d_value_text(value, path, sizeof(path));
	for (const char *at = path; (at = strstr(at, directory)); at += length)
		if ((at == path || at[-1] == ':') && !strncmp(at + length, "/bin", 4) &&
		    (at[length + 4] == ':' || !at[length + 4]))
			return at != path;
	return false;
}

/* The release of transformers that runs. directory: of the environment; "": unknown. */
static p4d_read_release running(p4d_shell *shell, const p4d_reader_host *host, const p4d_read_python *python,
				const p4d_launch *launch, const p4d_value *words, const char *directory)
{
	const p4d_read_release none = {.major = 0};
	char own[sizeof(python->directory)];
	const bool by_path = of_program(launch, words, own, sizeof(own));

	if (launch->container || is_elsewhere(shell, python, launch, words, by_path) ||
	    (!by_path && is_behind(shell, directory)))
		return none;
	if (python->reinstalled)
		return is_pinned(python, launch, words, directory) ? python->pinned : none;
	if (!*directory || (python->left && !by_path))
		return none;
	return find_release(shell, host, directory);
}

static void find_trl(p4d_reading *r, p4d_shell *shell, const p4d_reader_host *host, const char *directory)
{
	/* TRL has no file with its release, so p4d searches for sentences of its documentation, in this
	 * order */
	static const struct {
		const char *words;
		p4d_read_trl trl;
	} signs[] = {{"deprecated alias of `\"nll\"`", P4D_READ_TRL_FUSED},
		     {"defaults to `\"chunked_nll\"`", P4D_READ_TRL_CHUNKED},
		     {"`\"chunked_nll\"`", P4D_READ_TRL_OFFERS},
		     {"class SFTConfig", P4D_READ_TRL_LOGITS}};
	p4d_read_value place = {.file = NULL};
	size_t length = 0;
	const char *text = package_file(shell, host, directory, "trl/trainer/sft_config.py", &length, &place);

	length = length < BEGINNING ? length : BEGINNING;
	for (size_t i = 0; text && i < sizeof(signs) / sizeof(*signs); i++) {
		const char *at = memmem(text, length, signs[i].words, strlen(signs[i].words));
		if (!at)
			continue;
		place.line = 1;
		for (const char *c = text; c < at; c++)
			place.line += *c == '\n';
		r->reader->trl(r, signs[i].trl, &place);
		return;
	}
}

void p4d_reader__python_release(p4d_reading *r, p4d_shell *shell, const p4d_reader_host *host,
				const p4d_read_python *python, const p4d_launch *launch,
				const p4d_value *words)
{
	const bool fsdp = p4d_reader__is(&r->value[P4D_FRAMEWORK], "fsdp") && r->reader->released;
	p4d_read_release release = {.major = 0};
	char directory[sizeof(python->directory)] = "";

	if (!p4d_reader__is(&r->value[P4D_MODEL_CODE], "transformers"))
		return;
	const bool found = find_environment(shell, host, python, launch, words, directory, sizeof(directory));
	if (found && r->reader->trl)
		find_trl(r, shell, host, directory);
	release = running(shell, host, python, launch, words, found ? directory : "");
	if (fsdp)
		r->reader->released(r, &release);
	if (release.major >= FIRST_RELEASE && release.major <= LAST_RELEASE &&
	    release.minor < P4D_RELEASE_LAST)
		put_release(r, &release);
}
