/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak-client --seed=N --first=N --step=N --count=N [--only=accepted|refused]
 *
 * A client of tests/cluster/soak.sh. It submits the jobs with numbers first, first + step, ... below
 * count, each of a random kind, in the current folder. It repeats a submission until slurmctld answers. It
 * compares the answer with that of `p4d check`, and prints a line:
 *
 *     MILLISECONDS KIND NAME accepted|refused|by-slurm|lost CODE STATE [WHAT IS WRONG]
 *
 * STATE is strict if p4d.conf was valid all the time, and loose if sbatch may have seen an invalid one.
 * Environment: SOAK_FITS and SOAK_LARGE are plans. SOAK_EPOCH is a file that changes with each edit of
 * p4d.conf, and ends with "good" while p4d.conf is valid. SOAK_CHECK is the p4d.conf for `p4d check`. The
 * file ../scripts lists job scripts, and ../program is a rehearsed program.
 *
 * With --only, the client leaves out jobs for which `p4d check` gives the other verdict, and cancels no
 * job. With --only=accepted, it also updates no job, so that a Slurm without p4d gets the same jobs as a
 * Slurm with p4d. With --only=refused, all updates must be refused, so slurmctld's queue does not change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agree/answer.h"
#include "slurm_compat.h"

/* Slurm's text for the error that job_submit_p4d.so returns. */
static const char refusal[] = "Invalid generic resource";

enum { NOTES = 100, LATE_MS = 400, EPOCH = 64, TRIES = 400, MOST_SCRIPTS = 1024, SLOTS = 64 };

/* Kinds of jobs, with the number of each kind in a hundred jobs. */
typedef enum kind {
	GENERATED,
	SCRIPT,
	REHEARSED,
	PLANNED,
	LARGE,
	MALFORMED,
	PLAIN,
	UPDATED,
	CANCELLED,
	KINDS
} kind;
static const struct {
	const char *name;
	unsigned percent;
} kinds[KINDS] = {
    [GENERATED] = {"generated", 48}, [SCRIPT] = {"script", 12},  [REHEARSED] = {"rehearsed", 4},
    [PLANNED] = {"planned", 10},     [LARGE] = {"large", 8},     [MALFORMED] = {"malformed", 4},
    [PLAIN] = {"plain", 4},          [UPDATED] = {"updated", 5}, [CANCELLED] = {"cancelled", 5},
};

static enum { ANY, ACCEPTED, REFUSED } only;
static char *scripts[MOST_SCRIPTS];
static size_t script_count;
/* Ids of accepted jobs that were submitted through libslurm. They are updated and cancelled later. */
static uint32_t held[SLOTS];
static char held_name[SLOTS][32];

static uint64_t mixed(uint64_t seed, uint64_t number)
{
	uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15ull + number * 0xbf58476d1ce4e5b9ull;

	z = (z ^ z >> 30) * 0x94d049bb133111ebull;
	return z ^ z >> 29;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The time when the last submission began. slurmctld cannot have got the job before this time. If it dies,
 * it may do so before the client gets an answer. */
static uint64_t submitted_ms;

static void print(kind of, const char *name, const char *outcome, const char *code, const char *state,
		  const char *wrong)
{
	printf("%llu %s %s %s %s %s%s%s\n", (unsigned long long)(submitted_ms ? submitted_ms : now_ms()),
	       kinds[of].name, name, outcome, code, state, *wrong ? " " : "", wrong);
	fflush(stdout);
}

/* Whether slurmctld was not running, or died before it answered. */
static bool is_lost(const char *err)
{
	static const char *const words[] = {"Unable to contact slurm controller",
					    "Connection refused",
					    "Socket timed out",
					    "Zero Bytes",
					    "Transport endpoint",
					    "Unexpected message received",
					    "Connection reset",
					    "Broken pipe",
					    "communication",
					    "Communication",
					    "Unable to connect",
					    "Header lengths are longer"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(err, words[i]))
			return true;
	return false;
}

static void read_epoch(char text[EPOCH])
{
	static char all[TEXT_MAX];

	read_text(getenv("SOAK_EPOCH"), all);
	snprintf(text, EPOCH, "%.60s", all);
}

static const char *state_of(const char *before)
{
	char after[EPOCH];

	read_epoch(after);
	return strstr(before, "good") && !strcmp(before, after) ? "strict" : "loose";
}

/* The lowest code of a verdict; 0: no code. Codes of refusals are lower than all other codes. */
static unsigned first_code(const verdict *v)
{
	for (unsigned i = 1; i < sizeof(v->codes); i++)
		if (v->codes[i])
			return i;
	return 0;
}

static const char *code_of(const verdict *v, char text[8])
{
	snprintf(text, 8, first_code(v) ? "P4D%03u" : "-", first_code(v));
	return text;
}

/* Gives the job this name, and removes other names that it has. */
static void name_job(job *j, const char *name)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < j->pieces; i++)
		if (strncmp(j->piece[i].text, "-J", 2) != 0 &&
		    strncmp(j->piece[i].text, "--job-name", 10) != 0)
			j->piece[kept++] = j->piece[i];
	j->pieces = kept;
	char text[64];
	const int length = snprintf(text, sizeof(text), "--job-name=%s", name);
	for (unsigned c = 0; c < j->components; c++)
		add_piece(j, c && !j->typed_colon ? LINE : TYPED, c, text, (size_t)length);
}

/* Finds what is wrong with an answer; "": nothing. */
static const char *compare(const verdict *did, const verdict *said, const char *err, char *wrong, size_t size)
{
	char other[8];

	*wrong = '\0';
	if (did->refused != said->refused)
		snprintf(wrong, size, "check says %s (%s)", said->refused ? "refused" : "passes",
			 code_of(said, other));
	else if (did->refused && !did->codes[first_code(said)])
		snprintf(wrong, size, "check says %s", code_of(said, other));
	else if (!did->refused && strstr(err, "error"))
		snprintf(wrong, size, "an error was printed");
	return wrong;
}

/* Adds the words of the command to the text, to help find the cause. */
static void add_words(const job *j, char *text, size_t size)
{
	static const char *const where[] = {
	    [TYPED] = "", [LINE] = "#SBATCH ", [VARIABLE] = "", [BODY] = "line "};
	size_t used = strlen(text);

	for (unsigned i = 0; i < j->pieces && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s %s%s",
					 i ? ";" : " of:", where[j->piece[i].place], j->piece[i].text);
}

/* Whether --only leaves out a job with this verdict of `p4d check`. */
static bool is_left_out(bool refused)
{
	return only == (refused ? ACCEPTED : REFUSED);
}

/* Submits with sbatch, until slurmctld answers. */
static void submit_by_sbatch(kind of, job *j, const char *name)
{
	static output a, c;
	static verdict did, said;
	char epoch[EPOCH], code[8], wrong[1024] = "";

	name_job(j, name);
	write_script(j);
	check(j, "--json", &c);
	const bool known = of_check(&c, &said);
	if (is_left_out(known && said.refused))
		return;
	for (int tries = 0; tries < TRIES; tries++) {
		read_epoch(epoch);
		submitted_ms = now_ms();
		submit(j, &a);
		if (!a.status || !is_lost(a.err))
			break;
		print(of, name, "lost", "-", "strict", "");
		usleep(200000);
	}
	of_sbatch(&a, &did);
	if (did.refused)
		fprintf(stderr, "%s: %s", name, a.err);
	/* sbatch does not print slurmctld's text for a job with components */
	did.by_slurm =
	    did.by_slurm && !(said.refused && strstr(a.err, "submission failed") && strstr(a.err, refusal));
	/* p4d only advised, and then slurmctld refused the job for another reason */
	did.by_slurm =
	    did.by_slurm || (did.refused && strstr(a.err, "submission failed") && !strstr(a.err, refusal));
	/* codes from NOTES on are warnings: Slurm itself refused the job, such as for unknown nodes */
	did.by_slurm = did.by_slurm || (did.refused && first_code(&did) >= NOTES);
	const char *state = state_of(epoch), *outcome = !did.refused   ? "accepted"
							: did.by_slurm ? "by-slurm"
								       : "refused";
	if (known && !did.by_slurm && *compare(&did, &said, a.err, wrong, sizeof(wrong)))
		add_words(j, wrong, sizeof(wrong));
	print(of, name, outcome, code_of(&did, code), state,
	      did.by_slurm ? ""
	      : known      ? wrong
			   : "no answer of check");
}

static void submit_script(const char *name, uint64_t number)
{
	static const char *const options[] = {"--gpus-per-node=8", "--gpus-per-node=1", "--gres=gpu:4"};
	const char *option = options[number / 7 % 3];
	job j = {.source = FROM_FILE, .components = 1, .script = scripts[number % script_count]};

	add_piece(&j, TYPED, 0, option, strlen(option));
	add_piece(&j, TYPED, 0, "-N1", 3);
	add_piece(&j, TYPED, 0, "-ph100", 6);
	submit_by_sbatch(SCRIPT, &j, name);
}

static void submit_rehearsed(const char *name, uint64_t number)
{
	const char *line = number % 2 ? "srun ../program 10240" : "srun ../program 102400";
	job j = {.source = FROM_FILE, .components = 1};

	add_piece(&j, TYPED, 0, "--gpus-per-node=1", 17);
	add_piece(&j, TYPED, 0, "-N1", 3);
	add_piece(&j, BODY, 0, line, strlen(line));
	submit_by_sbatch(REHEARSED, &j, name);
}

static void submit_generated(const char *name, uint64_t seed, uint64_t number)
{
	job j;

	seed_job(seed, number);
	do
		generate(&j);
	while (j.pieces + 4 > MAX_PIECES);
	submit_by_sbatch(GENERATED, &j, name);
}

/* Submits a job with a plan in its environment, like a program that does not use sbatch. Returns the id of
 * the job; 0: it was refused, for the reason in *code. */
static uint32_t submit_plan(const char *name, const char *plan, const char **words)
{
	char *environment[] = {"PATH=/usr/bin:/bin", NULL, NULL}, variable[PLAN_MAX + 16];
	submit_response_msg_t *response = NULL;
	job_desc_msg_t asked;

	snprintf(variable, sizeof(variable), "P4D_PLAN=%s", plan ? plan : "");
	environment[1] = plan ? variable : NULL;
	slurm_init_job_desc_msg(&asked);
	asked.name = (char *)name;
	asked.script = "#!/bin/sh\ntrue\n";
	asked.environment = environment;
	asked.env_size = plan ? 2 : 1;
	asked.user_id = getuid();
	asked.group_id = getgid();
	asked.work_dir = "/";
	asked.std_out = "/dev/null";
	asked.priority = 0; /* held */
	asked.min_nodes = asked.max_nodes = 1;
	asked.tres_per_node = plan ? "gres:gpu:8" : NULL;
	errno = 0;
	if (slurm_submit_batch_job(&asked, &response) != SLURM_SUCCESS || !response) {
		*words = slurm_strerror(errno);
		return 0;
	}
	const uint32_t id = P4D_RESPONSE_JOB_ID(response);
	slurm_free_submit_response_response_msg(response);
	return id;
}

static void submit_by_libslurm(kind of, const char *name, uint64_t number)
{
	static const char *const garbled[] = {"p4d1:", "nonsense", "p4d1:model=llama13b", "p9d9:tp=8", ""};
	const char *plan = of == PLANNED     ? getenv("SOAK_FITS")
			   : of == LARGE     ? getenv("SOAK_LARGE")
			   : of == MALFORMED ? garbled[number % 4]
					     : NULL,
		   *words = "";
	const bool refuses = of == LARGE || of == MALFORMED;
	uint32_t id = 0;

	if (is_left_out(refuses))
		return;
	for (int tries = 0; tries < TRIES; tries++) {
		submitted_ms = now_ms();
		id = submit_plan(name, plan, &words);
		if (id || strstr(words, refusal))
			break;
		print(of, name, "lost", "-", "strict", "");
		usleep(200000);
	}
	print(of, name, id ? "accepted" : "refused", "-", "strict",
	      !id == refuses ? ""
	      : refuses      ? "a wrong plan was accepted"
			     : words);
	if (id && of == PLANNED) {
		held[number % SLOTS] = id;
		snprintf(held_name[number % SLOTS], sizeof(held_name[0]), "%s", name);
	}
}

/* Picks one of the held jobs. Returns 0 if it no longer exists or its id belongs to another job. With
 * --only=refused, the same job can be picked again. */
static uint32_t pick(uint64_t number, char name[32])
{
	for (unsigned i = 0; i < SLOTS; i++) {
		const unsigned at = (unsigned)((number + i) % SLOTS);
		const uint32_t id = held[at];
		job_info_msg_t *info = NULL;
		held[at] = only == REFUSED ? id : 0;
		if (!id || P4D_LOAD_JOB(&info, id, SHOW_ALL) != SLURM_SUCCESS)
			continue;
		snprintf(name, 32, "%s", held_name[at]);
		const bool same =
		    info->record_count && info->job_array[0].name && !strcmp(info->job_array[0].name, name);
		slurm_free_job_info_msg(info);
		if (same)
			return id;
	}
	return 0;
}

/* Updates a job: either its time limit, which p4d ignores, or its partition, to one with smaller GPUs. */
static void update_job(uint64_t number)
{
	char name[32];
	const uint32_t id = pick(number, name);
	const bool smaller = number % 2 || only == REFUSED;
	job_desc_msg_t asked;

	if (!id)
		return;
	slurm_init_job_desc_msg(&asked);
	P4D_DESC_JOB_ID(&asked) = id;
	if (smaller)
		asked.partition = "a100";
	else
		asked.time_limit = 60;
	errno = 0;
	const bool done = slurm_update_job(&asked) == SLURM_SUCCESS;
	const char *words = done ? "" : slurm_strerror(errno);
	print(UPDATED, name,
	      done             ? "accepted"
	      : is_lost(words) ? "lost"
			       : "refused",
	      smaller ? "smaller" : "-", "strict",
	      done == !smaller || is_lost(words) ? ""
	      : done                             ? "moved to GPUs that are too small"
						 : words);
}

static void cancel_job(uint64_t number)
{
	char name[32];
	const uint32_t id = pick(number, name);
	const uint64_t since = now_ms();

	if (id && P4D_KILL_JOB(id, SIGKILL) == SLURM_SUCCESS)
		/* slurmctld may have restarted and given the id to another job */
		print(CANCELLED, name, "cancelled", now_ms() - since > LATE_MS ? "late" : "-", "strict", "");
}

static void take_job(uint64_t seed, uint64_t number)
{
	uint64_t chance = mixed(seed, number), share = chance % 100;
	char name[32];
	int of = 0;

	for (; share >= kinds[of].percent; of++)
		share -= kinds[of].percent;
	chance /= 100;
	snprintf(name, sizeof(name), "soak-%llu", (unsigned long long)number);
	if ((only == ACCEPTED && of == UPDATED) || (only != ANY && of == CANCELLED))
		of = PLANNED;
	switch (of) {
	case GENERATED:
		submit_generated(name, seed, number);
		break;
	case SCRIPT:
		submit_script(name, chance);
		break;
	case REHEARSED:
		submit_rehearsed(name, chance);
		break;
	case UPDATED: /* submits a job too, so that each number submits exactly one job */
		update_job(chance);
		submit_by_libslurm(PLANNED, name, chance);
		break;
	case CANCELLED:
		cancel_job(chance);
		submit_by_libslurm(PLANNED, name, chance);
		break;
	default:
		submit_by_libslurm((kind)of, name, chance);
	}
}

/* Reads the file `scripts` of the folder, which has one name per line. */
static void read_scripts(void)
{
	static char list[TEXT_MAX];
	char *rest = list, *line;

	read_text("../scripts", list);
	while ((line = strsep(&rest, "\n")))
		if (*line && script_count < MOST_SCRIPTS)
			scripts[script_count++] = line;
}

/* Submits the job that --only=refused updates. */
static void hold_one(unsigned long number)
{
	char name[32];

	snprintf(name, sizeof(name), "held-%lu", number);
	submit_by_libslurm(PLANNED, name, number);
}

static bool number_of(const char *argument, const char *name, unsigned long *value)
{
	const size_t length = strlen(name);

	if (strncmp(argument, name, length) != 0)
		return false;
	*value = strtoul(argument + length, NULL, 10);
	return true;
}

int main(int argc, char **argv)
{
	unsigned long seed = 1, first = 0, step = 1, count = 100;
	int chosen = ANY;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--only=accepted"))
			chosen = ACCEPTED;
		else if (!strcmp(argv[i], "--only=refused"))
			chosen = REFUSED;
		else if (!number_of(argv[i], "--seed=", &seed) && !number_of(argv[i], "--first=", &first) &&
			 !number_of(argv[i], "--step=", &step) && !number_of(argv[i], "--count=", &count)) {
			fprintf(stderr, "soak-client: cannot use %s\n", argv[i]);
			return 2;
		}
	slurm_init(NULL);
	check_with(getenv("SOAK_CHECK"));
	read_scripts();
	if (chosen == REFUSED)
		hold_one(first);
	only = chosen;
	for (unsigned long i = first; script_count && i < count; i += step)
		take_job(seed, i);
	return !script_count;
}
