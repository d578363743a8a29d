/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This library is preloaded into the daemons and clients of a private cluster on a machine whose name does
 * not resolve to the loopback address. Slurm can only listen on all addresses or on the address of its
 * host name.
 */
#include <stdio.h>
#include <unistd.h>

int gethostname(char *name, size_t size)
{
	return snprintf(name, size, "localhost") < (int)size ? 0 : -1;
}
