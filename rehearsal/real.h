/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Returns NVIDIA's own function NAME from LIBRARY ("libcudnn.so.9"). It may only be used without a device.
 * NULL: the library is not installed.
 */
void *p4d_real(const char *library, const char *name);
