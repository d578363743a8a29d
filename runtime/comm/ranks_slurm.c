/* SPDX-License-Identifier: Apache-2.0 */
/* Rank and rendezvous of this process: from the environment of srun's tasks, or made up for forked ranks. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "comm/comm.h"
#include "comm/wire.h"

/* Below Linux's ephemeral ports. */
enum { FIRST_PORT = 20000, END_PORT = 32000, PORTS = 8 };

int p4d_ranks_local(p4d_ranks *ranks, uint32_t size, p4d_error *err)
{
	p4d_ranks made = {
	    .size = size,
	    .host = "127.0.0.1",
	    .ports = PORTS,
	    .join_seconds = P4D_JOIN_SECONDS,
	    .idle_seconds = P4D_IDLE_SECONDS,
	};

	if (p4d_wire__random(&made.key, sizeof(made.key)) < 0)
		return p4d_fail(err, P4D_E_IO, "no random numbers: %s", strerror(errno));
	made.port = (uint16_t)(FIRST_PORT + made.key % ((END_PORT - FIRST_PORT) / PORTS) * PORTS);
	snprintf(made.session, sizeof(made.session), "local-%d-%08x", getpid(), (unsigned)(made.key >> 32));
	*ranks = made;
	return 0;
}

typedef char *(*p4d_lookup)(const char *name);

/* Empty counts as unset. */
static const char *value(p4d_lookup variable, const char *name)
{
	const char *text = variable(name);

	return text && *text ? text : NULL;
}

/* "0".."most", nothing else; -1: malformed */
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
		return p4d_fail(err, P4D_E_RANK, "%s is not set: not started by srun", name);
	int64_t n = number(text, strlen(text), most);
	if (n < 0)
		return p4d_fail(err, P4D_E_VALUE, "%s=%.40s is not a number from 0 to %lld", name, text,
				(long long)most);
	*to = (uint32_t)n;
	return 0;
}

/* First host of "a,b", "n[03-07,9]", "rack[2-3]n[1-4]": every bracket stands for its first number. */
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

static int where(p4d_ranks *ranks, p4d_lookup variable, p4d_error *err)
{
	const char *host = value(variable, "P4D_JOB_HOST");
	const char *nodes = value(variable, "SLURM_STEP_NODELIST");
	const char *launcher = value(variable, "SLURM_LAUNCH_NODE_IPADDR");
	const char *reserved = value(variable, "SLURM_STEP_RESV_PORTS");

	if (launcher && strlen(launcher) < sizeof(ranks->other_host))
		snprintf(ranks->other_host, sizeof(ranks->other_host), "%s", launcher);
	if (host) {
		if (strlen(host) >= sizeof(ranks->host))
			return p4d_fail(err, P4D_E_VALUE, "P4D_JOB_HOST has %zu characters, at most %zu",
					strlen(host), sizeof(ranks->host) - 1);
		snprintf(ranks->host, sizeof(ranks->host), "%s", host);
	} else if (!nodes) {
		return p4d_fail(err, P4D_E_RANK, "SLURM_STEP_NODELIST is not set: not started by srun");
	} else if (first_host(ranks->host, sizeof(ranks->host), nodes, err) < 0) {
		return -1;
	}
	if (!reserved) {
		uint64_t from = p4d_wire__mac(0, ranks->session, strlen(ranks->session));
		ranks->ports = PORTS;
		ranks->port = (uint16_t)(FIRST_PORT + from % ((END_PORT - FIRST_PORT) / PORTS) * PORTS);
		return 0;
	}
	/* of "12000-12003,12010" the first range is enough */
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

static int key(p4d_ranks *ranks, p4d_lookup variable, p4d_error *err)
{
	/* what all tasks of a job know, and few other processes do */
	static const char *const known[] = {
	    "SLURM_CLUSTER_NAME",   "SLURM_JOB_UID",        "SLURM_JOB_USER",
	    "SLURM_JOB_START_TIME", "SLURM_JOB_NODELIST",   "SLURM_JOB_NAME",
	    "SLURM_SUBMIT_DIR",     "SLURM_SRUN_COMM_PORT", "SLURM_JOB_ACCOUNT"};
	const char *hex = value(variable, "P4D_JOB_KEY");
	char lower[65];

	if (!hex) {
		ranks->key = p4d_wire__mac(2, ranks->session, strlen(ranks->session));
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			const char *text = value(variable, known[i]);
			if (text)
				ranks->key = p4d_wire__mac(ranks->key + i, text, strlen(text));
		}
		return 0;
	}
	size_t length = strlen(hex);
	/* the message must not contain the key */
	if (length < 16 || length > 64 || strspn(hex, "0123456789abcdefABCDEF") != length)
		return p4d_fail(err, P4D_E_VALUE, "P4D_JOB_KEY is not 16 to 64 hex digits");
	for (size_t i = 0; i < length; i++)
		lower[i] = (char)tolower((unsigned char)hex[i]);
	ranks->key = p4d_wire__mac(3, lower, length);
	return 0;
}

int p4d_ranks_from_slurm(p4d_ranks *ranks, char *(*variable)(const char *name), p4d_error *err)
{
	p4d_ranks made = {.join_seconds = P4D_JOIN_SECONDS, .idle_seconds = P4D_IDLE_SECONDS};
	const char *name = value(variable, "SLURMD_NODENAME");
	uint32_t job, step, restart = 0;

	if (required(variable, "SLURM_STEP_ID", "SLURM_STEPID", UINT32_MAX, &step, err) < 0 ||
	    required(variable, "SLURM_JOB_ID", "SLURM_JOBID", UINT32_MAX, &job, err) < 0 ||
	    required(variable, "SLURM_PROCID", NULL, 1 << 20, &made.rank, err) < 0 ||
	    required(variable, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", 1 << 20, &made.size, err) < 0 ||
	    required(variable, "SLURM_NODEID", NULL, 1 << 20, &made.node, err) < 0)
		return -1;
	if (value(variable, "SLURM_RESTART_COUNT") &&
	    required(variable, "SLURM_RESTART_COUNT", NULL, UINT32_MAX, &restart, err) < 0)
		return -1;
	if (made.rank >= made.size)
		return p4d_fail(err, P4D_E_VALUE, "SLURM_PROCID=%u is not below SLURM_STEP_NUM_TASKS=%u",
				made.rank, made.size);
	if (name)
		snprintf(made.node_name, sizeof(made.node_name), "%.63s", name);
	snprintf(made.session, sizeof(made.session), "%u.%u.%u", job, step, restart);
	if (where(&made, variable, err) < 0 || key(&made, variable, err) < 0)
		return -1;
	*ranks = made;
	return 0;
}
