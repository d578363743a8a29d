/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/optimizer.h"

const p4d_optimizer p4d_optimizers[P4D_OPTIMIZERS] = {
    [P4D_ADAMW] = {"adamw",
		   3,
		   {{"optimizer.master", "master"},
		    {"optimizer.first_moment", "first"},
		    {"optimizer.second_moment", "second"}}},
};
