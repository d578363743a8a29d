/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* NVIDIA's own function NAME of LIBRARY ("libcudnn.so.9"), for what needs no device; NULL: it is not there.
 */
void *p4d_real(const char *library, const char *name);
