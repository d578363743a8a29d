/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Short names for what writes a module's operations, of files that hold little else. */
#include "framework/transformers.h"

#define made p4d_transformers__made
#define view p4d_transformers__view
#define op p4d_transformers__operation
#define needs p4d_transformers__needs
#define cast p4d_transformers__cast
#define map p4d_transformers__map
#define plus p4d_transformers__plus
#define times p4d_transformers__times
#define norm p4d_transformers__norm
#define product p4d_transformers__product
#define hold p4d_transformers__hold
