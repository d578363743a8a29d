/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_wait.h"

#include <sched.h>
#include <time.h>

/* How often a waiting host yields before it sleeps: about the time of a short device operation. */
enum { YIELDS = 200 };

int p4d_device_pause(p4d_device *device, unsigned *turn, p4d_error *err)
{
	const struct timespec nap = {.tv_nsec = 20000};

	if (device->watch && device->watch(device->watch_context, err) < 0)
		return -1;
	if ((*turn)++ < YIELDS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
	return 0;
}
