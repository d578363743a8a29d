/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Returns RESULT and, unless it is 0, stores it as the calling thread's last error, as functions of the CUDA
 * runtime do.
 */
int p4d_result(int result);
