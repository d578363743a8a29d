/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * From here on SIGBUS, which a mapped file raises where it has become shorter and a page cannot be read, is
 * an error with the file's name, and ends the process with P4D_E_DATA.
 */
void p4d_page_fault_catch(const char *host, uint32_t rank);
