/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/framework.h"

extern const p4d_framework_arguments p4d_megatron__arguments;
