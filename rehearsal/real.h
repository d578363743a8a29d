/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* NVIDIA's own function NAME of LIBRARY ("libcudnn.so.9"), for functions that need no device; NULL: the
 * library is not installed. */
void *p4d_real(const char *library, const char *name);
