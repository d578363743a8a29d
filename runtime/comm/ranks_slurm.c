/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds this process's rank and rank 0's address: in the environment of srun, torchrun or mpirun, or made up
 * for forked ranks.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "comm/comm.h"
#include "comm/wire.h"

/* The default ports are below Linux's ephemeral ports. */
enum { FIRST_PORT = 20000, END_PORT = 32000, PORTS = 8, KEY_DIGITS = 32 };

int p4d_ranks_local(p4d_ranks *ranks, uint32_t size, p4d_error *err)
{
	p4d_ranks made = {
	    .size = size,
	    .host = "127.0.0.1",
	    .ports = PORTS,
	    .join_seconds = P4D_JOIN_SECONDS,
	    .idle_seconds = P4D_IDLE_SECONDS,
	};

	uint64_t name;

	if (p4d_wire__random(&made.key, sizeof(made.key)) < 0 || p4d_wire__random(&name, sizeof(name)) < 0)
		return p4d_fail(err, P4D_E_IO, "the system provides no random numbers: %s", strerror(errno));
	made.port = (uint16_t)(FIRST_PORT + name % ((END_PORT - FIRST_PORT) / PORTS) * PORTS);
	snprintf(made.session, sizeof(made.session), "local-%d-%08x", getpid(), (unsigned)(name >> 32));
	*ranks = made;
	return 0;
}

typedef char *(*p4d_lookup)(const char *name);

/* A variable's value; an empty one counts as unset. */
static const char *value(p4d_lookup variable, const char *name)
{
	const char *text = variable(name);

	return text && *text ? text : NULL;
}

/* Parses "0".."most", nothing else; -1: malformed */
static int64_t number(const char *text, size_t length, int64_t most)
{
	uint64_t n;

	return p4d_number_digits(text, &n) == text + length && n <= (uint64_t)most ? (int64_t)n : -1;
}

static int required(p4d_lookup variable, const char *name, const char *other, int64_t most, uint32_t *to,
		    p4d_error *err)
{
	const char *text = value(variable, name);

	if (!text && other && (text = value(variable, other)))
		name = other;
	if (!text)
		return p4d_fail(err, P4D_E_RANK, "%s is not set%s", name,
				strncmp(name, "SLURM_", 6) ? "" : ": not started by srun");
	int64_t n = number(text, strlen(text), most);
	if (n < 0)
		return p4d_fail(err, P4D_E_VALUE, "%s=%.40s is not a number from 0 to %lld", name, text,
				(long long)most);
	*to = (uint32_t)n;
	return 0;
}

/* First host of "a,b", "n[03-07,9]", "rack[2-3]n[1-4]": every bracket is replaced by its first number. */
static int first_host(char *host, size_t size, const char *list, p4d_error *err)
{
	size_t length = 0;
	bool inside = false, skipping = false;

	for (const char *at = list; *at && (inside || *at != ','); at++) {
		if (*at == '[' && !inside) {
			inside = true;
			skipping = false;
			if (!isdigit((unsigned char)at[1]))
				goto malformed;
		} else if (*at == ']' && inside) {
			inside = false;
		} else if (inside && (*at == '-' || *at == ',')) {
			skipping = true;
		} else if (inside ? !isdigit((unsigned char)*at)
				  : !isalnum((unsigned char)*at) && !strchr("-_.", *at)) {
			goto malformed;
		} else if (!inside || !skipping) {
			if (length + 1 >= size)
				goto malformed;
			host[length++] = *at;
		}
	}
	host[length] = '\0';
	if (!inside && length)
		return 0;
malformed:
	return p4d_fail(err, P4D_E_VALUE, "SLURM_STEP_NODELIST=%.80s is not a list of hosts", list);
}

static void derive_ports(p4d_ranks *ranks)
{
	const uint64_t from = p4d_wire__hash(0, ranks->session, strlen(ranks->session));

	ranks->ports = PORTS;
	ranks->port = (uint16_t)(FIRST_PORT + from % ((END_PORT - FIRST_PORT) / PORTS) * PORTS);
}

static int where(p4d_ranks *ranks, p4d_lookup variable, uint32_t nodes, p4d_error *err)
{
	const char *host = value(variable, "P4D_JOB_HOST");
	const char *list = value(variable, "SLURM_STEP_NODELIST");
	const char *launcher = value(variable, "SLURM_LAUNCH_NODE_IPADDR");
	const char *reserved = value(variable, "SLURM_STEP_RESV_PORTS");

	if (launcher && strlen(launcher) < sizeof(ranks->other_host))
		snprintf(ranks->other_host, sizeof(ranks->other_host), "%s", launcher);
	if (host) {
		if (strlen(host) >= sizeof(ranks->host))
			return p4d_fail(err, P4D_E_VALUE, "P4D_JOB_HOST has %zu characters, at most %zu",
					strlen(host), sizeof(ranks->host) - 1);
		snprintf(ranks->host, sizeof(ranks->host), "%s", host);
	} else if (nodes == 1) {
		snprintf(ranks->host, sizeof(ranks->host), "127.0.0.1");
	} else if (!list) {
		return p4d_fail(err, P4D_E_RANK, "SLURM_STEP_NODELIST is not set: not started by srun");
	} else if (first_host(ranks->host, sizeof(ranks->host), list, err) < 0) {
		return -1;
	}
	if (!reserved) {
		derive_ports(ranks);
		return 0;
	}
	/* "12000-12003,12010" has several ranges; only the first is used */
	size_t digits = strspn(reserved, "0123456789");
	int64_t first = number(reserved, digits, UINT16_MAX), last = first;
	if (reserved[digits] == '-')
		last = number(reserved + digits + 1, strspn(reserved + digits + 1, "0123456789"), UINT16_MAX);
	else if (reserved[digits] && reserved[digits] != ',')
		first = -1;
	if (first < 1 || last < first)
		return p4d_fail(err, P4D_E_VALUE, "SLURM_STEP_RESV_PORTS=%.40s is not a range of ports",
				reserved);
	ranks->port = (uint16_t)first;
	ranks->ports = (uint16_t)(last - first + 1);
	return 0;
}

/* Reads a key: exactly as many hexadecimal digits as a key has, in the first `length` bytes of text. */
static bool key_from(p4d_comm_key *key, const char *text, size_t length)
{
	char digits[17] = "";

	if (length != KEY_DIGITS || strspn(text, "0123456789abcdefABCDEF") < length)
		return false;
	for (int i = 0; i < 2; i++)
		key->word[i] = strtoull(memcpy(digits, text + 16 * (ptrdiff_t)i, 16), NULL, 16);
	return true;
}

static int key_from_file(p4d_comm_key *key, const char *path, p4d_error *err)
{
	char text[KEY_DIGITS + 2] = ""; /* a newline may follow */
	struct stat made;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &made) < 0) {
		p4d_fail(err, P4D_E_JOB_KEY, "P4D_JOB_KEY_FILE=%.200s: %s", path, strerror(errno));
	} else if (!S_ISREG(made.st_mode) || made.st_uid != geteuid() || made.st_mode & 077) {
		p4d_fail(err, P4D_E_JOB_KEY,
			 "P4D_JOB_KEY_FILE=%.200s: it has mode %04o and belongs to user %u; only user %u may "
			 "own and read it",
			 path, (unsigned)made.st_mode & 07777, (unsigned)made.st_uid, (unsigned)geteuid());
		p4d_fix(err, "chmod 600 '%.300s'", path);
	} else if (read(fd, text, sizeof(text) - 1) < KEY_DIGITS ||
		   !key_from(key, text, strcspn(text, "\n"))) {
		p4d_fail(err, P4D_E_JOB_KEY, "P4D_JOB_KEY_FILE=%.200s: not %d hex digits", path, KEY_DIGITS);
	} else {
		close(fd);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static int key(p4d_ranks *ranks, p4d_lookup variable, uint32_t nodes, p4d_error *err)
{
	const char *hex = value(variable, "P4D_JOB_KEY"), *path = value(variable, "P4D_JOB_KEY_FILE");
	const char *srun = value(variable, "SLURM_SRUN_COMM_PORT");

	/* the message must not contain the key */
	if (hex)
		return key_from(&ranks->key, hex, strlen(hex))
			   ? 0
			   : p4d_fail(err, P4D_E_VALUE, "P4D_JOB_KEY is not %d hex digits", KEY_DIGITS);
	if (path)
		return key_from_file(&ranks->key, path, err);
	if (nodes == 1) {
		/* srun's port distinguishes steps of several clusters on one machine */
		snprintf(ranks->key_socket, sizeof(ranks->key_socket), "p4d-%.60s-%.10s", ranks->session,
			 srun ? srun : "0");
		return 0;
	}
	p4d_fail(err, P4D_E_JOB_KEY,
		 "this step has no key with which its ranks on several nodes can authenticate each other: "
		 "neither P4D_JOB_KEY, which sbatch --p4d-model=... sets, nor P4D_JOB_KEY_FILE is set");
	return p4d_fix(err, "(umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' ' >~/.p4d_key); "
			    "export P4D_JOB_KEY_FILE=~/.p4d_key");
}

int p4d_ranks_from_slurm(p4d_ranks *ranks, char *(*variable)(const char *name), p4d_error *err)
{
	p4d_ranks made = {.join_seconds = P4D_JOIN_SECONDS, .idle_seconds = P4D_IDLE_SECONDS};
	const char *name = value(variable, "SLURMD_NODENAME");
	uint32_t job, step, restart = 0, nodes = 0;

	if (required(variable, "SLURM_STEP_ID", "SLURM_STEPID", UINT32_MAX, &step, err) < 0 ||
	    required(variable, "SLURM_JOB_ID", "SLURM_JOBID", UINT32_MAX, &job, err) < 0 ||
	    required(variable, "SLURM_PROCID", NULL, 1 << 20, &made.rank, err) < 0 ||
	    required(variable, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", 1 << 20, &made.size, err) < 0 ||
	    required(variable, "SLURM_NODEID", NULL, 1 << 20, &made.node, err) < 0)
		return -1;
	if (value(variable, "SLURM_RESTART_COUNT") &&
	    required(variable, "SLURM_RESTART_COUNT", NULL, UINT32_MAX, &restart, err) < 0)
		return -1;
	if ((value(variable, "SLURM_STEP_NUM_NODES") || value(variable, "SLURM_NNODES")) &&
	    required(variable, "SLURM_STEP_NUM_NODES", "SLURM_NNODES", 1 << 20, &nodes, err) < 0)
		return -1;
	if (made.rank >= made.size)
		return p4d_fail(err, P4D_E_VALUE, "SLURM_PROCID=%u is not below SLURM_STEP_NUM_TASKS=%u",
				made.rank, made.size);
	if (name)
		snprintf(made.node_name, sizeof(made.node_name), "%.63s", name);
	snprintf(made.session, sizeof(made.session), "%u.%u.%u", job, step, restart);
	if (where(&made, variable, nodes, err) < 0 || key(&made, variable, nodes, err) < 0)
		return -1;
	*ranks = made;
	return 0;
}

/* ---- torchrun and mpirun ---- */

/* Environment variables of a launcher; run: the one that identifies a run. */
typedef struct rank_launcher {
	const char *rank, *size, *local_rank, *local_size, *run;
} rank_launcher;

static const rank_launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

static bool equal(const char *one, const char *other)
{
	return one && other && !strcmp(one, other);
}

/*
 * Whether srun started this process. Tasks of srun may also have a launcher's variables: with srun
 * --mpi=pmi2, or if a script exports RANK=$SLURM_PROCID.
 */
static bool is_task_of_srun(p4d_lookup variable, const rank_launcher *by)
{
	const char *tasks = value(variable, "SLURM_STEP_NUM_TASKS");

	return value(variable, "SLURM_STEP_ID") &&
	       equal(value(variable, "SLURM_PROCID"), value(variable, by->rank)) &&
	       equal(tasks ? tasks : value(variable, "SLURM_NTASKS"), value(variable, by->size));
}

static const rank_launcher *launcher_of(p4d_lookup variable)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++)
		if (value(variable, launchers[i].rank) && value(variable, launchers[i].size))
			return is_task_of_srun(variable, &launchers[i]) ? NULL : &launchers[i];
	return NULL;
}

bool p4d_ranks_are_launched(char *(*variable)(const char *name))
{
	return launcher_of(variable) != NULL;
}

bool p4d_ranks_begin_here(char *(*variable)(const char *name))
{
	const rank_launcher *by = launcher_of(variable);
	const char *rank = value(variable, by ? by->rank : "SLURM_PROCID");

	return !rank || !strcmp(rank, "0");
}

/* Finds the rank's node and its index there, because ranks of a node share memory. */
static int place_on_node(p4d_ranks *ranks, p4d_lookup variable, const rank_launcher *by, uint32_t *nodes,
			 p4d_error *err)
{
	const char *master = value(variable, "MASTER_ADDR");
	uint32_t local = ranks->rank, here = ranks->size;

	if (value(variable, by->local_size)) {
		if (required(variable, by->local_size, NULL, 1 << 20, &here, err) < 0 ||
		    required(variable, by->local_rank, NULL, 1 << 20, &local, err) < 0)
			return -1;
	} else if (master && strcmp(master, "127.0.0.1") != 0 && strcmp(master, "localhost") != 0) {
		p4d_fail(err, P4D_E_RANK,
			 "%s is not set, so p4d-train does not know which ranks are on the same node",
			 by->local_size);
		return p4d_fix(err, "export %s and %s", by->local_rank, by->local_size);
	}
	if (!here || ranks->rank >= ranks->size || ranks->size % here || ranks->rank % here != local)
		return p4d_fail(err, P4D_E_RANK,
				"rank %u of %u is number %u of %u on its node; p4d-train needs the same "
				"number of ranks on every node, in order (mpirun --map-by slot)",
				ranks->rank, ranks->size, local, here);
	*nodes = ranks->size / here;
	ranks->node = ranks->rank / here;
	ranks->local = local;
	return 0;
}

static int meet_at_master(p4d_ranks *ranks, p4d_lookup variable, uint32_t nodes, p4d_error *err)
{
	const char *master = value(variable, "MASTER_ADDR"), *port = value(variable, "MASTER_PORT");
	uint32_t at = 0;

	if (nodes > 1 && !master) {
		p4d_fail(err, P4D_E_RANK, "MASTER_ADDR is not set: the ranks are on %u nodes", nodes);
		return p4d_fix(err, "export MASTER_ADDR=HOST, with the host of rank 0");
	}
	if (nodes > 1 && strlen(master) >= sizeof(ranks->host))
		return p4d_fail(err, P4D_E_VALUE, "MASTER_ADDR has %zu characters, at most %zu",
				strlen(master), sizeof(ranks->host) - 1);
	snprintf(ranks->host, sizeof(ranks->host), "%s", nodes > 1 ? master : "127.0.0.1");
	/* torchrun's agent listens on MASTER_PORT, so rank 0 needs another port */
	if (port && !equal(value(variable, "TORCHELASTIC_USE_AGENT_STORE"), "True")) {
		if (required(variable, "MASTER_PORT", NULL, UINT16_MAX, &at, err) < 0)
			return -1;
		ranks->port = (uint16_t)at;
		ranks->ports = 1;
		return 0;
	}
	derive_ports(ranks);
	return 0;
}

/* The session's name is the same in all ranks of a run, and differs in the next run. */
static void name_session(p4d_ranks *ranks, p4d_lookup variable, const rank_launcher *by)
{
	const char *const parts[] = {by->run, "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"};
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		const char *text = value(variable, parts[i]);
		hash = p4d_wire__hash(hash, text ? text : "", text ? strlen(text) + 1 : 1);
	}
	snprintf(ranks->session, sizeof(ranks->session), "run-%016llx", (unsigned long long)hash);
}

int p4d_ranks_launched(p4d_ranks *ranks, char *(*variable)(const char *name), uint32_t *nodes, p4d_error *err)
{
	p4d_ranks made = {.join_seconds = P4D_JOIN_SECONDS, .idle_seconds = P4D_IDLE_SECONDS};
	const rank_launcher *by = launcher_of(variable);

	if (!by)
		return p4d_fail(err, P4D_E_RANK, "neither RANK nor OMPI_COMM_WORLD_RANK nor PMI_RANK is set");
	if (required(variable, by->rank, NULL, 1 << 20, &made.rank, err) < 0 ||
	    required(variable, by->size, NULL, 1 << 20, &made.size, err) < 0 ||
	    place_on_node(&made, variable, by, nodes, err) < 0)
		return -1;
	name_session(&made, variable, by);
	if (meet_at_master(&made, variable, *nodes, err) < 0 || key(&made, variable, *nodes, err) < 0)
		return -1;
	*ranks = made;
	return 0;
}
