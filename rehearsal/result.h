/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Stores RESULT as the calling thread's last error unless it is 0, and returns it, as functions of the
 * CUDA runtime do. */
int p4d_result(int result);
