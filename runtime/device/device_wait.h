/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/device.h"

/*
 * What a host does that waits for its device or for others: asks the device's watch, whose error it is;
 * spins, then naps. *turn counts, from 0.
 */
int p4d_device_pause(p4d_device *device, unsigned *turn, p4d_error *err);
