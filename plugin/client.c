/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include "spank_step.h"
#include "spank_submit.h"

const p4d_client_calls p4d_client = {
    .build = P4D_MODULE_BUILD,
    .submit_job = p4d_submit_job,
    .submit_step = p4d_submit_step,
    .step_judge = p4d_step_judge,
    .step_task = p4d_step_task,
    .step_task_ended = p4d_step_task_ended,
};
