/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/device.h"

/*
 * One turn of a host that waits for its device or for other ranks: calls the device's watch, whose error it
 * returns; first spins, later sleeps briefly. *turn counts from 0.
 */
int p4d_device_pause(p4d_device *device, unsigned *turn, p4d_error *err);
