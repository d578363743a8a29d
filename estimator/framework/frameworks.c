/* SPDX-License-Identifier: Apache-2.0 */
#include "request/framework.h"

#define ENTRY(id, name, variable) extern const p4d_framework p4d_framework__##name;
P4D_FRAMEWORK_LIST(ENTRY)
#undef ENTRY

#define ENTRY(id, name, variable) [P4D_FRAMEWORK_##id] = &p4d_framework__##name,
const p4d_framework *const p4d_frameworks[P4D_FRAMEWORKS] = {P4D_FRAMEWORK_LIST(ENTRY)};
