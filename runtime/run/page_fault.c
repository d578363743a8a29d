/* SPDX-License-Identifier: Apache-2.0 */
#include "run/page_fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/rank_error.h"

static char name[64];
static uint32_t number;

/*
 * Returns the path in a line of /proc/self/maps ("begin-end mode offset device inode path") if the line's
 * range has this address; else NULL.
 */
static const char *path_in(const char *line, uintptr_t address)
{
	char *at;
	const uintptr_t begin = strtoull(line, &at, 16), end = *at == '-' ? strtoull(at + 1, &at, 16) : 0;

	return address >= begin && address < end ? strchr(at, '/') : NULL;
}

/* Finds the file that is mapped at an address. Runs in a signal handler, so it allocates nothing. */
static bool find_file(uintptr_t address, char *path, size_t size)
{
	char line[4096];
	size_t length = 0;
	const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const char *found = NULL;

	for (char c; fd >= 0 && !found && read(fd, &c, 1) == 1;) {
		if (c != '\n' && length + 1 < sizeof(line)) {
			line[length++] = c;
			continue;
		}
		line[length] = '\0';
		length = 0;
		found = path_in(line, address);
	}
	if (fd >= 0)
		close(fd);
	if (found)
		snprintf(path, size, "%s", found);
	return found;
}

static void fault(int signal, siginfo_t *info, void *unused)
{
	char path[400];
	p4d_error err;

	(void)unused;
	if (!find_file((uintptr_t)info->si_addr, path, sizeof(path))) {
		struct sigaction fatal = {.sa_handler = SIG_DFL};
		sigaction(signal, &fatal, NULL);
		return; /* the access is repeated, and the signal comes again */
	}
	p4d_fail(&err, P4D_E_DATA,
		 "%s: can no longer be read: the file became shorter, or its disk failed or is full", path);
	p4d_rank_error_final(&err, name, number);
	_exit(P4D_E_DATA);
}

void p4d_page_fault_catch(const char *host, uint32_t rank)
{
	struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};

	snprintf(name, sizeof(name), "%s", host);
	number = rank;
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
