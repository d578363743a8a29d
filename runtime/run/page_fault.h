/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Handles SIGBUS, which is raised if a page of a mapped file cannot be read because the file has become
 * shorter. The handler prints an error with the file's name and ends the process with P4D_E_DATA.
 */
void p4d_page_fault_catch(const char *host, uint32_t rank);
