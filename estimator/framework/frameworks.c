/* SPDX-License-Identifier: Apache-2.0 */
#include "request/framework.h"

#define FRAMEWORK(id, name) extern const p4d_framework p4d_framework__##name;
P4D_FRAMEWORK_LIST(FRAMEWORK, )
#undef FRAMEWORK

const p4d_framework *const p4d_frameworks[P4D_FRAMEWORKS] = {
#define FRAMEWORK(id, name) [P4D_FRAMEWORK_##id] = &p4d_framework__##name,
    P4D_FRAMEWORK_LIST(FRAMEWORK, )
#undef FRAMEWORK
};
