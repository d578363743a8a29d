/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/pictures.h"

#include <inttypes.h>
#include <stdio.h>

const char *p4d_picture__title(const p4d_picture *picture, char *buf, size_t size)
{
	const p4d_layout *l = picture->layout;

	snprintf(buf, size, "%s · %" PRIu64 " × %s", picture->model, l->world,
		 picture->gpu             ? picture->gpu->name
		 : !p4d_on_gpu(l->device) ? "CPU"
					  : "GPU");
	return buf;
}

const char *p4d_picture__layout(const p4d_picture *picture, char *buf, size_t size)
{
	const p4d_layout *l = picture->layout;
	char schedule[32], vocabulary[32], recompute[32], slices[32] = "", tp[P4D_TP_TEXT];

	p4d_request_choice_name(P4D_VOCAB_PARALLEL, l->vocab_parallel, vocabulary, sizeof(vocabulary));
	if (l->slices > 1)
		snprintf(slices, sizeof(slices), " of %" PRIu64 " slices", l->slices);
	snprintf(buf, size,
		 "tp %s · cp %" PRIu64 " · pp %" PRIu64 " · vpp %" PRIu64 " · dp %" PRIu64
		 " · %s%s%s%s%s · %" PRIu64 " micro-batches of %" PRIu64 " × %" PRIu64
		 " tokens · recompute %s",
		 p4d_layout_tp_text(l, tp), l->cp, l->pp, l->vpp, l->dp,
		 p4d_request_choice_name(P4D_SCHEDULE, l->schedule, schedule, sizeof(schedule)),
		 l->vocab_parallel == P4D_VOCAB_OFF ? "" : " + ",
		 l->vocab_parallel == P4D_VOCAB_OFF ? "" : vocabulary, l->local_loss ? " + local losses" : "",
		 slices, l->micro_batches, l->micro_batch, l->seq_len,
		 p4d_request_choice_name(P4D_RECOMPUTE, l->recompute, recompute, sizeof(recompute)));
	return buf;
}
