/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree [--seed=N] [--first=N] [--count=N]
 *
 * Generates jobs, with options on the command line, in #SBATCH lines and in the environment at random, and
 * compares what sbatch does with each, held, with what `p4d check` says of it: the verdict, the codes and the
 * completed plan. Pastes the fix of what was refused. A job that is judged in two ways is made as small as it
 * can be, and printed. The number of a job and the seed say what it is. Works in the current folder, where
 * `hosts` is a list of nodes; sites keep plans with `admin_comment = plan`.
 */
#include <ctype.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slurm_compat.h"

enum {
	MAX_PIECES = 64,
	MAX_WORDS = 2 * MAX_PIECES + 16,
	MAX_WAYS = 40,
	COMPONENTS = 2,
	TEXT_MAX = 65536,
	PLAN_MAX = 8192
};

typedef enum place { TYPED, LINE, VARIABLE, BODY } place;

/* An option, as sbatch takes it from a place, or a line of the script behind its first command. */
typedef struct piece {
	place place;
	unsigned component;
	char text[200];
} piece;

typedef enum source { FROM_FILE, FROM_STDIN, FROM_WRAP } source;

typedef struct job {
	source source;
	unsigned components;
	bool typed_colon; /* components are separated on the command line, not by #SBATCH hetjob */
	unsigned pieces;
	piece piece[MAX_PIECES];
} job;

/* One aspect of a job: so many jobs of a hundred have it, in one of these ways. */
typedef struct aspect {
	unsigned percent;
	const char *ways[MAX_WAYS];
} aspect;

static const aspect slurm_aspects[] = {
    {93,
     {"--gpus-per-node=8",
      "--gpus-per-node=8",
      "--gpus-per-node=8",
      "--gres=gpu:8",
      "--gres=gpu:8",
      "--gres=gpu:4",
      "--gpus-per-node=4",
      "--gres=gpu:h100:8",
      "--gres=gpu:a100:4",
      "--gpus-per-node=h100:8",
      "--gpus-per-node=a100:8",
      "--gpus=8",
      "--gpus=16",
      "--gpus=h100:8",
      "--gpus=4",
      "--ntasks=8 --gpus-per-task=1",
      "--ntasks=4 --gpus-per-task=h100:2",
      "--ntasks=8 --tres-per-task=gres/gpu:1",
      "--gres=gpu:1",
      "--gres=gpu:3",
      "--gpus=8 --ntasks-per-gpu=1",
      "--gpus-per-socket=4 --sockets-per-node=2",
      "--gres=gpu",
      "--gpus-per-node=16",
      "--gres=gpu:8,gpu:h100:8",
      "--gpus=12",
      "--exclusive",
      "--gpus-per-node=8 --gpus=16",
      "--gres=gpu:nvidia_h100_80gb_hbm3:4",
      "--gpus-per-node=nvidia_h100_80gb_hbm3_3g.40gb:1",
      "--gpus=1g.10gb:1",
      "--gres=gpu:3g.40gb:2",
      "--gpus-per-node=0"}},
    {70,
     {"--nodes=1", "--nodes=1", "--nodes=1", "--nodes=2", "--nodes=2", "--nodes=1-2", "--nodes=4",
      "--nodes=2-2", "--nodes=3"}},
    {35,
     {"--ntasks-per-node=8", "--ntasks-per-node=8", "--ntasks=8", "--ntasks=16", "--ntasks=1",
      "--ntasks-per-node=1", "--ntasks=2", "--ntasks-per-node=4", "--ntasks=7"}},
    {15, {"--cpus-per-task=4", "--cpus-per-task=1", "--cpus-per-task=64", "--cpus-per-task=8"}},
    {8,
     {"--overcommit", "--cpus-per-gpu=16", "--ntasks-per-gpu=1", "--hint=nomultithread",
      "--threads-per-core=1", "--sockets-per-node=1", "--sockets-per-node=2", "--cores-per-socket=4",
      "--threads-per-core=2"}},
    {35,
     {"--mem=0", "--mem=0", "--mem=500G", "--mem=1500G", "--mem=64G", "--mem=200000", "--mem-per-gpu=60G",
      "--mem-per-gpu=0", "--mem-per-cpu=8G", "--mem-per-cpu=0", "--mem=1T", "--mem=100M", "--mem=500000K"}},
    {60,
     {"--partition=h100",      "--partition=h100",       "--partition=a100",           "--partition=a100",
      "--partition=mixed",     "--partition=mixed",      "--partition=strict",         "--partition=strict",
      "--partition=warn",      "--partition=warn",       "--partition=observe",        "--partition=off",
      "--partition=fixing",    "--partition=fixing",     "--partition=frozen",         "--partition=lenient",
      "--partition=h100,a100", "--partition=a100,mixed", "--partition=strict,observe", "--partition=mig",
      "--partition=mig",       "--partition=whole"}},
    {12,
     {"--constraint=h100", "--constraint=a100", "--constraint=h100|a100", "--constraint=[h100|a100]",
      "--constraint=h100&a100"}},
    {8,
     {"--nodelist=h1", "--nodelist=h1,h2", "--nodelist=h[1-2]", "--nodelist=a1", "--nodelist=a1,h1",
      "--nodelist=m1", "--nodelist=./hosts", "--nodefile=hosts"}},
    {8, {"--exclude=h2", "--exclude=a1", "--exclude=a[1-2]", "--exclude=h1,h2"}},
    {8, {"--exclusive", "--exclusive", "--exclusive=user"}},
    {12, {"--account=trusted", "--account=staff", "--qos=normal"}},
    {12, {"--export=NONE", "--export=ALL", "--export=ALL,WANDB=on", "--export=NIL"}},
    {20,
     {"--array=0-3", "--requeue", "--time=10", "--job-name=train it", "--output=%j.out", "--comment=p4d",
      "--mail-type=NONE", "--no-requeue", "--signal=B:USR1@60", "--open-mode=append", "--chdir=."}},
};

static const aspect p4d_aspects[] = {
    {97,
     {"--p4d-model=llama13b", "--p4d-model=llama13b", "--p4d-model=llama13b", "--p4d-model=llama2-7b",
      "--p4d-model=llama2-7b", "--p4d-model=llama3-8b", "--p4d-model=llama3-8b", "--p4d-model=tinyllama-1.1b",
      "--p4d-model=llama2-70b", "--p4d-model=llama3-70b", "--p4d-model=llama30b", "--p4d-model=qwen3-14b",
      "--p4d-model=gpt3-175b", "--p4d-model=mistral-7b", "--p4d-model=llama31b", "--p4d-model=nothing.json",
      "--p4d-model=custom --p4d-layers=4 --p4d-hidden=1024 --p4d-ffn=4096 --p4d-heads=16 --p4d-vocab=32000",
      "--p4d-model=custom --p4d-layers=4", "--p4d-model=mamba.json"}},
    {60,
     {"--p4d-tp=8", "--p4d-tp=8", "--p4d-tp=4", "--p4d-tp=4", "--p4d-tp=2", "--p4d-tp=2", "--p4d-tp=1",
      "--p4d-tp=16", "--p4d-tp=3", "--p4d-tp=0", "--p4d-tp=two"}},
    {35, {"--p4d-pp=1", "--p4d-pp=1", "--p4d-pp=1", "--p4d-pp=2", "--p4d-pp=2", "--p4d-pp=4", "--p4d-pp=3"}},
    {20, {"--p4d-cp=1", "--p4d-cp=1", "--p4d-cp=2", "--p4d-cp=2 --p4d-cp-comm=all-gather"}},
    {35,
     {"--p4d-micro-batch=1", "--p4d-micro-batch=1", "--p4d-micro-batch=2", "--p4d-micro-batch=8",
      "--p4d-micro-batch=-1"}},
    {30,
     {"--p4d-seq-len=2048", "--p4d-seq-len=4096", "--p4d-seq-len=131072", "--p4d-seq-len=1000",
      "--p4d-seq-len=4k"}},
    {30, {"--p4d-global-batch=64", "--p4d-global-batch=1024", "--p4d-global-batch=7"}},
    {30,
     {"--p4d-recompute=none", "--p4d-recompute=full", "--p4d-recompute=selective", "--p4d-recompute=some"}},
    {10,
     {"--p4d-schedule=1f1b", "--p4d-schedule=interleaved --p4d-vpp=2", "--p4d-schedule=zb1p",
      "--p4d-schedule=v-half --p4d-vocab-parallel=vocab-2", "--p4d-vpp=2"}},
    {30,
     {"--p4d-framework=p4d", "--p4d-framework=megatron", "--p4d-framework=p4d", "--p4d-framework=megatron",
      "--p4d-framework=fsdp"}},
    {15,
     {"--p4d-precision=bf16", "--p4d-precision=fp32", "--p4d-precision=fp16", "--p4d-device=cpu",
      "--p4d-device=cuda", "--p4d-optimizer-sharding=off", "--p4d-sequence-parallel=off",
      "--p4d-te-wgrad=off", "--p4d-attention=unfused", "--p4d-unknown=1"}},
    {6, {"--p4d-fix", "--p4d-override=because", "--p4d-override=it did run"}},
};

static const aspect body_aspects[] = {
    {100,
     {"srun p4d-train --data text", "srun p4d-train --data text",
      "srun python pretrain_gpt.py $P4D_MEGATRON_ARGS",
      "srun python pretrain_gpt.py $P4D_MEGATRON_ARGS --bf16",
      "torchrun --nproc-per-node 8 pretrain_gpt.py $P4D_MEGATRON_ARGS",
      "srun python pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 1",
      "python pretrain_gpt.py", "true", "bash launch.sh", "accelerate launch --use_fsdp train.py",
      "torchrun --nproc-per-node 8 train_fsdp.py", "deepspeed train.py", "srun python train.py --tp $P4D_TP",
      "module load cuda", "exec srun p4d-train --data text --resume latest", "echo 'p4d-train'"}},
    {20, {"srun p4d-train --data text", "# end", "wait", "sleep 1"}},
    {6, {"#SBATCH --nodes=4", "#SBATCH --p4d-tp=1", "#SBATCH --gpus-per-node=2"}},
};

/* A script that has the arguments of Megatron-LM itself, a line for each of these; then the command. */
static const aspect megatron_aspects[] = {
    {96,
     {"A=\"$A --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40\"",
      "A=\"$A --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32\"",
      "A=\"$A --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64\"",
      "A=\"$A --num-layers $(cat layers) --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads "
      "32\""}},
    {97, {"A=\"$A --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope\""}},
    {97,
     {"A=\"$A --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights "
      "--disable-bias-linear\""}},
    {95, {"A=\"$A --vocab-size 32000\"", "A=\"$A --vocab-size 128256\""}},
    {90, {"A=\"$A --bf16 --hidden-dropout 0 --attention-dropout 0\"", "A=\"$A --fp16\""}},
    {60,
     {"A=\"$A --tensor-model-parallel-size 8\"", "A=\"$A --tensor-model-parallel-size 4\"",
      "A=\"$A --tensor-model-parallel-size 2\"", "A=\"$A --tensor-model-parallel-size ${TP:-1}\"",
      "A=\"$A --tensor-model-parallel-size $(nproc)\"", "A=\"$A --tensor-model-parallel-size 3\""}},
    {30,
     {"A=\"$A --pipeline-model-parallel-size 2\"", "A=\"$A --pipeline-model-parallel-size 4\"",
      "A=\"$A --pipeline-model-parallel-size $SLURM_NNODES\""}},
    {95,
     {"A=\"$A --micro-batch-size 1 --global-batch-size 64\"",
      "A=\"$A --micro-batch-size 4 --global-batch-size 256\"",
      "A=\"$A --micro-batch-size 1 --global-batch-size 7\""}},
    {60, {"A=\"$A --use-distributed-optimizer\"", "A=\"$A --sequence-parallel\""}},
    {25,
     {"A=\"$A --recompute-activations\"",
      "A=\"$A --recompute-granularity full --recompute-method uniform --recompute-num-layers 1\""}},
    {8, {"A=\"$A --num-experts 8\"", "if test -e x; then A=\"$A --fp8-format hybrid\"; fi", "true"}},
    {100,
     {"torchrun --nproc_per_node 8 pretrain_gpt.py $A", "srun torchrun --nproc_per_node 8 pretrain_gpt.py $A",
      "srun python pretrain_gpt.py $A", "srun python pretrain_gpt.py $A $P4D_MEGATRON_ARGS"}},
};

/* Other spellings of options, and the variables that sbatch takes them from. */
static const struct {
	const char *option;
	char letter;
	const char *variable;
} spellings[] = {
    {"account", 'A', "SBATCH_ACCOUNT"},
    {"array", 'a', NULL},
    {"constraint", 'C', "SBATCH_CONSTRAINT"},
    {"cpus-per-task", 'c', NULL},
    {"exclude", 'x', NULL},
    {"gpus", 'G', "SBATCH_GPUS"},
    {"gpus-per-node", 0, "SBATCH_GPUS_PER_NODE"},
    {"gpus-per-task", 0, "SBATCH_GPUS_PER_TASK"},
    {"gres", 0, "SBATCH_GRES"},
    {"job-name", 'J', NULL},
    {"mem", 0, "SBATCH_MEM_PER_NODE"},
    {"mem-per-cpu", 0, "SBATCH_MEM_PER_CPU"},
    {"mem-per-gpu", 0, "SBATCH_MEM_PER_GPU"},
    {"nodelist", 'w', NULL},
    {"nodes", 'N', NULL},
    {"ntasks", 'n', NULL},
    {"partition", 'p', "SBATCH_PARTITION"},
    {"qos", 'q', "SBATCH_QOS"},
    {"time", 't', "SBATCH_TIMELIMIT"},
};

/* ---- Generating ---- */

static uint64_t chance_state;

static unsigned chance(unsigned below)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return (unsigned)((chance_state * 0x2545f4914f6cdd1dull >> 33) % below);
}

static void seed_job(uint64_t seed, uint64_t number)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15ull + number * 0xbf58476d1ce4e5b9ull + 1;

	z = (z ^ z >> 30) * 0x94d049bb133111ebull;
	chance_state = z ^ z >> 31 ? z ^ z >> 31 : 1;
	for (int i = 0; i < 8; i++)
		chance(2);
}

static void add_piece(job *j, place where, unsigned component, const char *text, size_t length)
{
	piece *p = &j->piece[j->pieces];

	if (j->pieces == MAX_PIECES || length >= sizeof(p->text))
		abort();
	*p = (piece){.place = where, .component = component};
	memcpy(p->text, text, length);
	j->pieces++;
}

/* Rewrites --NAME=VALUE as VARIABLE=VALUE. False if sbatch has no variable for it. */
static bool to_variable(piece *p)
{
	char text[sizeof(p->text)];
	const char *value = strchr(p->text, '=');
	size_t length = value ? (size_t)(value - p->text) - 2 : 0;

	if (value && !strncmp(p->text, "--p4d-", 6)) {
		int n = snprintf(text, sizeof(text), "SBATCH_%s", p->text + 2);
		for (char *at = text; *at != '='; at++)
			*at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
		memcpy(p->text, text, (size_t)n + 1);
		return true;
	}
	for (size_t i = 0; value && i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (spellings[i].variable && strlen(spellings[i].option) == length &&
		    !strncmp(spellings[i].option, p->text + 2, length)) {
			snprintf(text, sizeof(text), "%s%s", spellings[i].variable, value);
			snprintf(p->text, sizeof(p->text), "%s", text);
			return true;
		}
	return false;
}

/* --NAME=VALUE as -LVALUE, if NAME has a letter. */
static void to_letter(piece *p)
{
	char text[sizeof(p->text)];
	const char *value = strchr(p->text, '=');
	size_t length = value ? (size_t)(value - p->text) - 2 : 0;

	for (size_t i = 0; value && i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (spellings[i].letter && strlen(spellings[i].option) == length &&
		    !strncmp(spellings[i].option, p->text + 2, length)) {
			snprintf(text, sizeof(text), "-%c%s", spellings[i].letter, value + 1);
			snprintf(p->text, sizeof(p->text), "%s", text);
			return;
		}
}

/* One way of an aspect: options apart from each other, each at a place of its own. */
static void add_options(job *j, unsigned component, const char *way)
{
	while (way) {
		const char *next = strstr(way, " --");
		add_piece(j, TYPED, component, way, next ? (size_t)(next - way) : strlen(way));
		way = next ? next + 1 : NULL;
		piece *p = &j->piece[j->pieces - 1];
		unsigned where = chance(100);
		if (where < 12 && to_variable(p)) {
			p->place = VARIABLE;
			continue;
		}
		if (where < 45 && j->source != FROM_WRAP && !(component && j->typed_colon))
			p->place = LINE;
		else if (component && !j->typed_colon)
			p->place = LINE;
		if (chance(3) == 0)
			to_letter(p);
	}
}

static const char *one_way(const aspect *a)
{
	unsigned ways = 0;

	while (ways < MAX_WAYS && a->ways[ways])
		ways++;
	return a->ways[chance(ways)];
}

static void add_aspects(job *j, unsigned component, const aspect *aspects, size_t count)
{
	for (size_t i = 0; i < count; i++)
		while (chance(100) < aspects[i].percent) {
			add_options(j, component, one_way(&aspects[i]));
			if (chance(100) >= 6) /* seldom in two ways at once */
				break;
		}
}

static void add_lines(job *j, const aspect *aspects, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (chance(100) < aspects[i].percent) {
			const char *text = one_way(&aspects[i]);
			add_piece(j, BODY, 0, text, strlen(text));
		}
}

#define COUNT(aspects) (sizeof(aspects) / sizeof(aspects[0]))
#define ADD(j, component, aspects) add_aspects(j, component, aspects, sizeof(aspects) / sizeof(aspects[0]))

static void generate(job *j)
{
	*j = (job){.source = chance(100) < 70 ? FROM_FILE
			     : chance(2)      ? FROM_STDIN
					      : FROM_WRAP,
		   .components = 1};
	if (chance(100) < 12) {
		j->components = COMPONENTS;
		j->typed_colon = j->source == FROM_WRAP || chance(2);
	}
	const bool megatron = chance(100) < 40;
	for (unsigned c = 0; c < j->components; c++) {
		ADD(j, c, slurm_aspects);
		if (chance(100) < (megatron ? 30 : 88))
			ADD(j, c, p4d_aspects);
	}
	if (megatron)
		add_lines(j, megatron_aspects, COUNT(megatron_aspects));
	else
		add_lines(j, body_aspects, COUNT(body_aspects));
}

/* ---- Running ---- */

typedef struct output {
	int status;
	char out[TEXT_MAX], err[TEXT_MAX];
} output;

static void read_text(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n = 0;

	while (fd >= 0 && used < TEXT_MAX - 1 && (n = read(fd, text + used, TEXT_MAX - 1 - used)) > 0)
		used += (size_t)n;
	if (fd >= 0)
		close(fd);
	text[used] = '\0';
}

static void write_script(const job *j)
{
	FILE *f = fopen("job.sh", "we");

	if (!f)
		abort();
	fputs("#!/bin/sh\n", f);
	for (unsigned c = 0; c < j->components; c++) {
		if (c && !j->typed_colon)
			fputs("#SBATCH hetjob\n", f);
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == LINE && j->piece[i].component == c)
				/* a blank belongs to the value */
				fprintf(f,
					strchr(j->piece[i].text, ' ') ? "#SBATCH \"%s\"\n" : "#SBATCH %s\n",
					j->piece[i].text);
	}
	for (unsigned i = 0; i < j->pieces; i++)
		if (j->piece[i].place == BODY)
			fprintf(f, "%s\n", j->piece[i].text);
	fclose(f);
}

/* The command line from behind the command's own words. buffer: --wrap. */
static void command_line(const job *j, char **words, unsigned at, char *buffer, size_t size)
{
	size_t used = (size_t)snprintf(buffer, size, "--wrap=");

	if (j->source == FROM_WRAP) {
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == BODY && j->piece[i].text[0] != '#' && used < size)
				used += (size_t)snprintf(buffer + used, size - used, "%s%s",
							 used > 7 ? "; " : "", j->piece[i].text);
		words[at++] = buffer;
	}
	for (unsigned c = 0; c < j->components; c++) {
		if (c && j->typed_colon)
			words[at++] = ":";
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == TYPED && j->piece[i].component == c)
				words[at++] = (char *)j->piece[i].text;
	}
	if (j->source == FROM_FILE)
		words[at++] = "job.sh";
	words[at] = NULL;
}

static void run(const job *j, char **words, output *a)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == VARIABLE)
				putenv((char *)j->piece[i].text);
		if (dup2(open(j->source == FROM_STDIN ? "job.sh" : "/dev/null", O_RDONLY | O_CLOEXEC), 0) <
			0 ||
		    dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), 1) < 0 ||
		    dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), 2) < 0)
			_exit(126);
		execvp(words[0], words);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &a->status, 0) < 0)
		abort();
	read_text("out", a->out);
	read_text("err", a->err);
}

static void submit(const job *j, output *a)
{
	char wrap[1024], *words[MAX_WORDS] = {"sbatch", "-H", "--parsable"};

	command_line(j, words, 3, wrap, sizeof(wrap));
	run(j, words, a);
}

static void check(const job *j, const char *json, output *a)
{
	char wrap[1024], *words[MAX_WORDS] = {"p4d", "check", "-H", "--parsable", (char *)json};

	command_line(j, words, json ? 5 : 4, wrap, sizeof(wrap));
	run(j, words, a);
}

/* ---- Comparing ---- */

typedef struct verdict {
	bool refused;
	bool by_slurm;                   /* for reasons of its own */
	unsigned char codes[1000];       /* by number: is it there? */
	char plan[COMPONENTS][PLAN_MAX]; /* "": none */
	char fix[2048];
} verdict;

static void add_code(verdict *v, const char *text)
{
	unsigned code;

	if (sscanf(text, "P4D%3u", &code) == 1 && isdigit((unsigned char)text[3]) &&
	    code < sizeof(v->codes)) {
		v->codes[code] = 1;
	}
}

static bool load_plans(uint32_t id, verdict *v)
{
	job_info_msg_t *info = NULL;

	if (P4D_LOAD_JOB(&info, id, SHOW_ALL) != SLURM_SUCCESS)
		return false;
	for (uint32_t i = 0; i < info->record_count && i < COMPONENTS; i++) {
		const char *comment = info->job_array[i].admin_comment;
		const char *plan = comment ? strstr(comment, "p4d1:") : NULL;
		if (plan)
			snprintf(v->plan[i], PLAN_MAX, "%.*s", (int)strcspn(plan, " \n"), plan);
	}
	slurm_free_job_info_msg(info);
	return true;
}

/* What sbatch did. False if that could not be read. */
static bool of_sbatch(const output *a, verdict *v)
{
	memset(v, 0, sizeof(*v));
	v->refused = a->status != 0;
	v->by_slurm =
	    v->refused && !strstr(a->err, "error: p4d: [") && !strstr(a->err, "init_post_opt() failed");
	for (const char *at = a->err; (at = strstr(at, "P4D")); at++)
		add_code(v, at);
	return v->refused || load_plans((uint32_t)strtoul(a->out, NULL, 10), v);
}

static const char *member(struct json_object *object, const char *name)
{
	const char *text = json_object_get_string(json_object_object_get(object, name));

	return text ? text : "";
}

static void of_component(struct json_object *answer, unsigned component, verdict *v)
{
	struct json_object *messages = json_object_object_get(answer, "messages");
	bool told = strcmp(member(answer, "mode"), "observe") != 0;

	v->refused |=
	    !strcmp(member(answer, "verdict"), "reject") || !strcmp(member(answer, "verdict"), "error");
	for (size_t i = 0; told && messages && i < json_object_array_length(messages); i++) {
		add_code(v, member(json_object_array_get_idx(messages, i), "code"));
		const char *fix = member(json_object_array_get_idx(messages, i), "fix");
		if (!*v->fix)
			snprintf(v->fix, sizeof(v->fix), "%s", fix);
	}
	snprintf(v->plan[component], PLAN_MAX, "%s", member(answer, "plan"));
}

/* What `p4d check` said. */
static bool of_check(const output *a, verdict *v)
{
	struct json_object *answer = json_tokener_parse(a->out);
	struct json_object *components = json_object_object_get(answer, "components");

	memset(v, 0, sizeof(*v));
	for (unsigned i = 0; i < (components ? json_object_array_length(components) : 1) && i < COMPONENTS;
	     i++)
		of_component(components ? json_object_array_get_idx(components, i) : answer, i, v);
	json_object_put(answer);
	return answer && v->refused == (a->status != 0);
}

typedef enum difference {
	AGREED,
	BY_SLURM, /* sbatch was refused by Slurm itself, which p4d does not foretell */
	NO_ANSWER,
	VERDICT,
	CODES,
	PLAN,
	ERROR_LINE, /* on stderr of a job that passed: tools take it for a failure */
	FIX,
} difference;

static const char *const differences[] = {
    [NO_ANSWER] = "one of them gave no answer",
    [VERDICT] = "the verdicts differ",
    [CODES] = "the codes differ",
    [PLAN] = "the plans differ",
    [ERROR_LINE] = "the job passed, and sbatch printed an error",
    [FIX] = "the fix, pasted, is refused",
};

typedef struct trial {
	job tried;
	output sbatch, check;
	verdict did, said;
} trial;

static difference compare(const job *j, trial *t)
{
	t->tried = *j;
	write_script(j);
	submit(j, &t->sbatch);
	check(j, "--json", &t->check);
	if (!of_sbatch(&t->sbatch, &t->did) || !of_check(&t->check, &t->said))
		return NO_ANSWER;
	if (t->did.by_slurm)
		return BY_SLURM;
	if (t->did.refused != t->said.refused)
		return VERDICT;
	/* sbatch stops at the first component that is refused */
	if (!(t->did.refused && j->components > 1) &&
	    memcmp(t->did.codes, t->said.codes, sizeof(t->did.codes)) != 0)
		return CODES;
	for (int i = 0; !t->did.refused && i < COMPONENTS; i++)
		if (strcmp(t->did.plan[i], t->said.plan[i]) != 0)
			return PLAN;
	return !t->did.refused && strstr(t->sbatch.err, "error") ? ERROR_LINE : AGREED;
}

/* The piece that is this line of the script. */
static piece *line_of(job *j, unsigned long number)
{
	unsigned long line = 1;

	for (unsigned c = 0; c < j->components; c++) {
		line += c && !j->typed_colon;
		for (unsigned i = 0; i < j->pieces; i++)
			line += j->piece[i].place == LINE && j->piece[i].component == c;
	}
	for (unsigned i = 0; i < j->pieces; i++)
		if (j->piece[i].place == BODY && ++line == number)
			return &j->piece[i];
	return NULL;
}

/* Puts a flag with its values in place of what the line has of it; with none, it is taken away. */
static bool replace_flag(piece *p, const char *flag, const char *instead)
{
	char text[sizeof(p->text)];
	char *at = strstr(p->text, flag);

	if (!at)
		return false;
	const char *next = strstr(at + 2, " --");
	const char *end = next ? next : at + strcspn(at, "\"");
	const int length =
	    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - p->text), p->text, instead, end);
	memcpy(p->text, text, sizeof(text));
	return length < (int)sizeof(text);
}

/* "job.sh:5: --tensor-model-parallel-size 8", "job.sh:5: without --sequence-parallel", "job.sh:9: add --bf16"
 */
static bool change_script(job *j, const char *change)
{
	const char *what = strstr(change, ": ");
	const char *number = strchr(change, ':');
	piece *p = what && number < what && j->source != FROM_WRAP ? line_of(j, strtoul(number + 1, NULL, 10))
								   : NULL;
	char flag[64];

	if (!p)
		return false;
	what += 2;
	if (!strncmp(what, "without ", 8))
		return replace_flag(p, what + 8, "");
	if (!strncmp(what, "add ", 4)) {
		const size_t used = strlen(p->text);
		return (size_t)snprintf(p->text + used, sizeof(p->text) - used, " %s", what + 4) <
		       sizeof(p->text) - used;
	}
	snprintf(flag, sizeof(flag), "%.*s", (int)strcspn(what, " "), what);
	return replace_flag(p, flag, what);
}

/* Options, and lines of the script to change, each behind "; ". False: nothing to paste. */
static bool paste(job *fixed, const char *fix)
{
	char text[2048], *rest = text, *word_rest = NULL;
	bool first = true;

	snprintf(text, sizeof(text), "%s", fix);
	for (char *at = text; at && *at; first = false) {
		rest = strstr(at, "; ");
		if (rest)
			*rest = '\0';
		if (first && !strncmp(at, "--", 2) && !strstr(at, ": ")) {
			for (char *word = strtok_r(at, " ", &word_rest); word;
			     word = strtok_r(NULL, " ", &word_rest))
				if (fixed->pieces < MAX_PIECES)
					add_piece(fixed, TYPED, 0, word, strlen(word));
		} else if (!change_script(fixed, at)) {
			return false;
		}
		at = rest ? rest + 2 : NULL;
	}
	return *fix;
}

/* Pastes the fix of a refused job. One fix may lead to the next. */
static difference paste_fixes(job *fixed, trial *t)
{
	for (int tries = 0; tries < 6 && t->did.refused && !t->did.by_slurm; tries++) {
		if (strchr(t->said.fix, '"') || strchr(t->said.fix, '\'') || !paste(fixed, t->said.fix))
			return AGREED; /* nothing to paste */
		difference d = compare(fixed, t);
		if (d != AGREED && d != BY_SLURM)
			return d;
	}
	return t->did.refused && !t->did.by_slurm ? FIX : AGREED;
}

static difference try(const job *j, trial *t)
{
	difference d = compare(j, t);
	job fixed = *j;

	return d == AGREED && t->did.refused && j->components == 1 ? paste_fixes(&fixed, t) : d;
}

/* Takes away what the difference does not need. */
static void shrink(job *j, difference wanted, trial *t)
{
	job smaller;

	for (bool smaller_still = true; smaller_still;) {
		smaller_still = false;
		for (unsigned i = j->pieces; i-- > 0;) {
			smaller = *j;
			smaller.pieces--;
			memmove(&smaller.piece[i], &smaller.piece[i + 1],
				(smaller.pieces - i) * sizeof(piece));
			if (try(&smaller, t) != wanted)
				continue;
			*j = smaller;
			smaller_still = true;
		}
	}
	smaller = *j;
	smaller.source = FROM_FILE;
	if (try(&smaller, t) == wanted)
		*j = smaller;
	try(j, t);
}

static void print_word(const char *word)
{
	if (strpbrk(word, " $'|[]&;*\"#"))
		printf(" \"%s\"", word);
	else
		printf(" %s", word);
}

static void print_trial(uint64_t seed, unsigned long number, difference d, trial *t)
{
	const job *j = &t->tried;
	char wrap[1024], script[TEXT_MAX], *words[MAX_WORDS];

	printf("--- job %lu of seed %lu: %s\n%%", number, (unsigned long)seed, differences[d]);
	for (unsigned i = 0; i < j->pieces; i++)
		if (j->piece[i].place == VARIABLE)
			print_word(j->piece[i].text);
	printf(" sbatch -H");
	command_line(j, words, 0, wrap, sizeof(wrap));
	for (char **word = words; *word; word++)
		print_word(*word);
	puts(j->source == FROM_STDIN ? " <job.sh" : "");
	if (j->source != FROM_WRAP) {
		write_script(j);
		read_text("job.sh", script);
		printf("job.sh:\n%s", script);
	}
	printf("sbatch, status %d: %s%s", WEXITSTATUS(t->sbatch.status), t->sbatch.out, t->sbatch.err);
	check(j, NULL, &t->check);
	printf("p4d check, status %d: %s%s", WEXITSTATUS(t->check.status), t->check.err, t->check.out);
	for (int i = 0; d == PLAN && i < COMPONENTS; i++)
		printf("sbatch: %s\ncheck:  %s\n", t->did.plan[i], t->said.plan[i]);
	fflush(stdout);
}

static bool number_of(const char *argument, const char *name, unsigned long *value)
{
	size_t length = strlen(name);
	char *end;

	if (strncmp(argument, name, length) != 0)
		return false;
	*value = strtoul(argument + length, &end, 10);
	return end > argument + length && !*end;
}

int main(int argc, char **argv)
{
	unsigned long seed = 1, first = 0, count = 200, passed = 0, refused = 0, by_slurm = 0, different = 0;
	static trial t;
	job j;

	for (int i = 1; i < argc; i++)
		if (!number_of(argv[i], "--seed=", &seed) && !number_of(argv[i], "--first=", &first) &&
		    !number_of(argv[i], "--count=", &count)) {
			fprintf(stderr, "agree: cannot use %s\n", argv[i]);
			return 2;
		}
	slurm_init(NULL);
	for (unsigned long i = first; i < first + count; i++) {
		seed_job(seed, i);
		generate(&j);
		difference d = try(&j, &t);
		if (d > BY_SLURM) {
			different++;
			shrink(&j, d, &t);
			print_trial(seed, i, d, &t);
		} else if (d == BY_SLURM) {
			by_slurm++;
		} else if (t.said.refused) {
			refused++;
		} else {
			passed++;
		}
	}
	printf("%lu jobs: %lu passed, %lu refused, %lu refused by Slurm itself, %lu different\n", count,
	       passed, refused, by_slurm, different);
	return different != 0;
}
