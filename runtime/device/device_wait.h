/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/device.h"

/*
 * A host that waits for its device or for other ranks calls this in a loop. It calls the device's watch and
 * returns the watch's error. At first it only yields; after many calls it sleeps briefly. *turn: the number
 * of calls so far, 0 before the first.
 */
int p4d_device_pause(p4d_device *device, unsigned *turn, p4d_error *err);
