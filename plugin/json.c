/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

const p4d_json_calls p4d_json = {
    .build = P4D_MODULE_BUILD,
    .read_model = p4d_model_file_read,
    .read_gpus = p4d_gpus_read,
};
