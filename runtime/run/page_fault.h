/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * A mapped file that has become shorter raises SIGBUS when a page cannot be read. From here on this is an
 * error with the file's name, which ends the process with P4D_E_DATA.
 */
void p4d_page_fault_catch(const char *host, uint32_t rank);
