/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "site/associations.h"

/*
 * Asks slurmctld (which gets the answers from slurmdbd) for users, accounts and QOSes, and for the QOSes of
 * partitions: two RPCs. Never call it under slurmctld's locks. Without accounting the result is empty. The
 * caller frees it with p4d_associations_free. Returns NULL on failure. Errors: IO, NO_MEMORY, VALUE.
 */
p4d_associations *p4d_accounting_load(p4d_error *err);
